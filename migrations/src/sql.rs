//! The texts, and which database each is for.

use sea_orm::DbBackend;

use crate::Error;

/// The database that a text is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL 13 and later.
    Postgres,
    /// MySQL 8.0.16 and later, MariaDB 10.6 and later.
    MySql,
    /// SQLite 3.37 and later.
    Sqlite,
}

impl Dialect {
    /// The dialect of a connection.
    ///
    /// # Errors
    /// [`Error::UnknownBackend`] for a database that sea-orm knows and Earmark does not.
    pub fn of(backend: DbBackend) -> Result<Self, Error> {
        match backend {
            DbBackend::Postgres => Ok(Self::Postgres),
            DbBackend::MySql => Ok(Self::MySql),
            DbBackend::Sqlite => Ok(Self::Sqlite),
            other => Err(Error::UnknownBackend { backend: format!("{other:?}") }),
        }
    }
}

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The `schema_version` that the database has after it; counts from 1.
    pub version: u32,
    /// The file's name without its endings, such as `0001_claims`.
    pub name: &'static str,
    /// Several statements, ended by semicolons; the last ones write the version into `earmark_meta`.
    pub sql: &'static str,
}

macro_rules! migrations {
    ($folder:literal: $($version:literal $name:literal),+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../sql/", $folder, "/", $name, ".up.sql")),
        }),+]
    };
}

/// All migrations of a database, oldest first.
pub fn sql(dialect: Dialect) -> &'static [Migration] {
    match dialect {
        Dialect::Postgres => migrations!("postgres": 1 "0001_claims"),
        Dialect::MySql => migrations!("mysql": 1 "0001_claims"),
        Dialect::Sqlite => migrations!("sqlite": 1 "0001_claims"),
    }
}

/// The optional triggers that refuse an illegal move, a shrinking fence or revision, and the purge and deletion of an open claim,
/// typed by hand. See [`Options::guard`](crate::Options::guard).
pub fn guard_sql(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => include_str!("../sql/postgres/guard.sql"),
        Dialect::MySql => include_str!("../sql/mysql/guard.sql"),
        Dialect::Sqlite => include_str!("../sql/sqlite/guard.sql"),
    }
}

/// The newest version that this code knows.
pub(crate) fn newest(dialect: Dialect) -> u32 {
    sql(dialect).last().map_or(0, |migration| migration.version)
}
