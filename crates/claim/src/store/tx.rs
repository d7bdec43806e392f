//! A transaction on connections of ours.
//!
//! On PostgreSQL it is sqlx's own and not sea-orm's. sea-orm has every statement prepared under a name, even where the statement cache
//! is off, and behind a pooler in transaction mode that name may be taken on the server that the transaction gets. Here the
//! statements have no name behind a pooler, and the isolation level is part of `BEGIN`: one round trip less.

#[cfg(feature = "postgres")]
use sea_orm::RuntimeErr;
use sea_orm::prelude::async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult,
    Statement, TransactionOptions, TransactionTrait,
};

/// A transaction, rolled back when it is dropped.
pub(crate) enum Tx {
    /// MySQL, MariaDB, SQLite.
    SeaOrm(DatabaseTransaction),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Tx>),
}

impl Tx {
    /// Begins one. `pooler`: a pooler in transaction mode may stand between.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables))]
    pub(crate) async fn begin(
        db: &DatabaseConnection,
        pooler: bool,
        options: TransactionOptions,
    ) -> Result<Self, DbErr> {
        match &db.inner {
            #[cfg(feature = "postgres")]
            sea_orm::DatabaseConnectionType::SqlxPostgresPoolConnection(_) => {
                let pool = db.get_postgres_connection_pool();
                Ok(Self::Postgres(Box::new(postgres::Tx::begin(pool, pooler, options).await?)))
            }
            _ => db.begin_with_options(options).await.map(Self::SeaOrm),
        }
    }

    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.commit().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.commit().await,
        }
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.rollback().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.rollback().await,
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
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.execute_raw(statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.execute(statement).await,
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        match self {
            Self::SeaOrm(tx) => tx.execute_unprepared(sql).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.execute_unprepared(sql).await,
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
        }
    }
}

#[cfg(feature = "postgres")]
pub(super) mod postgres {
    use sea_orm::{ConnAcquireErr, Values};
    use sea_query_sqlx::SqlxValues;
    use sqlx::postgres::{PgArguments, PgPool, PgRow, Postgres};
    use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, Transaction};
    use tokio::sync::Mutex;

    use super::{DbErr, ExecResult, QueryResult, RuntimeErr, Statement, TransactionOptions};

    pub(crate) struct Tx {
        // Statements come through `&self`, as sea-orm's trait has it, and one after the other.
        connection: Mutex<Transaction<'static, Postgres>>,
        /// Whether statements are prepared under a name, to be used again on the same connection.
        named: bool,
    }

    impl Tx {
        pub(super) async fn begin(
            pool: &PgPool,
            pooler: bool,
            options: TransactionOptions,
        ) -> Result<Self, DbErr> {
            let mut begin = "BEGIN".to_owned();
            if let Some(level) = options.isolation_level {
                begin.push_str(&format!(" ISOLATION LEVEL {level}"));
            }
            if let Some(mode) = options.access_mode {
                begin.push_str(&format!(" {mode}"));
            }
            let connection = pool.acquire().await.map_err(not_acquired)?;
            let begun = Transaction::begin(connection, Some(AssertSqlSafe(begin).into_sql_str())).await;
            Ok(Self { connection: Mutex::new(begun.map_err(query)?), named: !pooler })
        }

        pub(super) async fn execute(&self, statement: Statement) -> Result<ExecResult, DbErr> {
            let asked = self.asked(statement);
            let done = asked.execute(&mut **self.connection.lock().await).await;
            done.map(ExecResult::from).map_err(exec)
        }

        pub(super) async fn query_all(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
            let asked = self.asked(statement);
            let rows = asked.fetch_all(&mut **self.connection.lock().await).await;
            Ok(rows.map_err(query)?.into_iter().map(QueryResult::from).collect())
        }

        /// A statement whose values are sqlx's own.
        pub(in crate::store) async fn fetch_all(
            &self,
            asked: sqlx::query::Query<'_, Postgres, PgArguments>,
        ) -> Result<Vec<PgRow>, sqlx::Error> {
            asked.persistent(self.named).fetch_all(&mut **self.connection.lock().await).await
        }

        pub(super) async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
            let mut connection = self.connection.lock().await;
            let done = (**connection).execute(AssertSqlSafe(sql.to_owned())).await;
            done.map(ExecResult::from).map_err(exec)
        }

        pub(in crate::store) async fn commit(self) -> Result<(), DbErr> {
            self.connection.into_inner().commit().await.map_err(query)
        }

        pub(super) async fn rollback(self) -> Result<(), DbErr> {
            self.connection.into_inner().rollback().await.map_err(query)
        }

        fn asked(&self, statement: Statement) -> sqlx::query::Query<'static, Postgres, SqlxValues> {
            let values = SqlxValues(statement.values.unwrap_or(Values(Vec::new())));
            sqlx::query_with(AssertSqlSafe(statement.sql), values).persistent(self.named)
        }
    }

    // The variants under which sea-orm would have reported the same.

    fn not_acquired(error: sqlx::Error) -> DbErr {
        match error {
            sqlx::Error::PoolTimedOut => DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
            sqlx::Error::PoolClosed => DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
            error => DbErr::Conn(RuntimeErr::SqlxError(error.into())),
        }
    }

    fn query(error: sqlx::Error) -> DbErr {
        DbErr::Query(RuntimeErr::SqlxError(error.into()))
    }

    fn exec(error: sqlx::Error) -> DbErr {
        DbErr::Exec(RuntimeErr::SqlxError(error.into()))
    }
}
