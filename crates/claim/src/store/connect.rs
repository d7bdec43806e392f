//! The store's own connections: built from a URL, or from the host pool's options, so that TLS, search path,
//! credentials and hooks are inherited. Must run on the writer's runtime, to which the connections then belong.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, ExecResult, QueryResult, Statement};

use super::dialect::Dialect;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::kept::Kept;
use super::options::StoreOptions;
use super::tx::{Begin, Tx};
use crate::error::Error;

/// Where the store's connections come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// A URL: `postgres://`, `mysql://`, `sqlite://`.
    Url(String),
    /// A host's pool, whose options are copied.
    Host(DatabaseConnection),
}

/// Pools of the store's own.
pub(crate) struct Pools {
    pub(crate) dialect: Dialect,
    /// For inserts of claims: each may wait for a stranger's transaction that has made the same claim, for as long as that one likes.
    pub(crate) claims: DatabaseConnection,
    /// For every other write: what a provider has answered must not wait behind those. (SQLite has one writer for both.)
    pub(crate) write: DatabaseConnection,
    pub(crate) read: DatabaseConnection,
    /// For the purge, made at its first use: it takes no place of a claim or a settle. (SQLite has one writer for all.)
    pub(crate) purge: DatabaseConnection,
    /// Connections of `claims` that stay in hand.
    #[cfg(feature = "postgres")]
    pub(crate) kept_postgres: Kept<sqlx::Postgres>,
    #[cfg(feature = "mysql")]
    pub(crate) kept_mysql: Kept<sqlx::MySql>,
    /// A pooler in transaction mode stands between.
    pub(crate) pooler: bool,
    /// How long a write waits for somebody else's lock before it is tried again.
    pub(crate) lock_timeout: Duration,
}

impl Pools {
    /// Whether one statement by itself is a safe claim or settle. Not behind a pooler: the driver prepares a statement in one
    /// exchange and executes it in the next, and each may reach another server.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) const fn autocommit_is_safe(&self) -> bool {
        self.dialect.autocommit_is_safe() && !self.pooler
    }

    /// One statement of a batch, committed: by itself where that is safe, else in a transaction of its own.
    pub(crate) async fn execute_claim(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres if self.autocommit_is_safe() => {
                let pool = self.claims.get_postgres_connection_pool();
                super::tx::postgres::execute_alone(&self.kept_postgres, pool, statement).await
            }
            #[cfg(feature = "mysql")]
            Dialect::MySql if self.autocommit_is_safe() => {
                let pool = self.claims.get_mysql_connection_pool();
                super::tx::mysql::execute_alone(&self.kept_mysql, pool, statement).await
            }
            _ => {
                let tx = self.begin_claim().await?;
                let done = tx.execute_raw(statement).await?;
                tx.commit().await?;
                Ok(done)
            }
        }
    }

    /// The same, where rows are answered. Read to its end: a driver that stops at the first row may never see that the commit failed.
    pub(crate) async fn query_claim(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres if self.autocommit_is_safe() => {
                let pool = self.claims.get_postgres_connection_pool();
                super::tx::postgres::query_alone(&self.kept_postgres, pool, statement).await
            }
            _ => {
                let tx = self.begin_claim().await?;
                let rows = tx.query_all_raw(statement).await?;
                tx.commit().await?;
                Ok(rows)
            }
        }
    }

    /// Lets go of the connections in hand, before the pools are closed.
    pub(crate) fn give_back(&self) {
        #[cfg(feature = "postgres")]
        self.kept_postgres.clear();
        #[cfg(feature = "mysql")]
        self.kept_mysql.clear();
    }

    /// A transaction for a batch, on the connections that are kept for them.
    pub(crate) async fn begin_claim(&self) -> Result<Tx, DbErr> {
        let begin = Begin { for_claims: true, ..self.writing() };
        Tx::begin(&self.claims, begin).await
    }

    /// The same for one insert that gives up at once, as near as can be, on a key that somebody holds.
    pub(crate) async fn begin_claim_briefly(&self) -> Result<Tx, DbErr> {
        let begin = Begin { lock_timeout: Some(BRIEFLY), ..self.writing() };
        Tx::begin(&self.claims, begin).await
    }

    /// A transaction for any other write that gives up soon on a row that somebody holds.
    pub(crate) async fn begin_briefly(&self) -> Result<Tx, DbErr> {
        let begin = Begin { lock_timeout: Some(BRIEFLY), ..self.writing() };
        Tx::begin(&self.write, begin).await
    }

    /// A transaction for any other write.
    pub(crate) async fn begin(&self) -> Result<Tx, DbErr> {
        Tx::begin(&self.write, self.writing()).await
    }

    fn writing(&self) -> Begin {
        Begin {
            options: self.dialect.writing(),
            lock_timeout: Some(self.lock_timeout),
            pooler: self.pooler,
            for_claims: false,
        }
    }

    /// A transaction of the purge.
    pub(crate) async fn begin_purge(&self) -> Result<Tx, DbErr> {
        Tx::begin(&self.purge, self.writing()).await
    }

    /// A transaction that reads everything at one snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Tx, DbErr> {
        Tx::begin(&self.read, Begin::reading(self.dialect.snapshot(), self.pooler)).await
    }

    /// One read, on a connection that writes nothing.
    pub(crate) async fn read_rows(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        rows(&self.read, self.dialect, self.pooler, statement).await
    }
}

