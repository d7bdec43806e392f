//! A fresh database for each test, on each backend.
//!
//! ```ignore
//! use earmark_tests::{TestDb, per_backend};
//!
//! per_backend! {
//!     /// One row is one claim.
//!     async fn a_duplicate_is_refused(db: TestDb) {
//!         db.connection().execute_unprepared("…").await.unwrap();
//!         let store = ClaimStore::connect(db.url(), options).await.unwrap();
//!     }
//! }
//! ```
//! makes the tests `a_duplicate_is_refused::sqlite`, `…::postgres` and `…::mariadb`. The argument may be a [`TestDb`]
//! (migrated), an [`EmptyDb`] (nothing in it) or a [`Backend`] (make your own).
//!
//! The servers come from `EARMARK_TEST_POSTGRES_URL` and `EARMARK_TEST_MYSQL_URL`: users that may create databases.
//! `tests/run` starts private servers and sets both. A test never skips by itself: without the variable it fails, unless
//! `EARMARK_TEST_QUICK=1` says that SQLite alone is meant.

use std::{env, future::Future, ops::Deref, thread, time::Duration};

use earmark_migrations::Dialect;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use url::Url;

/// For checks beside the code under test, which opens its own pool: few, since a server's connections are shared by all
/// the tests that run at once.
const CHECK_CONNECTIONS_MAX: u32 = 4;

/// A server that was started for the tests answers at once; one under load may not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Enough that the claims of a test are in several.
pub const PARTITIONS: u32 = 4;

/// A database that the tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A file in a folder of its own.
    Sqlite,
    /// A database of the server at `EARMARK_TEST_POSTGRES_URL`.
    Postgres,
    /// A database of the server at `EARMARK_TEST_MYSQL_URL`, which may also be MySQL.
    MariaDb,
}

impl Backend {
    /// The backends that this run is about: all, or SQLite alone in quick mode.
    pub fn all() -> &'static [Self] {
        if quick() { &[Self::Sqlite] } else { &[Self::Sqlite, Self::Postgres, Self::MariaDb] }
    }

    /// Which SQL it speaks.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Sqlite => Dialect::Sqlite,
            Self::Postgres => Dialect::Postgres,
            Self::MariaDb => Dialect::MySql,
        }
    }

    /// The server on which databases are made.
    fn server(self) -> Url {
        let name = match self {
            Self::Postgres => "EARMARK_TEST_POSTGRES_URL",
            Self::MariaDb => "EARMARK_TEST_MYSQL_URL",
            Self::Sqlite => unreachable!("SQLite has no server"),
        };
        let url = env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set: run the tests with tests/run, or with EARMARK_TEST_QUICK=1 for SQLite alone")
        });
        Url::parse(&url).unwrap_or_else(|error| panic!("{name} is no URL ({error}): {url}"))
    }
}

fn quick() -> bool {
    env::var("EARMARK_TEST_QUICK").is_ok_and(|value| value == "1")
}

/// A database with Earmark's tables and no guard. Databases of one PostgreSQL server share their namespace.
pub struct TestDb(EmptyDb);

impl TestDb {
    /// Makes one; dropping it takes it away.
    pub async fn new(backend: Backend) -> Self {
        if backend == Backend::Postgres {
            return Self(EmptyDb::on_server(backend, Some(postgres_template(None).await)).await);
        }
        let db = EmptyDb::new(backend).await;
        // A connection of its own, closed before the pool for the checks is used (see `earmark_migrations::run`).
        let own = connect(db.url(), 1).await;
        migrate(&own, None).await;
        own.close().await.unwrap();
        Self(db)
    }

    /// On PostgreSQL, with claims and events in [`PARTITIONS`] hash partitions.
    pub async fn partitioned() -> Self {
        let template = postgres_template(Some(PARTITIONS)).await;
        Self(EmptyDb::on_server(Backend::Postgres, Some(template)).await)
    }
}

impl Deref for TestDb {
    type Target = EmptyDb;

    fn deref(&self) -> &EmptyDb {
        &self.0
    }
}

/// A database with nothing in it.
pub struct EmptyDb {
    backend: Backend,
    url: String,
    connection: DatabaseConnection,
    place: Place,
}

