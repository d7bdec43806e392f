//! What can go wrong outside the effect itself.

/// An error of [`Earmark`](crate::Earmark). The message must not be acknowledged, except where it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's: see there whether a call may have been made (never, unless an outcome could not be recorded).
    #[error(transparent)]
    Store(#[from] earmark_claim::Error),
    /// The effects cannot be used; every fault is listed.
    #[error("the effects cannot be used: {}", .0.join("; "))]
    Config(Vec<String>),
    /// No effect of that kind or type is registered. Nothing was written.
    #[error("no effect is registered for {0}: add it to the builder")]
    NotRegistered(String),
    /// The request cannot be stored. Nothing was written.
    #[error("the request cannot be stored as JSON")]
    Request(#[source] serde_json::Error),
    /// The HTTP call cannot be frozen. Nothing was written.
    #[cfg(feature = "http")]
    #[error("the HTTP call cannot be used")]
    Call(#[source] crate::http::Faults),
    /// The transaction in which the claim was made has not been committed, or was rolled back. Nothing was sent; the claim is handed back.
    #[error("the transaction in which the claim was made has not been committed")]
    NotCommitted(Box<earmark_claim::Claim<earmark_claim::Held>>),
    /// The downstream is not to be called now. Nothing was written, and nothing was sent.
    #[error("{downstream} is not to be called now: {}", .halt.as_str())]
    HeldBack {
        /// The downstream.
        downstream: String,
        /// Why.
        halt: crate::gate::Halt,
    },
    /// The service is shutting down: no new claims are made. Give the message back.
    #[error("shutting down: no new claims are made")]
    Closing,
    /// The task was ended from outside (the runtime is shutting down). The claim, if it was made by then, becomes in doubt.
    #[error("the attempt was ended from outside; the sweep finds out what became of it")]
    Interrupted,
}