/// One read by itself, or in a transaction of its own behind a pooler.
pub(crate) async fn rows(
    db: &DatabaseConnection,
    dialect: Dialect,
    pooler: bool,
    statement: Statement,
) -> Result<Vec<QueryResult>, DbErr> {
    if !pooler {
        return db.query_all_raw(statement).await;
    }
    let tx = Tx::begin(db, Begin::reading(dialect.reading(), pooler)).await?;
    let rows = tx.query_all_raw(statement).await?;
    tx.commit().await?;
    Ok(rows)
}

pub(crate) async fn open(source: Source, options: &StoreOptions) -> Result<Pools, Error> {
    match source {
        Source::Url(url) => from_url(&url, options).await,
        Source::Host(host) => from_host(&host, options).await,
    }
}

#[cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(unused_variables))]
async fn from_url(url: &str, options: &StoreOptions) -> Result<Pools, Error> {
    let scheme = url.split_once("://").or_else(|| url.split_once(':')).map_or("", |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let connect = url.parse::<sqlx::postgres::PgConnectOptions>().map_err(|e| bad_url(&e))?;
            postgres::open(connect, sqlx::pool::PoolOptions::new(), options).await
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => {
            let connect = url.parse::<sqlx::mysql::MySqlConnectOptions>().map_err(|e| bad_url(&e))?;
            mysql::open(connect, sqlx::pool::PoolOptions::new(), options).await
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let connect = url.parse::<sqlx::sqlite::SqliteConnectOptions>().map_err(|e| bad_url(&e))?;
            sqlite::open(connect, sqlx::pool::PoolOptions::new(), options).await
        }
        // Without naming what is there: where no scheme is, it may be a password.
        _ => Err(Error::Config(vec![
            "the database URL has none of the schemes known here: use postgres://, mysql:// or sqlite://, and enable the \
             crate's feature of that name"
                .to_owned(),
        ])),
    }
}

#[cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(unused_variables))]
async fn from_host(host: &DatabaseConnection, options: &StoreOptions) -> Result<Pools, Error> {
    match &host.inner {
        #[cfg(feature = "postgres")]
        sea_orm::DatabaseConnectionType::SqlxPostgresPoolConnection(_) => {
            let pool = host.get_postgres_connection_pool();
            postgres::open((*pool.connect_options()).clone(), pool.options().clone(), options).await
        }
        #[cfg(feature = "mysql")]
        sea_orm::DatabaseConnectionType::SqlxMySqlPoolConnection(_) => {
            let pool = host.get_mysql_connection_pool();
            mysql::open((*pool.connect_options()).clone(), pool.options().clone(), options).await
        }
        #[cfg(feature = "sqlite")]
        sea_orm::DatabaseConnectionType::SqlxSqlitePoolConnection(_) => {
            let pool = host.get_sqlite_connection_pool();
            sqlite::open((*pool.connect_options()).clone(), pool.options().clone(), options).await
        }
        _ => Err(Error::Config(vec![
            "the connection is a mock, a proxy or disconnected, or its database's feature is off: claims need a real \
             PostgreSQL, MySQL/MariaDB or SQLite pool"
                .to_owned(),
        ])),
    }
}

/// Without the URL, which may hold a password.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn bad_url(error: &sqlx::Error) -> Error {
    Error::Config(vec![format!("the database URL cannot be read: {error}")])
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(super) fn unreachable(error: sqlx::Error) -> Error {
    Error::Connect(sea_orm::DbErr::Conn(sea_orm::RuntimeErr::SqlxError(std::sync::Arc::new(error))))
}

/// Connections for the batches, and beside them one for the rows of failed batches, which are tried alone, and one for those that strangers
/// hold up.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn for_claims(dialect: Dialect, options: &StoreOptions) -> u32 {
    let batches = dialect.lanes(options.write_connections).flushers_max();
    u32::try_from(batches).unwrap_or(u32::MAX).saturating_add(2)
}