/// What is taken away at the end.
enum Place {
    Folder { _folder: TempDir },
    Server { server: Url, name: String },
}

impl EmptyDb {
    /// Makes one; dropping it takes it away.
    pub async fn new(backend: Backend) -> Self {
        if backend != Backend::Sqlite {
            return Self::on_server(backend, None).await;
        }
        let folder = tempfile::Builder::new().prefix("earmark-").tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
        // Opened by the first use, so that a test may migrate before.
        let connection = connect_lazily(&url).await;
        Self { backend, url, connection, place: Place::Folder { _folder: folder } }
    }

    async fn on_server(backend: Backend, template: Option<String>) -> Self {
        let server = backend.server();
        // Random, since test processes run at the same time and know nothing of each other.
        let name = format!("earmark_test_{:016x}", fastrand::u64(..));
        let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
        on_server(&server, &format!("CREATE DATABASE {name}{template}")).await;
        let url = database(&server, &name);
        let connection = connect_lazily(&url).await;
        Self { backend, url, connection, place: Place::Server { server, name } }
    }

    /// For the code under test to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which database it is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// A small pool of plain connections, for checks and for SQL typed by hand.
    pub fn connection(&self) -> &DatabaseConnection {
        &self.connection
    }

    /// Runs one statement, as a person at a prompt would.
    pub async fn execute(&self, sql: &str) -> Result<u64, sea_orm::DbErr> {
        let statement = Statement::from_string(self.connection.get_database_backend(), sql);
        Ok(self.connection.execute_raw(statement).await?.rows_affected())
    }

    /// The first column of the first row, which must be an integer.
    pub async fn number(&self, sql: &str) -> i64 {
        let statement = Statement::from_string(self.connection.get_database_backend(), sql);
        let row =
            self.connection.query_one_raw(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        row.unwrap_or_else(|| panic!("no row: {sql}")).try_get_by_index(0).unwrap()
    }
}

impl Drop for EmptyDb {
    fn drop(&mut self) {
        let Place::Server { server, name } = &self.place else { return };
        let sql = match self.backend {
            // Pools of the code under test may still be open.
            Backend::Postgres => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            // An open transaction would hold it up for a day, by default.
            _ => format!("SET SESSION lock_wait_timeout = 2; DROP DATABASE IF EXISTS {name}"),
        };
        // A drop cannot wait for a future, and the test's runtime is about to end: a thread with its own.
        let server = server.clone();
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(on_server(&server, &sql));
        });
        // The server's folder goes at the end of the run anyway: not a reason to fail a test.
        if dropped.join().is_err() {
            eprintln!("the database {name} was left behind");
        }
    }
}

/// Waits until no two processes make the template at once, and makes it if it is not there. A copy of it takes a
/// fraction of the time of a migration.
async fn postgres_template(partitions: Option<u32>) -> String {
    let server = Backend::Postgres.server();
    let name = match partitions {
        None => template_name(Dialect::Postgres),
        Some(count) => format!("{}_p{count}", template_name(Dialect::Postgres)),
    };
    let half_made = format!("{name}_new");
    let admin = connect(server.as_str(), 1).await;
    let known = format!("SELECT 1 AS found FROM pg_database WHERE datname = '{name}'");
    if !exists(&admin, &known).await {
        // A lock of the session: CREATE DATABASE refuses to run inside a transaction.
        admin.execute_unprepared("SELECT pg_advisory_lock(19180)").await.unwrap();
        if !exists(&admin, &known).await {
            // A run that was killed may have left it.
            admin
                .execute_unprepared(&format!("DROP DATABASE IF EXISTS {half_made} WITH (FORCE)"))
                .await
                .unwrap();
            admin.execute_unprepared(&format!("CREATE DATABASE {half_made}")).await.unwrap();
            let own = connect(&database(&server, &half_made), 1).await;
            migrate(&own, partitions).await;
            own.close().await.unwrap();
            // The last connection may take a moment to be gone; the server waits 5 seconds for it by itself.
            let rename = format!("ALTER DATABASE {half_made} RENAME TO {name}");
            admin.execute_unprepared(&rename).await.unwrap();
        }
    }
    // The lock ends with its session.
    admin.close().await.unwrap();
    name
}

