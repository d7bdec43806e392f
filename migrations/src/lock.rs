//! One runner at a time, in each database's own way.

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, IsolationLevel, SqliteTransactionMode,
    Statement, TransactionOptions, TransactionTrait,
};

use crate::{Dialect, Error, error::While};

/// A runner that works holds the lock for well under a second; one that waits longer waits for something broken.
const LOCK_WAIT_SECONDS: u32 = 60;

/// The DDL of the guard queues behind open transactions on `earmark_claim`, and every claim queues behind the DDL.
const DDL_WAIT_SECONDS: u32 = 5;

/// "earmark" and a zero, as a number: advisory locks have no names. They are apart for each database of a server.
const ADVISORY_KEY: i64 = 0x6561_726d_6172_6b00;

/// A transaction that holds the migration lock. On PostgreSQL and SQLite it also makes the whole run one commit; MySQL
/// commits at each DDL statement, so there it only keeps one connection, to which the named lock belongs.
pub(crate) struct Locked {
    pub(crate) tx: DatabaseTransaction,
    dialect: Dialect,
    /// A pooler lends us a server of PostgreSQL for this transaction only.
    lent: bool,
}

/// sea-orm prepares every statement under a name, counted from 1 by each client, and never closes it where its cache is off. On a server
/// that clients are lent in turn, these names are not ours alone.
const FORGET: &str = "DEALLOCATE ALL";

impl Locked {
    pub(crate) async fn take(db: &DatabaseConnection, dialect: Dialect, pooler: bool) -> Result<Self, Error> {
        let lent = pooler && dialect == Dialect::Postgres;
        let options = match dialect {
            // The level is set below, after the names are free.
            Dialect::Postgres if lent => TransactionOptions::default(),
            // Under REPEATABLE READ, which may be a server's default, the snapshot would be older than the lock, and
            // the loser would not see what the winner has done.
            Dialect::Postgres | Dialect::MySql => TransactionOptions {
                isolation_level: Some(IsolationLevel::ReadCommitted),
                ..TransactionOptions::default()
            },
            // Deferred, it would read first and then fail at once (517) instead of waiting for its turn.
            Dialect::Sqlite => TransactionOptions {
                sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            },
        };
        let tx = db.begin_with_options(options).await.while_("beginning the transaction of the migration")?;
        let locked = Self { tx, dialect, lent };
        if lent {
            let sql = format!("{FORGET}; SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
            locked.tx.execute_unprepared(&sql).await.while_("beginning the transaction of the migration")?;
        }
        match dialect {
            Dialect::Postgres => locked.advisory_lock().await?,
            Dialect::MySql => locked.named_lock().await?,
            Dialect::Sqlite => {}
        }
        Ok(locked)
    }

    async fn advisory_lock(&self) -> Result<(), Error> {
        let sql = format!(
            "SET LOCAL lock_timeout = '{LOCK_WAIT_SECONDS}s'; SELECT pg_advisory_xact_lock({ADVISORY_KEY}); \
             SET LOCAL lock_timeout = '{DDL_WAIT_SECONDS}s'"
        );
        self.tx.execute_unprepared(&sql).await.while_("waiting for the migration lock (another runner?)")?;
        Ok(())
    }

    async fn named_lock(&self) -> Result<(), Error> {
        let sql = format!("SELECT GET_LOCK({LOCK_NAME}, {LOCK_WAIT_SECONDS}) AS got");
        let got: Option<i64> = self.one(&sql, "waiting for the migration lock").await?;
        if got != Some(1) {
            return Err(Error::Locked { seconds: LOCK_WAIT_SECONDS });
        }
        let sql = format!(
            "SET @earmark_lock_wait_timeout = @@SESSION.lock_wait_timeout; \
             SET SESSION lock_wait_timeout = {DDL_WAIT_SECONDS}"
        );
        self.tx.execute_unprepared(&sql).await.while_("bounding the wait of the migration")?;
        Ok(())
    }

    async fn one(&self, sql: &str, doing: &'static str) -> Result<Option<i64>, Error> {
        let statement = Statement::from_string(self.tx.get_database_backend(), sql);
        match self.tx.query_one_raw(statement).await.while_(doing)? {
            Some(row) => row.try_get_by_index(0).while_(doing),
            None => Ok(None),
        }
    }

    /// Ends the run: commits what went well, rolls back what did not, and gives the lock back either way.
    pub(crate) async fn end<T>(self, outcome: Result<T, Error>) -> Result<T, Error> {
        if self.dialect == Dialect::MySql {
            // The session goes back to a pool, so the lock does not end with it.
            let sql = format!(
                "SET SESSION lock_wait_timeout = @earmark_lock_wait_timeout; DO RELEASE_LOCK({LOCK_NAME})"
            );
            let released = self.tx.execute_unprepared(&sql).await;
            if let Err(error) = released {
                tracing::warn!(%error, "the migration lock was not released; it ends with its connection");
            }
        }
        match outcome {
            Ok(value) => {
                if self.lent {
                    self.tx.execute_unprepared(FORGET).await.while_("ending the migration")?;
                }
                self.tx.commit().await.while_("committing the migration")?;
                Ok(value)
            }
            Err(error) => {
                if let Err(rollback) = self.tx.rollback().await {
                    tracing::warn!(error = %rollback, "the migration was not rolled back; the server does it");
                }
                Err(error)
            }
        }
    }
}

/// Named locks are the server's, not the database's, and their names are at most 64 characters long.
const LOCK_NAME: &str = "CONCAT('earmark_migrations_', MD5(DATABASE()))";