/// Longer than the commit of somebody who is just making the same claim; short enough for a hundred keys that are held.
const BRIEFLY: Duration = Duration::from_millis(10);

/// What all pools of ours share. `test_before_acquire` is off: the ping costs a fifth of the throughput of one task, and a dead
/// connection shows as an unclear commit, which is read back anyway.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! pool {
    ($pool:expr, $connections:expr, $options:expr) => {
        $pool
            .min_connections(0)
            .max_connections($connections)
            .acquire_timeout($options.acquire_timeout)
            .test_before_acquire(false)
    };
}

#[cfg(feature = "postgres")]
pub(super) mod postgres {
    use sea_orm::SqlxPostgresConnector;
    use sqlx::ConnectOptions;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

    use super::{Dialect, Error, Pools, StoreOptions, for_claims, unreachable};

    /// Settings of the connections on which batches are written. A row that a stranger's transaction holds must not hold up its neighbours
    /// for long. And each row is looked up by its key: a plan that reads the whole table, made while that was small, would be kept
    /// while it grows.
    /// READ COMMITTED whatever the server's default, as in every transaction of ours.
    pub(in crate::store) const FOR_CLAIMS: [(&str, &str); 6] = [
        // Known by this for connections that nobody else shares: see `check::pooler`.
        ("earmark.lane", "claims"),
        ("default_transaction_isolation", "read committed"),
        ("lock_timeout", "100ms"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
    ];

    pub(super) async fn open(
        connect: PgConnectOptions,
        pool: PgPoolOptions,
        options: &StoreOptions,
    ) -> Result<Pools, Error> {
        let mut connect = connect.disable_statement_logging();
        if options.pooler {
            // Nothing of ours is a float, and PgBouncer refuses a start-up parameter that it does not know.
            connect = connect.statement_cache_capacity(0).extra_float_digits(None);
        }
        // Behind a pooler they go with each transaction.
        let settings = if options.pooler { connect.clone() } else { connect.clone().options(FOR_CLAIMS) };
        let open = async |connect: &PgConnectOptions, connections| {
            let pool = pool!(pool.clone(), connections, options);
            let pool = pool.connect_with(connect.clone()).await.map_err(|e| refused(e, options.pooler))?;
            Ok::<_, Error>(SqlxPostgresConnector::from_sqlx_postgres_pool(pool))
        };
        Ok(Pools {
            dialect: Dialect::Postgres,
            claims: open(&settings, for_claims(Dialect::Postgres, options)).await?,
            write: open(&connect, options.write_connections).await?,
            read: open(&connect, options.read_connections).await?,
            purge: SqlxPostgresConnector::from_sqlx_postgres_pool(
                pool!(pool.clone(), 1, options).connect_lazy_with(connect.clone()),
            ),
            #[cfg(feature = "postgres")]
            kept_postgres: super::Kept::new(options.write_connections as usize),
            #[cfg(feature = "mysql")]
            kept_mysql: super::Kept::new(options.write_connections as usize),
            pooler: options.pooler,
            lock_timeout: options.lock_timeout,
        })
    }

    /// The server itself knows every parameter that the driver sends.
    fn refused(error: sqlx::Error, pooler: bool) -> Error {
        let fix = if pooler {
            "take it out of the URL or the pool's options, and set it on the role or the database instead"
        } else {
            "set pooler (in the configuration: [database] pooler = true), or connect to the server itself"
        };
        match error.as_database_error().map(|e| e.message()) {
            Some(said) if said.contains("startup parameter") => {
                Error::Config(vec![format!("a pooler stands before the server and says: {said}; {fix}")])
            }
            _ => unreachable(error),
        }
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use sea_orm::SqlxMySqlConnector;
    use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
    use sqlx::{ConnectOptions, Executor};

    use super::{Dialect, Error, Pools, StoreOptions, for_claims, unreachable};

    /// Settings of the connections on which batches are written: a row that a stranger's transaction holds must not hold up its
    /// neighbours for long (a second is the least that MySQL knows); and a batch that looks for keys that exist must lock none that do not.
    const FOR_CLAIMS: [&str; 2] = [
        "SET SESSION innodb_lock_wait_timeout = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ];

    pub(super) async fn open(
        connect: MySqlConnectOptions,
        pool: MySqlPoolOptions,
        options: &StoreOptions,
    ) -> Result<Pools, Error> {
        let connect = connect.disable_statement_logging();
        let open = async |pool: &MySqlPoolOptions, connections| {
            let pool = pool!(pool.clone(), connections, options);
            let pool = pool.connect_with(connect.clone()).await.map_err(unreachable)?;
            Ok::<_, Error>(SqlxMySqlConnector::from_sqlx_mysql_pool(pool))
        };
        // In the place of a hook of the host's, if it has one: there is no way to call both.
        let batches = pool.clone().after_connect(|connection, _| {
            Box::pin(async move {
                for setting in FOR_CLAIMS {
                    connection.execute(setting).await?;
                }
                Ok(())
            })
        });
        let batches = if options.pooler { &pool } else { &batches };
        Ok(Pools {
            dialect: Dialect::MySql,
            claims: open(batches, for_claims(Dialect::MySql, options)).await?,
            write: open(&pool, options.write_connections).await?,
            read: open(&pool, options.read_connections).await?,
            purge: SqlxMySqlConnector::from_sqlx_mysql_pool(
                pool!(pool.clone(), 1, options).connect_lazy_with(connect.clone()),
            ),
            #[cfg(feature = "postgres")]
            kept_postgres: super::Kept::new(options.write_connections as usize),
            #[cfg(feature = "mysql")]
            kept_mysql: super::Kept::new(options.write_connections as usize),
            pooler: options.pooler,
            lock_timeout: options.lock_timeout,
        })
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::time::{Duration, Instant};

    use sea_orm::SqlxSqliteConnector;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
    use sqlx::{ConnectOptions, Connection};

    use super::{Dialect, Error, Pools, StoreOptions, unreachable};

    /// How long SQLite waits for another writer before it says "busy". Its own unit of patience, beneath our retries.
    const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
    /// Between two tries to change the file to WAL.
    const BUSY_PAUSE: Duration = Duration::from_millis(20);

    fn is_busy(error: &sqlx::Error) -> bool {
        let code = error.as_database_error().and_then(|e| e.code());
        code.and_then(|c| c.parse::<u32>().ok()).is_some_and(|c| c & 0xff == 5)
    }

    /// One connection writes, others read beside it: that needs WAL. FULL: with NORMAL, WAL may lose acknowledged commits at a
    /// power cut.
    pub(super) async fn open(
        connect: SqliteConnectOptions,
        pool: SqlitePoolOptions,
        options: &StoreOptions,
    ) -> Result<Pools, Error> {
        if options.pooler {
            return Err(Error::Config(vec![
                "pooler is set, and SQLite is a file with nothing before it: leave the option out".to_owned(),
            ]));
        }
        let connect = connect
            .disable_statement_logging()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        // Where SQLite ends a transaction by itself (disk full), the driver's roll-back fails and it counts that transaction for
        // ever: every later "commit" on the connection is the release of a savepoint, and commits nothing. Such a connection is
        // thrown away.
        let writing = pool!(pool.clone(), 1, options).before_acquire(|connection, _| {
            let sound = !connection.is_in_transaction();
            Box::pin(std::future::ready(Ok(sound)))
        });
        let begun = Instant::now();
        let write = loop {
            match writing.clone().connect_with(connect.clone()).await {
                // Changing the file to WAL waits for nobody by itself: the host may be writing.
                Err(e) if is_busy(&e) && begun.elapsed() < BUSY_TIMEOUT => {
                    tokio::time::sleep(BUSY_PAUSE).await
                }
                opened => break opened.map_err(unreachable)?,
            }
        };
        // However it was named: a database without a file is in memory.
        let file = sqlx::query_scalar("SELECT file FROM pragma_database_list WHERE name = 'main'");
        let file: Option<String> = file.fetch_optional(&write).await.map_err(unreachable)?.flatten();
        if file.is_none_or(|file| file.is_empty()) {
            return Err(Error::Config(vec![
                "an in-memory SQLite database is seen by one connection only and lost with it: name a file \
                 (sqlite://earmark.sqlite)"
                    .to_owned(),
            ]));
        }
        let read = pool!(pool, options.read_connections, options)
            .connect_with(connect.read_only(true))
            .await
            .map_err(unreachable)?;
        let write = SqlxSqliteConnector::from_sqlx_sqlite_pool(write);
        Ok(Pools {
            dialect: Dialect::Sqlite,
            claims: write.clone(),
            purge: write.clone(),
            write,
            read: SqlxSqliteConnector::from_sqlx_sqlite_pool(read),
            #[cfg(feature = "postgres")]
            kept_postgres: super::Kept::new(options.write_connections as usize),
            #[cfg(feature = "mysql")]
            kept_mysql: super::Kept::new(options.write_connections as usize),
            pooler: false,
            lock_timeout: options.lock_timeout,
        })
    }
}
