//! The runner: reads the version, applies what is missing, writes the namespace.

use std::borrow::Cow;

use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};

use crate::{
    Dialect, Error,
    error::While,
    guard_sql,
    lock::Locked,
    meta::{self, Meta},
    partitions,
    sql::{newest, sql},
};

/// An idempotency key holds the namespace beside a digest; providers take 255 bytes and more.
const NAMESPACE_BYTES_MAX: usize = 64;

/// What [`run`] may be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The namespace from which all idempotency keys of this database are made: 1 to 64 of `A-Z a-z 0-9 . _ -`. It is
    /// written by the first migration, and random if none is given. A database keeps the one that it has.
    pub namespace: Option<String>,
    /// Also install the guard: triggers that refuse illegal moves typed by hand. Earmark makes none itself, and the
    /// triggers cost every settle, so it is off by default. Turning the option off later leaves the guard in place.
    pub guard: bool,
    /// A pooler that lends its servers transaction by transaction (PgBouncer with `pool_mode = transaction`) stands before PostgreSQL.
    /// The run is one transaction anyway; with this it leaves no prepared statement behind on the server that it was lent, and
    /// minds none that it finds there. Needs a pool whose statement cache is off.
    pub pooler: bool,
    /// PostgreSQL: claims and events in so many hash partitions by the claim's key, 2 to 256; `None`: in one table each. Chosen when the
    /// tables are made; a database keeps what it has.
    pub partitions: Option<u32>,
}

/// What [`run`] found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The version before: 0 for a database without the tables.
    pub from: u32,
    /// The version now. It may be newer than this code, as long as this code can read it.
    pub to: u32,
    /// The names of the migrations that this run applied.
    pub applied: Vec<&'static str>,
    /// The database's namespace.
    pub namespace: String,
    /// Whether this run installed the guard.
    pub guard_installed: bool,
    /// In how many partitions the claims are; 0: in one table.
    pub partitions: u32,
}

/// Brings the tables up to date, and does nothing if they are.
///
/// Safe when many instances start at once: it takes a lock of its own, and the others find the work done. On PostgreSQL
/// and SQLite the whole run is one transaction. MySQL commits at each DDL statement: a run that dies half-way there
/// leaves some of the tables, and the next run makes the rest.
///
/// **SQLite: open the service's pool after this call**, on a connection of its own. A connection that was open before
/// keeps the old schema in mind, and its first `INSERT … ON CONFLICT` fails.
///
/// MySQL: do not drop the future before it is ready. The lock belongs to the connection, which then goes back into the
/// pool with it, and other runners wait until it is closed.
///
/// # Errors
/// - [`Error::BadNamespace`], [`Error::OtherNamespace`]: the namespace asked for cannot be had.
/// - [`Error::Partitions`], [`Error::OtherPartitions`]: the partitions asked for cannot be had.
/// - [`Error::TooNew`]: newer code has changed the tables beyond what this code can read.
/// - [`Error::Locked`]: another runner holds the lock on MySQL and does not end. PostgreSQL and SQLite say the same as an
///   [`Error::Database`] while waiting for the lock or beginning the transaction.
/// - [`Error::Meta`]: `earmark_meta` was edited by hand into something unreadable.
/// - [`Error::UnknownBackend`], [`Error::Database`]: the database itself.
pub async fn run(db: &DatabaseConnection, options: &Options) -> Result<Report, Error> {
    let dialect = Dialect::of(db.get_database_backend())?;
    if let Some(namespace) = &options.namespace {
        check_namespace(namespace)?;
    }
    if let Some(count) = options.partitions {
        partitions::check(dialect, count)?;
    }
    let locked = Locked::take(db, dialect, options.pooler).await?;
    let outcome = apply(&locked.tx, dialect, options, newest(dialect)).await;
    locked.end(outcome).await
}

/// The run itself, on a connection that whoever calls has locked.
pub(crate) async fn apply(
    db: &impl ConnectionTrait,
    dialect: Dialect,
    options: &Options,
    up_to: u32,
) -> Result<Report, Error> {
    let before = Meta::read(db, dialect).await?;
    let known = newest(dialect);
    if before.version > known && before.breaking > known {
        return Err(Error::TooNew { found: before.version, breaking: before.breaking, known });
    }
    // Refused before anything is changed.
    if let (Some(wanted), Some(found)) = (&options.namespace, &before.namespace)
        && wanted != found
    {
        return Err(Error::OtherNamespace { wanted: wanted.clone(), found: found.clone() });
    }

    let found = partitions::count(db, dialect).await?;
    if let Some(wanted) = options.partitions
        && before.version > 0
        && wanted != found
    {
        return Err(Error::OtherPartitions { wanted, found });
    }

    let mut applied = Vec::new();
    let missing = before.version + 1..=up_to;
    for migration in sql(dialect).iter().filter(|migration| missing.contains(&migration.version)) {
        let doing = || format!("applying {}", migration.name);
        if migration.version == 1 {
            let script = match options.partitions {
                Some(count) => Cow::Owned(partitions::partitioned(migration.sql, count)?),
                None => Cow::Borrowed(migration.sql),
            };
            first(db, dialect, &script, options.namespace.as_deref()).await.while_(doing())?;
        } else {
            db.execute_unprepared(migration.sql).await.while_(doing())?;
        }
        tracing::info!(migration = migration.name, "applied");
        applied.push(migration.name);
    }

    let guard_installed = options.guard && !meta::guard_exists(db, dialect).await?;
    if guard_installed {
        db.execute_unprepared(guard_sql(dialect)).await.while_("installing the guard")?;
        tracing::info!("the guard is installed");
    }

    let after = Meta::read(db, dialect).await?;
    let namespace = after.namespace.ok_or(Error::Meta { name: "namespace", found: "nothing".to_owned() })?;
    let partitions = partitions::count(db, dialect).await?;
    Ok(Report { from: before.version, to: after.version, applied, namespace, guard_installed, partitions })
}

/// The first migration, and the namespace with it.
async fn first(
    db: &impl ConnectionTrait,
    dialect: Dialect,
    script: &str,
    namespace: Option<&str>,
) -> Result<(), sea_orm::DbErr> {
    let backend = db.get_database_backend();
    match dialect {
        // One transaction: nobody sees the random one in between.
        Dialect::Postgres | Dialect::Sqlite => {
            db.execute_unprepared(script).await?;
            if let Some(namespace) = namespace {
                let sql = "UPDATE earmark_meta SET value = $1 WHERE name = 'namespace'";
                db.execute_raw(Statement::from_sql_and_values(backend, sql, [namespace.into()])).await?;
            }
        }
        // No transaction: the script takes the namespace from the session, so that it is written in one statement with
        // the version. The variable must not stay, since the session goes back to a pool.
        Dialect::MySql => {
            let set = "SET @earmark_namespace = ?";
            db.execute_raw(Statement::from_sql_and_values(backend, set, [namespace.into()])).await?;
            let outcome = db.execute_unprepared(script).await;
            db.execute_unprepared("SET @earmark_namespace = NULL").await?;
            outcome?;
        }
    }
    Ok(())
}

fn check_namespace(namespace: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=NAMESPACE_BYTES_MAX).contains(&namespace.len()) && namespace.bytes().all(fits) {
        Ok(())
    } else {
        Err(Error::BadNamespace { namespace: namespace.to_owned() })
    }
}
