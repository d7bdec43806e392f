//! What can go wrong. Losing a race is not an error, and a refused move says what would be needed.

use sea_orm::DbErr;

use crate::key::KeyError;
use crate::state::Refused;

/// An error of the store. Where it says so, nothing was written; in every other case the claim, if there is one, is found by
/// the sweep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key was refused before anything was written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The claim, ruling or option is wrong; every fault is listed. Nothing was written.
    #[error("{what} cannot be used: {}", faults.join("; "))]
    Invalid {
        /// What was given.
        what: &'static str,
        /// Everything that is wrong with it.
        faults: Vec<String>,
    },
    /// The machine does not allow the move. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no claim under this key.
    #[error("there is no claim {0}")]
    NotFound(String),
    /// The database kept rolling back because of others. Nothing was written; no call may be made.
    #[error("{what}: the database kept rolling back because of concurrent work; nothing was written")]
    Contention {
        /// What was being done.
        what: &'static str,
        /// The last error.
        #[source]
        source: DbErr,
    },
    /// So much is queued that its turn did not come in time. Nothing was written; no call may be made.
    #[error("{what}: its turn to be written did not come within {waited:?}; nothing was written")]
    Busy {
        /// What was being done.
        what: &'static str,
        /// How long it has waited: the store's patience; or not at all, where too many wait already for keys that strangers' transactions
        /// hold.
        waited: std::time::Duration,
    },
    /// The database cannot be used now. Nothing was written; no call may be made.
    #[error("{what}: the database cannot be used now; nothing was written")]
    Unavailable {
        /// What was being done.
        what: &'static str,
        /// The last error.
        #[source]
        source: DbErr,
    },
    /// The statement was handed over and nobody could say what became of it. No call may be made, and the
    /// message must not be acknowledged; a redelivery finds out.
    #[error(
        "{what}: whether it was committed is not known yet; make no call and let the message be delivered again"
    )]
    Unclear {
        /// What was being done.
        what: &'static str,
        /// The last error.
        #[source]
        source: DbErr,
    },
    /// The database refused the statement: a constraint of another table or of the host's own, or a bug. Nothing was written.
    #[error("{what}: the database refused it; nothing was written")]
    Rejected {
        /// What was being done.
        what: &'static str,
        /// The server's error, unchanged.
        #[source]
        source: DbErr,
    },
    /// A stored row cannot be read: a newer schema, or a hand-typed change.
    #[error("the row of claim {key} cannot be read: {what}")]
    Malformed {
        /// Which claim.
        key: String,
        /// What cannot be read.
        what: String,
    },
    /// Inside the caller's own transaction: the server has ended it (40001, 40P01, 1213). Roll back and run the whole transaction again.
    #[error(
        "the server ended your transaction because of concurrent work: roll back and run the whole transaction again"
    )]
    RetryTransaction(#[source] DbErr),
    /// Inside the caller's own transaction: a statement failed for a reason that is not a duplicate claim, such as a
    /// violation of another constraint. The error is unchanged.
    #[error("a statement in your transaction failed")]
    InTransaction(#[source] DbErr),
    /// Inside the caller's own SQLite transaction: it did not begin IMMEDIATE, or waited too long for the write lock.
    #[error(
        "SQLite would not let your transaction write: begin it with \
         TransactionOptions {{ sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate), .. }}, \
         since one that reads first and writes later fails as soon as another connection has written"
    )]
    SqliteNotImmediate(#[source] DbErr),
    /// The store cannot be opened; every fault is listed, each with its fix.
    #[error("the store cannot be opened: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The database could not be reached when the store was opened.
    #[error("the database could not be reached")]
    Connect(#[source] DbErr),
    /// The store has been closed.
    #[error("the store has been closed")]
    Closed,
    /// The operating system gave no random bytes.
    #[error("no random bytes for a token")]
    Random(#[source] getrandom::Error),
}

impl Error {
    /// Whether the same call may be made again with hope: contention, an unreachable database, an unclear commit.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Contention { .. }
                | Self::Busy { .. }
                | Self::Unavailable { .. }
                | Self::Unclear { .. }
                | Self::RetryTransaction(_)
                | Self::Connect(_)
        )
    }
}
