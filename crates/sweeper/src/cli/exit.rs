//! Exit codes: the one table.

use std::process::ExitCode;

use earmark_claim::Error as Store;
use earmark_sweeper::config::Faults;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    Refused = 4,
    Faults = 5,
    Interrupted = 130,
}

pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    1  failed
    2  the arguments or the configuration cannot be used
    3  the database cannot be reached
    4  refused: the page is stale, it is not allowed yet or in this state, or another number of claims was expected
    5  doctor found faults
  130  interrupted

Data goes to standard output, messages to standard error. RUST_LOG sets what is logged (info, earmark_sweeper=debug);
NO_COLOR switches colours off.";

pub(crate) fn long_help() -> String {
    format!("{TABLE}\n\n{}", earmark_sweeper::config::help())
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An end that the error's type does not tell.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Ended {
    exit: Exit,
    words: String,
}

impl Ended {
    /// The arguments cannot be used.
    pub(crate) fn usage(words: impl Into<String>) -> anyhow::Error {
        Self { exit: Exit::Usage, words: words.into() }.into()
    }

    /// Not allowed.
    pub(crate) fn refused(words: impl Into<String>) -> anyhow::Error {
        Self { exit: Exit::Refused, words: words.into() }.into()
    }
}

/// The exit code of an error.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_one).unwrap_or(Exit::Failed)
}

fn of_one(error: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(ended) = error.downcast_ref::<Ended>() {
        return Some(ended.exit);
    }
    if error.is::<Faults>() || error.is::<earmark_effects::http::Faults>() {
        return Some(Exit::Usage);
    }
    if let Some(error) = error.downcast_ref::<Store>() {
        return Some(of_store(error));
    }
    match error.downcast_ref::<earmark_sweeper::Error>() {
        Some(earmark_sweeper::Error::Store(error)) => return Some(of_store(error)),
        Some(earmark_sweeper::Error::Config(_) | earmark_sweeper::Error::Schedule(_)) => {
            return Some(Exit::Usage);
        }
        _ => {}
    }
    if error.is::<sea_orm::DbErr>() {
        return Some(Exit::Unreachable);
    }
    None
}

fn of_store(error: &Store) -> Exit {
    match error {
        Store::Config(_) | Store::Invalid { .. } | Store::Key(_) => Exit::Usage,
        Store::Refused(_) => Exit::Refused,
        error if error.is_transient() => Exit::Unreachable,
        _ => Exit::Failed,
    }
}
