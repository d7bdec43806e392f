//! A transaction on connections of ours.
//!
//! On PostgreSQL and MySQL it is sqlx's own and not sea-orm's. sea-orm has every statement prepared under a name, even where the
//! statement cache is off, and behind a pooler in transaction mode that name may be taken on the server that the transaction gets.
//! Here the statements have no name behind a pooler. And all that a transaction has to be told goes with its `BEGIN`: one round trip
//! instead of two or three.

use std::time::Duration;

use sea_orm::prelude::async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult,
    Statement, TransactionOptions, TransactionTrait,
};

/// How one begins.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))] // SQLite heeds the options alone
pub(crate) struct Begin {
    pub(crate) options: TransactionOptions,
    /// How long a statement may wait for somebody else's lock; `None`: as the server has it. Not for SQLite.
    pub(crate) lock_timeout: Option<Duration>,
    /// A pooler in transaction mode stands between.
    pub(crate) pooler: bool,
    /// It writes a batch, with what a connection for batches has been told where nothing stands between.
    pub(crate) for_claims: bool,
}

impl Begin {
    pub(crate) fn reading(options: TransactionOptions, pooler: bool) -> Self {
        Self { options, lock_timeout: None, pooler, for_claims: false }
    }
}

/// A transaction, rolled back when it is dropped.
pub(crate) enum Tx {
    /// SQLite.
    SeaOrm(DatabaseTransaction),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Tx>),
    #[cfg(feature = "mysql")]
    MySql(Box<mysql::Tx>),
}

// In boxes: the driver's futures are deep, and every caller's future, the user's own too, would hold them all.
impl Tx {
    pub(crate) async fn begin(db: &DatabaseConnection, begin: Begin) -> Result<Self, DbErr> {
        match &db.inner {
            #[cfg(feature = "postgres")]
            sea_orm::DatabaseConnectionType::SqlxPostgresPoolConnection(_) => {
                let tx = Box::pin(postgres::Tx::begin(db.get_postgres_connection_pool(), &begin)).await?;
                Ok(Self::Postgres(Box::new(tx)))
            }
            #[cfg(feature = "mysql")]
            sea_orm::DatabaseConnectionType::SqlxMySqlPoolConnection(_) => {
                let tx = Box::pin(mysql::Tx::begin(db.get_mysql_connection_pool(), &begin)).await?;
                Ok(Self::MySql(Box::new(tx)))
            }
            _ => db.begin_with_options(begin.options).await.map(Self::SeaOrm),
        }
    }

    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.commit().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => Box::pin(tx.commit()).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => Box::pin(tx.commit()).await,
        }
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.rollback().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => Box::pin(tx.rollback()).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => Box::pin(tx.rollback()).await,
        }
    }
}

#[async_trait]
impl ConnectionTrait for Tx {
    fn get_database_backend(&self) -> DbBackend {
        match self {
            Self::SeaOrm(tx) => tx.get_database_backend(),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => DbBackend::Postgres,
            #[cfg(feature = "mysql")]
            Self::MySql(_) => DbBackend::MySql,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.execute_raw(statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.execute(statement).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => tx.execute(statement).await,
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.execute_unprepared(sql).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.execute_unprepared(sql).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => tx.execute_unprepared(sql).await,
        }
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        Ok(self.query_all_raw(statement).await?.into_iter().next())
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.query_all_raw(statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.query_all(statement).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => tx.query_all(statement).await,
        }
    }
}

/// The same words for the driver of each database.
#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! driver {
    ($database:ty) => {
        use sea_orm::{DbErr, ExecResult, QueryResult, Statement, Values};
        use sea_query_sqlx::SqlxValues;
        use sqlx::{AssertSqlSafe, Executor, Pool, SqlSafeStr, Transaction};
        use tokio::sync::Mutex;

        use super::{Begin, errors};
        use crate::store::kept::Kept;

        pub(crate) struct Tx {
            // Statements come through `&self`, as sea-orm's trait has it, and one after the other.
            connection: Mutex<Transaction<'static, $database>>,
            /// Whether statements are kept prepared, to be used again on the same connection.
            kept: bool,
        }

        impl Tx {
            pub(super) async fn begin(pool: &Pool<$database>, begin: &Begin) -> Result<Self, DbErr> {
                let sql = AssertSqlSafe(sql(begin)).into_sql_str();
                let connection = pool.acquire().await.map_err(errors::acquire)?;
                let begun = Transaction::begin(connection, Some(sql)).await.map_err(errors::query)?;
                Ok(Self { connection: Mutex::new(begun), kept: !begin.pooler })
            }

            pub(super) async fn execute(&self, statement: Statement) -> Result<ExecResult, DbErr> {
                let asked = self.asked(statement);
                let done = asked.execute(&mut **self.connection.lock().await).await;
                done.map(ExecResult::from).map_err(errors::exec)
            }

            pub(super) async fn query_all(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
                let asked = self.asked(statement);
                let rows = asked.fetch_all(&mut **self.connection.lock().await).await;
                Ok(rows.map_err(errors::query)?.into_iter().map(QueryResult::from).collect())
            }

            pub(super) async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
                let mut connection = self.connection.lock().await;
                let done = (**connection).execute(AssertSqlSafe(sql.to_owned())).await;
                done.map(ExecResult::from).map_err(errors::exec)
            }

            pub(in crate::store) async fn commit(self) -> Result<(), DbErr> {
                self.connection.into_inner().commit().await.map_err(errors::query)
            }

            pub(super) async fn rollback(self) -> Result<(), DbErr> {
                self.connection.into_inner().rollback().await.map_err(errors::query)
            }

            fn asked(&self, statement: Statement) -> sqlx::query::Query<'static, $database, SqlxValues> {
                asked(statement).persistent(self.kept)
            }
        }

        fn asked(statement: Statement) -> sqlx::query::Query<'static, $database, SqlxValues> {
            let values = SqlxValues(statement.values.unwrap_or(Values(Vec::new())));
            sqlx::query_with(AssertSqlSafe(statement.sql), values)
        }

        /// One statement by itself, read to its end, on a connection that stays in hand.
        pub(in crate::store) async fn execute_alone(
            kept: &Kept<$database>,
            pool: &Pool<$database>,
            statement: Statement,
        ) -> Result<ExecResult, DbErr> {
            let mut on = kept.take(pool).await.map_err(errors::acquire)?;
            let done = asked(statement).execute(&mut *on.connection).await.map_err(errors::exec)?;
            kept.keep(on);
            Ok(ExecResult::from(done))
        }
    };
}

