//! A database of its own on a server of the test run.

use sea_orm::{ConnectOptions, ConnectionTrait};

/// Dropped, it is taken away.
pub(crate) struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    pub(crate) fn postgres() -> Option<Self> {
        Self::on("EARMARK_TEST_POSTGRES_URL")
    }

    pub(crate) fn mysql() -> Option<Self> {
        Self::on("EARMARK_TEST_MYSQL_URL")
    }

    /// `None` in quick mode. Without the variable the test fails: it never skips by itself.
    fn on(variable: &str) -> Option<Self> {
        if std::env::var("EARMARK_TEST_QUICK").is_ok_and(|value| value == "1") {
            println!("not run in quick mode");
            return None;
        }
        let server = std::env::var(variable).unwrap_or_else(|_| {
            panic!("{variable} is not set: run the tests with tests/run, or with EARMARK_TEST_QUICK=1")
        });
        let name = format!("earmark_demo_{:016x}", fastrand::u64(..));
        let mut url = reqwest::Url::parse(&server).unwrap();
        url.set_path(&name);
        execute(&server, &format!("CREATE DATABASE {name}"));
        Some(Self { server, name, url: url.into() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let force = if self.server.starts_with("postgres") { " WITH (FORCE)" } else { "" };
        execute(&self.server, &format!("DROP DATABASE IF EXISTS {}{force}", self.name));
    }
}

fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = ConnectOptions::new(url);
        options.max_connections(1).sqlx_logging(false);
        let db = sea_orm::Database::connect(options).await.unwrap();
        db.execute_unprepared(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        db.close().await.unwrap();
    });
}
