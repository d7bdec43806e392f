//! PostgreSQL from outside.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use url::Url;

use super::{Facts, home_name, migrate};
use crate::args::Flags;
use crate::disk;
use crate::loads::{POSTGRES_SCHEMA, one_claim};
use crate::systems::{System, Tables};

/// How long sessions of an ended worker may take to go, and to hand in what they counted.
const SESSIONS_END: Duration = Duration::from_secs(30);

pub struct Postgres {
    url: Url,
    /// On a database of its own: what is asked here is counted nowhere.
    admin: PgPool,
    prefill: u64,
    made: Vec<String>,
}

impl Postgres {
    pub async fn open(flags: &Flags) -> Result<Self> {
        let url = flags.postgres_url.as_deref().context(
            "no PostgreSQL: start this through tests/bench, or set EARMARK_BENCH_POSTGRES_URL, or name other databases with --database",
        )?;
        let url = Url::parse(url).context("EARMARK_BENCH_POSTGRES_URL is no URL")?;
        let options = url.as_str().parse::<PgConnectOptions>()?.disable_statement_logging();
        // Once without a pool, which would ask a server that is not there for half a minute and not say why.
        options.connect().await.context("PostgreSQL cannot be reached")?.close().await?;
        let admin = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
        Ok(Self { admin, url, prefill: flags.prefill, made: Vec::new() })
    }

    async fn setting(&self, name: &str) -> Result<String> {
        let shown = sqlx::query_scalar("SELECT current_setting($1)").bind(name);
        Ok(shown.fetch_one(&self.admin).await?)
    }

    pub async fn facts(&self) -> Result<Facts> {
        let mut settings = format!("PostgreSQL {}", self.setting("server_version").await?);
        let mut weak = Vec::new();
        for (name, must) in [
            ("fsync", Some("on")),
            ("synchronous_commit", Some("on")),
            ("full_page_writes", Some("on")),
            ("wal_sync_method", None),
            ("shared_buffers", None),
            ("max_wal_size", None),
            ("checkpoint_timeout", None),
        ] {
            let value = self.setting(name).await?;
            settings.push_str(&format!(", {name}={value}"));
            if must.is_some_and(|must| must != value) {
                weak.push(format!("{name} is {value}: set it to on"));
            }
        }
        let folder = self.setting("data_directory").await.unwrap_or_default();
        weak.extend(disk::in_memory(&folder));
        Ok(Facts { settings, weak })
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
                let mut db = PgConnection::connect(url.as_str()).await?;
                db.execute(POSTGRES_SCHEMA).await?;
                db.close().await?;
            }
            Tables::OfItsOwn => {}
        }
        if self.prefill > 0 {
            self.prefill(system, &url).await?;
        }
        Ok(url.into())
    }

    /// Finished effects beside which the measured ones are made.
    async fn prefill(&self, system: System, url: &Url) -> Result<()> {
        let rows = i64::try_from(self.prefill)?;
        let sql = match system.tables() {
            Tables::OfItsOwn => return Ok(()),
            Tables::HandWritten => "
                INSERT INTO effect (consumer, message_id, status, due_at, payload, outcome)
                SELECT 'prefill', gen_random_uuid()::text, 2, now(), convert_to(repeat('q', 331), 'UTF8'),
                    convert_to(repeat('r', 212), 'UTF8')
                FROM generate_series(1, $1)"
                .to_owned(),
            Tables::Earmark => {
                one_claim(url.as_str(), "template").await?;
                self.copies_of_the_template(url).await?
            }
        };
        let mut db = PgConnection::connect(url.as_str()).await?;
        sqlx::query(AssertSqlSafe(sql)).bind(rows).execute(&mut db).await?;
        db.execute("VACUUM ANALYZE").await?;
        Ok(db.close().await?)
    }

    /// Copies a real finished claim, whatever columns it has, under keys of their own.
    async fn copies_of_the_template(&self, url: &Url) -> Result<String> {
        let mut db = PgConnection::connect(url.as_str()).await?;
        let columns = "SELECT column_name::text FROM information_schema.columns
            WHERE table_name = 'earmark_claim' ORDER BY ordinal_position";
        let columns: Vec<String> = sqlx::query_scalar(columns).fetch_all(&mut db).await?;
        db.close().await?;
        let values = columns.iter().map(|column| match column.as_str() {
            "consumer" => "'prefill'".to_owned(),
            "message_id" => "gen_random_uuid()::text".to_owned(),
            "reference" => "substr(md5(random()::text), 1, length(t.reference))".to_owned(),
            "idempotency_key" => "gen_random_uuid()::text".to_owned(),
            other => format!("t.{other}"),
        });
        let (columns, values) = (columns.join(", "), values.collect::<Vec<_>>().join(", "));
        Ok(format!(
            "INSERT INTO earmark_claim ({columns}) SELECT {values}
             FROM earmark_claim t, generate_series(1, $1) WHERE t.consumer = 'template'"
        ))
    }

    pub async fn clean(&mut self) -> Result<()> {
        for name in self.made.drain(..) {
            self.admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).await?;
        }
        Ok(())
    }

    pub async fn checkpoint(&self) -> Result<()> {
        self.admin.execute("CHECKPOINT").await.context("the user may not CHECKPOINT")?;
        Ok(())
    }

    /// `xact_commit`: transactions that only read count too.
    pub async fn commits(&self, system: System) -> Result<u64> {
        let name = home_name(system);
        let begun = Instant::now();
        // A session hands in what it has counted when it ends.
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
        while sqlx::query_scalar::<_, i64>(sql).bind(&name).fetch_one(&self.admin).await? > 0 {
            if begun.elapsed() > SESSIONS_END {
                bail!("sessions of an ended worker are still there after {SESSIONS_END:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
        let count: i64 = sqlx::query(sql).bind(&name).fetch_one(&self.admin).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }

    pub async fn count(&self, system: System, round: &str) -> Result<u64> {
        let mut db = PgConnection::connect(self.url_of(&home_name(system)).as_str()).await?;
        let sql = system.count_sql(crate::args::Database::Postgres);
        let count: i64 = sqlx::query_scalar(sql).bind(round).fetch_one(&mut db).await?;
        db.close().await?;
        Ok(u64::try_from(count)?)
    }
}
