//! What can go wrong, each with what to do about it.

use sea_orm::DbErr;

/// Why the schema could not be brought up to date.
///
/// `Display` does not repeat the source: print the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused a statement, or could not be reached.
    #[error("the database failed while {doing}")]
    Database {
        /// What was being done, such as `applying 0001_claims`.
        doing: String,
        /// What the database said.
        #[source]
        source: DbErr,
    },
    /// The connection is to a database that Earmark does not know.
    #[error("no tables are written for the database {backend}: use PostgreSQL, MySQL, MariaDB or SQLite")]
    UnknownBackend {
        /// sea-orm's name for it.
        backend: String,
    },
    /// The namespace that was asked for cannot be one.
    #[error(
        "the namespace {namespace:?} is not 1 to 64 letters, digits, dots, dashes or underscores of ASCII"
    )]
    BadNamespace {
        /// What was asked for.
        namespace: String,
    },
    /// The database has a namespace already, and it is another.
    #[error(
        "this database has the namespace {found:?}, not {wanted:?}: every idempotency key in it was made from that one; \
         leave the option out, or check that this is the right database"
    )]
    OtherNamespace {
        /// What was asked for.
        wanted: String,
        /// What the database has.
        found: String,
    },
    /// The number of partitions that was asked for cannot be had.
    #[error("{wanted} partitions cannot be had: {why}")]
    Partitions {
        /// What was asked for.
        wanted: u32,
        /// Why not.
        why: &'static str,
    },
    /// The tables are there already, in another number of partitions.
    #[error(
        "the claims of this database are in {found} partitions, not {wanted} (0: not partitioned): that is chosen when the \
         tables are made; leave the option out, or make a new database and move the claims by hand"
    )]
    OtherPartitions {
        /// What was asked for.
        wanted: u32,
        /// What the database has.
        found: u32,
    },
    /// Newer code has migrated the database past what this code can read.
    #[error(
        "this database has schema {found}, which code for schema {breaking} or later can read, and this code knows \
         schema {known}: deploy the newer code"
    )]
    TooNew {
        /// The database's `schema_version`.
        found: u32,
        /// The database's `schema_breaking`.
        breaking: u32,
        /// The newest version that this code knows.
        known: u32,
    },
    /// A row of `earmark_meta` is missing or holds what no code of Earmark writes.
    #[error("earmark_meta holds {found} as {name}: set that row right by hand")]
    Meta {
        /// The row's name.
        name: &'static str,
        /// What was found: the value in quotes, or `nothing`.
        found: String,
    },
    /// Somebody else is migrating, or died with the lock while its connection lives on.
    #[error("another session has held the migration lock for {seconds} seconds: let it end, or end it")]
    Locked {
        /// How long was waited.
        seconds: u32,
    },
}

/// Says what was being done when the database failed.
pub(crate) trait While<T> {
    fn while_(self, doing: impl Into<String>) -> Result<T, Error>;
}

impl<T> While<T> for Result<T, DbErr> {
    fn while_(self, doing: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Database { doing: doing.into(), source })
    }
}