#[cfg(feature = "postgres")]
pub(super) mod postgres {
    use sqlx::postgres::{PgArguments, PgRow, Postgres};

    use crate::store::connect::postgres::FOR_CLAIMS;

    driver!(sqlx::Postgres);

    impl Tx {
        /// A statement whose values are sqlx's own.
        pub(in crate::store) async fn fetch_all(
            &self,
            asked: sqlx::query::Query<'_, Postgres, PgArguments>,
        ) -> Result<Vec<PgRow>, sqlx::Error> {
            asked.persistent(self.kept).fetch_all(&mut **self.connection.lock().await).await
        }
    }

    /// The same as `execute_alone`, where rows are answered.
    pub(in crate::store) async fn query_alone(
        kept: &Kept<Postgres>,
        pool: &Pool<Postgres>,
        statement: Statement,
    ) -> Result<Vec<QueryResult>, DbErr> {
        let mut on = kept.take(pool).await.map_err(errors::acquire)?;
        let rows = asked(statement).fetch_all(&mut *on.connection).await.map_err(errors::query)?;
        kept.keep(on);
        Ok(rows.into_iter().map(QueryResult::from).collect())
    }

    /// A statement by itself whose values are sqlx's own.
    pub(in crate::store) async fn fetch_alone(
        kept: &Kept<Postgres>,
        pool: &Pool<Postgres>,
        asked: sqlx::query::Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DbErr> {
        let mut on = kept.take(pool).await.map_err(errors::acquire)?;
        let rows = asked.fetch_all(&mut *on.connection).await.map_err(errors::exec)?;
        kept.keep(on);
        Ok(rows)
    }

    /// All of it belongs to the transaction and ends with it.
    fn sql(begin: &Begin) -> String {
        let mut sql = "BEGIN".to_owned();
        if let Some(level) = begin.options.isolation_level {
            sql.push_str(&format!(" ISOLATION LEVEL {level}"));
        }
        if let Some(mode) = begin.options.access_mode {
            sql.push_str(&format!(" {mode}"));
        }
        if begin.for_claims && begin.pooler {
            for (name, value) in FOR_CLAIMS {
                sql.push_str(&format!("; SET LOCAL {name} = '{value}'"));
            }
        } else if let Some(patience) = begin.lock_timeout {
            sql.push_str(&format!("; SET LOCAL lock_timeout = {}", patience.as_millis()));
        }
        sql
    }
}

#[cfg(feature = "mysql")]
pub(super) mod mysql {
    driver!(sqlx::MySql);

    /// The timeouts stay with the session, which is ours; and as they come with each transaction, nothing depends on that.
    fn sql(begin: &Begin) -> String {
        let mut sql = String::new();
        if let Some(patience) = begin.lock_timeout {
            // Whole seconds. The second is for a table's own lock, which whoever changes the table holds.
            let seconds = if begin.for_claims { 1 } else { patience.as_millis().div_ceil(1000).max(1) };
            sql.push_str(&format!(
                "SET SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}; "
            ));
        }
        if let Some(level) = begin.options.isolation_level {
            sql.push_str(&format!("SET TRANSACTION ISOLATION LEVEL {level}; "));
        }
        sql.push_str("START TRANSACTION");
        if let Some(mode) = begin.options.access_mode {
            sql.push_str(&format!(" {mode}"));
        }
        sql
    }
}

/// The variants under which sea-orm would have reported the same.
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod errors {
    use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr};

    pub(super) fn acquire(error: sqlx::Error) -> DbErr {
        match error {
            sqlx::Error::PoolTimedOut => DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
            sqlx::Error::PoolClosed => DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
            error => DbErr::Conn(RuntimeErr::SqlxError(error.into())),
        }
    }

    pub(super) fn query(error: sqlx::Error) -> DbErr {
        DbErr::Query(RuntimeErr::SqlxError(error.into()))
    }

    pub(super) fn exec(error: sqlx::Error) -> DbErr {
        DbErr::Exec(RuntimeErr::SqlxError(error.into()))
    }
}
