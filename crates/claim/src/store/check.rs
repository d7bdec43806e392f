//! What is checked when a store is opened; refused whole, with every fault named.

use sea_orm::{DatabaseConnection, DbErr, Statement};

use super::bind;
use super::connect::{Pools, Source, rows};
use super::dialect::Dialect;
use super::options::StoreOptions;
use super::row::text;
use crate::error::Error;
use crate::failure::chain;
use crate::key::Namespace;

#[cfg(feature = "postgres")]
mod pooler;

/// The schema that this code needs. A newer one is fine as long as its `schema_breaking` is not greater.
const SCHEMA: u32 = 1;

/// What was found.
pub(crate) struct Found {
    pub(crate) namespace: Namespace,
    /// Why commits may be lost, where that was allowed.
    pub(crate) non_durable: Option<String>,
}

/// Settings of the host under which an acknowledged commit may be lost. To be run where the host's connections belong.
pub(crate) async fn host(source: &Source, dialect: Dialect, pooler: bool) -> Result<Vec<String>, Error> {
    match source {
        Source::Url(_) => Ok(Vec::new()),
        Source::Host(host) => durability(&Asked { db: host, dialect, pooler }).await,
    }
}

/// Where settings are read.
struct Asked<'a> {
    db: &'a DatabaseConnection,
    dialect: Dialect,
    pooler: bool,
}

pub(crate) async fn all(
    pools: &Pools,
    weak_host: Vec<String>,
    options: &StoreOptions,
) -> Result<Found, Error> {
    let mut faults = Vec::new();
    #[cfg(feature = "postgres")]
    if let Some(fault) = pooler::undeclared(pools).await? {
        // Anything read after this would be read wherever the pooler likes.
        return Err(Error::Config(vec![fault]));
    }
    let asked = Asked { db: &pools.write, dialect: pools.dialect, pooler: pools.pooler };
    let mut weak = durability(&asked).await?;
    // A claim that joins the host's transaction is committed on the host's connection, under its settings.
    for fault in weak_host {
        if !weak.contains(&fault) {
            weak.push(format!("on the host's own connections: {fault}"));
        }
    }
    faults.extend(server(&asked).await?);
    if !weak.is_empty() && !options.allow_non_durable {
        faults.extend(
            weak.iter().map(|w| format!("{w} (or set allow_non_durable, which stands on every report)")),
        );
    }
    let namespace = match schema(pools).await? {
        Ok(namespace) => namespace_fits(namespace, options, &mut faults),
        Err(fault) => {
            faults.push(fault);
            None
        }
    };
    match namespace {
        Some(namespace) if faults.is_empty() => {
            Ok(Found { namespace, non_durable: (!weak.is_empty()).then(|| weak.join("; ")) })
        }
        _ => Err(Error::Config(faults)),
    }
}

fn namespace_fits(stored: String, options: &StoreOptions, faults: &mut Vec<String>) -> Option<Namespace> {
    if let Some(wanted) = options.namespace.as_ref().filter(|n| n.as_str() != stored) {
        faults.push(format!(
            "the database's namespace is {stored:?} and not {:?}: every idempotency key derives from it, so it cannot be \
             changed; open the database that belongs to this service, or leave the option out",
            wanted.as_str()
        ));
    }
    Namespace::new(stored).map_err(|e| faults.push(format!("earmark_meta: {e}"))).ok()
}

/// The namespace, or what is wrong with the schema.
async fn schema(pools: &Pools) -> Result<Result<String, String>, Error> {
    let statement = bind::statement(pools.dialect, pools.dialect.sql().meta, Vec::new());
    let rows = match pools.read_rows(statement).await {
        Ok(rows) => rows,
        Err(e) => {
            return Ok(Err(format!(
                "the table earmark_meta cannot be read ({}): run the migrations first (`earmark migrate`, or \
                 earmark_migrations::run)",
                chain(&e)
            )));
        }
    };
    let mut meta = std::collections::HashMap::new();
    for row in &rows {
        let name = text(row, "name").map_err(Error::Connect)?;
        meta.insert(name, text(row, "value").map_err(Error::Connect)?);
    }
    let number = |name: &str| meta.get(name).and_then(|v| v.parse::<u32>().ok());
    Ok(match (number("schema_version"), number("schema_breaking"), meta.remove("namespace")) {
        (Some(version), _, _) if version < SCHEMA => Err(format!(
            "the schema is version {version}, this code needs {SCHEMA}: run the migrations (`earmark migrate`)"
        )),
        (Some(version), Some(breaking), _) if breaking > SCHEMA => Err(format!(
            "the schema is version {version} and needs code that knows version {breaking}; this code knows {SCHEMA}: \
             upgrade Earmark"
        )),
        (Some(_), Some(_), Some(namespace)) => Ok(namespace),
        _ => {
            Err("earmark_meta has no schema_version, schema_breaking or namespace: run the migrations again"
                .into())
        }
    })
}

