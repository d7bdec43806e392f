//! What a database holds, without changing it: for a check-up.

use sea_orm::{ConnectionTrait, Statement};

use crate::{
    Dialect, Error,
    error::While,
    meta::{self, Meta},
    partitions,
    sql::newest,
};

/// The indexes without which reads of people and sweeps scan the whole table.
const INDEXES: [(&str, &str); 7] = [
    ("earmark_claim", "earmark_claim_reference"),
    ("earmark_claim", "earmark_claim_provider_ref"),
    ("earmark_claim", "earmark_claim_due"),
    ("earmark_claim", ESCALATED),
    ("earmark_claim", "earmark_claim_closed"),
    ("earmark_claim", "earmark_claim_tombstone"),
    ("earmark_event", "earmark_event_at"),
];

/// MySQL has no partial index, and finds what is escalated by its null in `earmark_claim_tombstone`.
const ESCALATED: &str = "earmark_claim_escalated";

/// What [`inspect`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The `schema_version` of the database: 0 without the tables.
    pub version: u32,
    /// The oldest code that can read it.
    pub breaking: u32,
    /// The version that this code would migrate to.
    pub newest: u32,
    /// The namespace, if one is written.
    pub namespace: Option<String>,
    /// Whether the guard is installed.
    pub guard: bool,
    /// In how many partitions the claims are; 0: in one table.
    pub partitions: u32,
    /// Indexes of ours that are not there.
    pub missing_indexes: Vec<&'static str>,
}

/// Reads what is there; writes nothing and takes no lock. On a pool, or in a transaction.
///
/// # Errors
/// [`Error::Database`], [`Error::UnknownBackend`], [`Error::Meta`].
pub async fn inspect(db: &impl ConnectionTrait) -> Result<Inspection, Error> {
    let dialect = Dialect::of(db.get_database_backend())?;
    let Meta { version, breaking, namespace } = Meta::read(db, dialect).await?;
    let mut missing_indexes = Vec::new();
    if version > 0 {
        for (table, name) in INDEXES {
            let made = dialect != Dialect::MySql || name != ESCALATED;
            if made && !index_exists(db, dialect, table, name).await? {
                missing_indexes.push(name);
            }
        }
    }
    let guard = version > 0 && meta::guard_exists(db, dialect).await?;
    let partitions = partitions::count(db, dialect).await?;
    Ok(Inspection {
        version,
        breaking,
        newest: newest(dialect),
        namespace,
        guard,
        partitions,
        missing_indexes,
    })
}

async fn index_exists(
    db: &impl ConnectionTrait,
    dialect: Dialect,
    table: &'static str,
    name: &'static str,
) -> Result<bool, Error> {
    // The names are constants of this file: nothing to bind.
    let sql = match dialect {
        Dialect::Postgres => format!(
            "SELECT 1 AS found FROM pg_index WHERE indexrelid = to_regclass('{name}') \
             AND indrelid = to_regclass('{table}') AND indisvalid"
        ),
        Dialect::MySql => format!(
            "SELECT 1 AS found FROM information_schema.statistics WHERE table_schema = DATABASE() \
             AND table_name = '{table}' AND index_name = '{name}'"
        ),
        Dialect::Sqlite => {
            format!("SELECT 1 AS found FROM sqlite_master WHERE type = 'index' AND name = '{name}'")
        }
    };
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql)).await;
    Ok(!rows.while_("looking for an index")?.is_empty())
}
