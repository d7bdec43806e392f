//! Pauses on the report.

use serde::Serialize;

use crate::report::untrusted::Untrusted;
use crate::report::words::Moment;

/// A downstream that nothing is sent to, by a person's word.
#[derive(Clone, Debug, Serialize)]
pub struct Pause {
    /// The downstream.
    pub downstream: Untrusted,
    /// Since when.
    pub at: Moment,
    /// Who paused it.
    pub actor: Untrusted,
    /// Why.
    pub reason: Untrusted,
    /// How it ended; `None`: it stands.
    pub resumed: Option<Resumed>,
}

/// How a pause ended.
#[derive(Clone, Debug, Serialize)]
pub struct Resumed {
    /// When.
    pub at: Moment,
    /// Who ended it.
    pub actor: Untrusted,
    /// Why.
    pub reason: Untrusted,
}
