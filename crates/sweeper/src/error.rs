//! What can go wrong in a sweeper.

/// An error of the sweeper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options cannot be used; every fault is listed.
    #[error("the sweeper cannot be used: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The store's.
    #[error(transparent)]
    Store(#[from] earmark_claim::Error),
    /// The effects'.
    #[error(transparent)]
    Effects(#[from] earmark_effects::Error),
    /// The scheduler could not be started.
    #[error("the schedule cannot be used: {0}")]
    Schedule(String),
}