/// Changes with the text of the migrations: a server that is kept between runs must not hand out old tables.
fn template_name(dialect: Dialect) -> String {
    let mut digest = Sha256::new();
    for migration in earmark_migrations::sql(dialect) {
        digest.update(migration.sql);
    }
    let digest = digest.finalize();
    format!(
        "earmark_template_{:02x}{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3], digest[4]
    )
}

async fn migrate(db: &DatabaseConnection, partitions: Option<u32>) {
    let options = earmark_migrations::Options { partitions, ..earmark_migrations::Options::default() };
    earmark_migrations::run(db, &options)
        .await
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
}

async fn exists(db: &DatabaseConnection, sql: &str) -> bool {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    db.query_one_raw(statement).await.unwrap().is_some()
}

async fn on_server(server: &Url, sql: &str) {
    let admin = connect(server.as_str(), 1).await;
    admin.execute_unprepared(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    admin.close().await.unwrap();
}

fn database(server: &Url, name: &str) -> String {
    let mut url = server.clone();
    url.set_path(name);
    url.into()
}

async fn connect(url: &str, connections: u32) -> DatabaseConnection {
    Database::connect(options(url, connections))
        .await
        .unwrap_or_else(|error| panic!("no connection to {url}: {error}"))
}

async fn connect_lazily(url: &str) -> DatabaseConnection {
    let mut options = options(url, CHECK_CONNECTIONS_MAX);
    options.connect_lazy(true);
    Database::connect(options).await.unwrap()
}

fn options(url: &str, connections: u32) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(connections)
        .min_connections(0)
        .connect_timeout(CONNECT_TIMEOUT)
        .acquire_timeout(CONNECT_TIMEOUT)
        .sqlx_logging(false);
    options
}

/// What a test of [`per_backend!`](crate::per_backend) may ask for.
pub trait Fresh {
    /// Makes one on this backend.
    fn fresh(backend: Backend) -> impl Future<Output = Self> + Send;
}

impl Fresh for TestDb {
    async fn fresh(backend: Backend) -> Self {
        Self::new(backend).await
    }
}

impl Fresh for EmptyDb {
    async fn fresh(backend: Backend) -> Self {
        Self::new(backend).await
    }
}

impl Fresh for Backend {
    async fn fresh(backend: Backend) -> Self {
        backend
    }
}

/// Runs the body of a test on one backend, unless the run is about SQLite alone. Called by
/// [`per_backend!`](crate::per_backend).
pub async fn on<D: Fresh, F: Future<Output = ()>>(backend: Backend, body: impl FnOnce(D) -> F) {
    if Backend::all().contains(&backend) {
        body(D::fresh(backend).await).await;
    } else {
        println!("not run in quick mode");
    }
}

/// The same over the partitioned layout of PostgreSQL. Called by [`per_layout!`](crate::per_layout).
pub async fn on_partitions<F: Future<Output = ()>>(body: impl FnOnce(TestDb) -> F) {
    if Backend::all().contains(&Backend::Postgres) {
        body(TestDb::partitioned().await).await;
    } else {
        println!("not run in quick mode");
    }
}

/// [`per_backend!`](crate::per_backend), and a fourth test over the partitioned layout of PostgreSQL: for what must mean the same in
/// every layout. Its argument is a [`TestDb`].
#[macro_export]
macro_rules! per_layout {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: $type:ty) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn body($db: $type) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                $crate::db::on($crate::Backend::Sqlite, body).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                $crate::db::on($crate::Backend::Postgres, body).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres_partitioned() {
                $crate::db::on_partitions(body).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                $crate::db::on($crate::Backend::MariaDb, body).await;
            }
        }
    )+};
}

/// One async test body, one test for each backend, named after it.
#[macro_export]
macro_rules! per_backend {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: $type:ty) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn body($db: $type) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                $crate::db::on($crate::Backend::Sqlite, body).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                $crate::db::on($crate::Backend::Postgres, body).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                $crate::db::on($crate::Backend::MariaDb, body).await;
            }
        }
    )+};
}