/// Settings under which an acknowledged commit may be lost.
async fn durability(asked: &Asked<'_>) -> Result<Vec<String>, Error> {
    let mut weak = Vec::new();
    match asked.dialect {
        Dialect::Postgres => {
            let on = async |name| setting(asked, &format!("SELECT current_setting('{name}') AS v")).await;
            if on("synchronous_commit").await? == "off" {
                weak.push("synchronous_commit is off: set it to on for this role".to_owned());
            }
            if on("fsync").await? == "off" {
                weak.push("fsync is off: set it to on".to_owned());
            }
            if on("full_page_writes").await? == "off" {
                weak.push("full_page_writes is off: set it to on".to_owned());
            }
        }
        Dialect::MySql => {
            let flush = "SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR) AS v";
            if setting(asked, flush).await? != "1" {
                weak.push("innodb_flush_log_at_trx_commit is not 1: set it to 1".to_owned());
            }
        }
        Dialect::Sqlite => {
            let journal = setting(asked, "SELECT journal_mode AS v FROM pragma_journal_mode").await?;
            if !matches!(journal.as_str(), "wal" | "delete" | "truncate" | "persist") {
                weak.push(format!("journal_mode is {journal}: set it to wal"));
            }
            let sync =
                setting(asked, "SELECT CAST(synchronous AS TEXT) AS v FROM pragma_synchronous").await?;
            if !matches!(sync.as_str(), "2" | "3") {
                weak.push("synchronous is below FULL: set it to full".to_owned());
            }
        }
    }
    Ok(weak)
}

/// Servers that cannot hold claims at all.
async fn server(asked: &Asked<'_>) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    match asked.dialect {
        Dialect::Postgres => {
            if setting(asked, "SELECT pg_is_in_recovery()::text AS v").await? == "true" {
                faults.push("the server is a read-only standby: connect to the primary".to_owned());
            }
        }
        Dialect::MySql => {
            let version = setting(asked, "SELECT VERSION() AS v").await?;
            faults.extend(mysql_too_old(&version));
            // A claim is one statement that commits itself. Otherwise it would be answered with success, and rolled back with its
            // connection. A number on one server, a word on another.
            let autocommit = setting(asked, "SELECT CAST(@@autocommit AS CHAR) AS v").await?;
            if !matches!(autocommit.as_str(), "1" | "ON") {
                faults.push(
                    "autocommit is off: a claim would never be committed; set it to 1 for this user, and look for it in \
                     init_connect and in the pool's hooks"
                        .to_owned(),
                );
            }
            let log_bin = setting(asked, "SELECT CAST(@@log_bin AS CHAR) AS v").await?;
            // Deprecated: not there some day, and then nothing but ROW.
            let shown = "SHOW SESSION VARIABLES LIKE 'binlog_format'";
            let shown = rows(
                asked.db,
                asked.dialect,
                asked.pooler,
                Statement::from_string(asked.dialect.backend(), shown),
            );
            let format = match shown.await.map_err(Error::Connect)?.first() {
                Some(row) => text(row, "Value").map_err(Error::Connect)?,
                None => "ROW".to_owned(),
            };
            faults.extend(statement_binlog(&log_bin, &format));
            let read_only = setting(asked, "SELECT CAST(@@read_only AS CHAR) AS v").await?;
            if !matches!(read_only.as_str(), "0" | "OFF") {
                faults.push("the server is read-only: connect to the primary".to_owned());
            }
        }
        // Bundled with the driver, so its version is known.
        Dialect::Sqlite => {}
    }
    Ok(faults)
}

/// MariaDB has `SKIP LOCKED` since 10.6; MySQL enforces CHECK constraints since 8.0.16.
fn mysql_too_old(version: &str) -> Option<String> {
    let number =
        |s: &str| s.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let mut parts = version.split('.').map(number);
    let (major, minor, patch): (u32, u32, u32) =
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version.to_ascii_lowercase().contains("mariadb") {
        ((major, minor) < (10, 6))
            .then(|| format!("MariaDB {version} is older than 10.6, which has SKIP LOCKED"))
    } else {
        ((major, minor, patch) < (8, 0, 16))
            .then(|| format!("MySQL {version} is older than 8.0.16, which enforces CHECK constraints"))
    }
}

/// InnoDB refuses every write at READ COMMITTED where the binary log holds statements (1665), and that is how claims are written.
fn statement_binlog(log_bin: &str, binlog_format: &str) -> Option<String> {
    let on = matches!(log_bin, "1" | "ON");
    (on && binlog_format.eq_ignore_ascii_case("statement")).then(|| {
        "binlog_format is STATEMENT, with which InnoDB writes nothing at READ COMMITTED: set it to ROW or MIXED".to_owned()
    })
}

async fn setting(asked: &Asked<'_>, sql: &str) -> Result<String, Error> {
    let statement = Statement::from_string(asked.dialect.backend(), sql);
    let read = async {
        let rows = rows(asked.db, asked.dialect, asked.pooler, statement).await?;
        match rows.first() {
            Some(row) => text(row, "v"),
            None => Err(DbErr::RecordNotFound(sql.to_owned())),
        }
    };
    read.await.map_err(Error::Connect)
}

#[cfg(test)]
mod tests {
    use super::{mysql_too_old, statement_binlog};

    #[test]
    fn old_servers_are_refused_by_name() {
        for fine in [
            "10.6.0-MariaDB",
            "10.11.19-MariaDB-0+deb12u1",
            "11.4.2-MariaDB",
            "8.0.16",
            "8.4.0",
            "9.1.0-commercial",
        ] {
            assert_eq!(mysql_too_old(fine), None, "{fine}");
        }
        for old in ["10.5.27-MariaDB", "5.7.44", "8.0.15", ""] {
            assert!(mysql_too_old(old).is_some(), "{old}");
        }
    }

    #[test]
    fn a_binary_log_of_statements_is_refused_where_there_is_one() {
        for (log_bin, format, refused) in [
            ("1", "STATEMENT", true),
            ("ON", "statement", true),
            ("0", "STATEMENT", false),
            ("1", "ROW", false),
            ("1", "MIXED", false),
        ] {
            assert_eq!(statement_binlog(log_bin, format).is_some(), refused, "{log_bin} {format}");
        }
    }
}
