//! The database of the demo: a fresh SQLite file, or the server that was named.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use earmark_effects::claim::failure::chain;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};

/// Consumers of the demo begin with this; whatever else is in the database is not the demo's.
pub(super) const CONSUMER_PREFIX: &str = "earmark-demo-";

/// A database that answers at all answers within this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of a SQLite file.
pub(super) fn sqlite_url(file: &Path) -> String {
    let path = file.display().to_string();
    format!("sqlite://{}", path.replace('%', "%25").replace('?', "%3F").replace('#', "%23"))
}

/// The URL without its password, for people.
pub(super) fn shown(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            let _ = parsed.set_password(Some("***"));
            parsed.into()
        }
        _ => url.to_owned(),
    }
}

/// Refuses what is no URL of a database that we know, before anything is started.
pub(super) fn check_url(url: &str) -> anyhow::Result<()> {
    let scheme = url.split("://").next().unwrap_or_default();
    if !url.contains("://") || !matches!(scheme, "postgres" | "postgresql" | "mysql" | "mariadb" | "sqlite") {
        bail!(
            "--database: {:?} is no URL of a database: use postgres://user@host/name, mysql://user@host/name or \
             sqlite:///path/to/file",
            shown(url)
        );
    }
    if scheme != "sqlite" && reqwest::Url::parse(url).map_or(true, |url| url.path().len() < 2) {
        bail!("--database: {:?} names no host or no database: use {scheme}://user@host/name", shown(url));
    }
    Ok(())
}

pub(super) async fn connect(url: &str) -> anyhow::Result<DatabaseConnection> {
    let url = match url.strip_prefix("mariadb://") {
        Some(rest) => format!("mysql://{rest}"),
        None => url.to_owned(),
    };
    let mut options = ConnectOptions::new(url.as_str());
    options
        .max_connections(4)
        .connect_timeout(CONNECT_TIMEOUT)
        .acquire_timeout(CONNECT_TIMEOUT)
        .sqlx_logging(false);
    Database::connect(options).await.map_err(|error| {
        anyhow::anyhow!(
            "--database: {} cannot be opened: {}; check host, port, user, password and the database's name",
            shown(&url),
            chain(&error)
        )
    })
}

/// Makes the tables, after a look at what is there. Answers the name of the server.
pub(super) async fn prepare(url: &str) -> anyhow::Result<&'static str> {
    // A file that is not there yet is made.
    let create = match url.strip_prefix("sqlite://") {
        Some(rest) if !rest.contains('?') => "?mode=rwc",
        _ => "",
    };
    // On a connection of its own: one that was open before a migration keeps the old schema in mind on SQLite.
    let db = connect(&format!("{url}{create}")).await?;
    let prepared = prepare_on(&db, url).await;
    let _ = db.close().await;
    prepared
}

async fn prepare_on(db: &DatabaseConnection, url: &str) -> anyhow::Result<&'static str> {
    refuse_foreign(db, url).await?;
    earmark_migrations::run(db, &earmark_migrations::Options::default())
        .await
        .context("the tables cannot be made: the demo needs a user that may create tables")?;
    let (name, word) = match db.get_database_backend() {
        DbBackend::Postgres => ("PostgreSQL", "VARCHAR"),
        // Compared byte for byte, as the claims are; the usual collations hold `A` and `a` for one id.
        DbBackend::MySql => ("MariaDB or MySQL", "VARBINARY"),
        _ => ("SQLite", "VARCHAR"),
    };
    let table = format!(
        "CREATE TABLE IF NOT EXISTS earmark_demo_control \
         (run {word}(64) NOT NULL, tenant {word}(128) NOT NULL, id {word}(512) NOT NULL, PRIMARY KEY (run, tenant, id))"
    );
    db.execute_unprepared(&table).await.context("the control's table cannot be made")?;
    Ok(name)
}

/// The demo's sweeper would take over whatever is due, with nothing but the demo's own provider to call.
async fn refuse_foreign(db: &DatabaseConnection, url: &str) -> anyhow::Result<()> {
    let select = format!("SELECT 1 FROM earmark_claim WHERE consumer NOT LIKE '{CONSUMER_PREFIX}%' LIMIT 1");
    match db.query_one_raw(sql(db, &select, Vec::new())).await {
        Ok(Some(_)) => bail!(
            "--database: {} holds claims that are not the demo's, and the demo would sweep them: name an empty database",
            shown(url)
        ),
        // No such table, most likely; anything else comes up again when the tables are made.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// A statement with `?` for each value.
pub(super) fn sql(db: &DatabaseConnection, text: &str, values: Vec<String>) -> Statement {
    let backend = db.get_database_backend();
    let mut text = text.to_owned();
    if backend == DbBackend::Postgres {
        for n in 1..=values.len() {
            text = text.replacen('?', &format!("${n}"), 1);
        }
    }
    Statement::from_sql_and_values(backend, text, values.into_iter().map(sea_orm::Value::from))
}
