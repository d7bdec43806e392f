//! MariaDB from outside.

use anyhow::{Context, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use url::Url;

use super::{Facts, home_name, migrate};
use crate::args::{Database, Flags};
use crate::disk;
use crate::loads::MARIADB_SCHEMA;
use crate::systems::{System, Tables};

pub struct MariaDb {
    url: Url,
    admin: MySqlPool,
    made: Vec<String>,
}

impl MariaDb {
    pub async fn open(flags: &Flags) -> Result<Self> {
        let url = flags.mysql_url.as_deref().context(
            "no MariaDB: start this through tests/bench, or set EARMARK_BENCH_MYSQL_URL, or name other databases with --database",
        )?;
        let url = Url::parse(url).context("EARMARK_BENCH_MYSQL_URL is no URL")?;
        let options = url.as_str().parse::<MySqlConnectOptions>()?.disable_statement_logging();
        // Once without a pool, which would ask a server that is not there for half a minute and not say why.
        options.connect().await.context("MariaDB cannot be reached")?.close().await?;
        let admin = MySqlPoolOptions::new().max_connections(1).connect_with(options).await?;
        Ok(Self { admin, url, made: Vec::new() })
    }

    async fn variable(&self, name: &str) -> Result<String> {
        let sql = format!("SELECT CAST(@@{name} AS CHAR)");
        Ok(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.admin).await?)
    }

    pub async fn facts(&self) -> Result<Facts> {
        let mut settings = self.variable("version").await?;
        let mut weak = Vec::new();
        let log_bin = self.variable("log_bin").await?;
        for (name, must) in [
            ("innodb_flush_log_at_trx_commit", Some("1")),
            ("innodb_doublewrite", Some("1")),
            // What a commit with a binary log waits for, too.
            ("sync_binlog", (log_bin == "1").then_some("1")),
            ("innodb_buffer_pool_size", None),
            ("innodb_log_file_size", None),
        ] {
            let value = match self.variable(name).await?.as_str() {
                "ON" => "1".to_owned(),
                other => other.to_owned(),
            };
            settings.push_str(&format!(", {name}={value}"));
            if must.is_some_and(|must| must != value) {
                weak.push(format!("{name} is {value}: set it to 1"));
            }
        }
        settings.push_str(&format!(", log_bin={log_bin}"));
        weak.extend(disk::in_memory(&self.variable("datadir").await?));
        Ok(Facts { settings: format!("MariaDB {settings}"), weak })
    }

    fn url_of(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(name);
        url
    }

    pub async fn make_home(&mut self, system: System) -> Result<String> {
        let name = home_name(system);
        let url = self.url_of(&name);
        if self.made.contains(&name) {
            return Ok(url.into());
        }
        self.admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        self.made.push(name);
        match system.tables() {
            Tables::Earmark => migrate(url.as_str()).await?,
            Tables::HandWritten => {
                let mut db = MySqlConnection::connect(url.as_str()).await?;
                db.execute(MARIADB_SCHEMA).await?;
                db.close().await?;
            }
            Tables::OfItsOwn => {}
        }
        Ok(url.into())
    }

    pub async fn clean(&mut self) -> Result<()> {
        for name in self.made.drain(..) {
            self.admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await?;
        }
        Ok(())
    }

    /// `Handler_commit` of the whole server, on which nobody else works: transactions that only read count too.
    pub async fn commits(&self) -> Result<u64> {
        let row = sqlx::query("SHOW GLOBAL STATUS LIKE 'Handler_commit'").fetch_one(&self.admin).await?;
        Ok(row.try_get::<String, _>(1)?.parse()?)
    }

    pub async fn count(&self, system: System, round: &str) -> Result<u64> {
        let mut db = MySqlConnection::connect(self.url_of(&home_name(system)).as_str()).await?;
        let sql = system.count_sql(Database::Mariadb);
        let count: i64 = sqlx::query_scalar(sql).bind(round.as_bytes()).fetch_one(&mut db).await?;
        db.close().await?;
        Ok(u64::try_from(count)?)
    }
}
