//! The rows of `earmark_meta`, and what else the catalog tells.

use sea_orm::{ConnectionTrait, Statement};

use crate::{Dialect, Error, error::While};

/// What the database says about itself. Version 0: no tables, or a first migration that stopped half-way.
pub(crate) struct Meta {
    pub(crate) version: u32,
    pub(crate) breaking: u32,
    pub(crate) namespace: Option<String>,
}

impl Meta {
    pub(crate) async fn read(db: &impl ConnectionTrait, dialect: Dialect) -> Result<Self, Error> {
        if !table_exists(db, dialect).await? {
            return Ok(Self { version: 0, breaking: 0, namespace: None });
        }
        Ok(Self {
            version: number(db, "schema_version").await?.unwrap_or(0),
            breaking: number(db, "schema_breaking").await?.unwrap_or(0),
            namespace: value(db, "namespace").await?,
        })
    }
}

/// Is `earmark_meta` there, where an unqualified name would find it?
async fn table_exists(db: &impl ConnectionTrait, dialect: Dialect) -> Result<bool, Error> {
    let sql = match dialect {
        Dialect::Postgres => "SELECT 1 AS found WHERE to_regclass('earmark_meta') IS NOT NULL",
        Dialect::MySql => {
            "SELECT 1 AS found FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name = 'earmark_meta'"
        }
        Dialect::Sqlite => {
            "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = 'earmark_meta'"
        }
    };
    Ok(!rows(db, sql, "looking for earmark_meta").await?.is_empty())
}

/// Are both triggers of the guard there?
pub(crate) async fn guard_exists(db: &impl ConnectionTrait, dialect: Dialect) -> Result<bool, Error> {
    let sql = match dialect {
        Dialect::Postgres => {
            "SELECT 1 AS found FROM pg_trigger WHERE tgrelid = to_regclass('earmark_claim') \
             AND tgname IN ('earmark_claim_guard_update', 'earmark_claim_guard_delete')"
        }
        Dialect::MySql => {
            "SELECT 1 AS found FROM information_schema.triggers WHERE trigger_schema = DATABASE() \
             AND trigger_name IN ('earmark_claim_guard_update', 'earmark_claim_guard_delete')"
        }
        Dialect::Sqlite => {
            "SELECT 1 AS found FROM sqlite_master WHERE type = 'trigger' \
             AND name IN ('earmark_claim_guard_update', 'earmark_claim_guard_delete')"
        }
    };
    Ok(rows(db, sql, "looking for the guard").await?.len() == 2)
}

async fn number(db: &impl ConnectionTrait, name: &'static str) -> Result<Option<u32>, Error> {
    match value(db, name).await? {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| Error::Meta { name, found: format!("{text:?}") }),
    }
}

async fn value(db: &impl ConnectionTrait, name: &'static str) -> Result<Option<String>, Error> {
    // The names are constants of this file's callers: nothing to bind, which spares a prepared statement.
    let sql = format!("SELECT value FROM earmark_meta WHERE name = '{name}'");
    let rows = rows(db, &sql, "reading earmark_meta").await?;
    rows.first().map(|row| row.try_get("", "value")).transpose().while_("reading earmark_meta")
}

async fn rows(
    db: &impl ConnectionTrait,
    sql: &str,
    doing: &'static str,
) -> Result<Vec<sea_orm::QueryResult>, Error> {
    db.query_all_raw(Statement::from_string(db.get_database_backend(), sql)).await.while_(doing)
}
