//! What can happen to a claim.

use std::time::Duration;

use super::{Facts, Refused, Room, State};
use crate::claim::Token;
use crate::failure::ErrorClass;
use crate::time::Timestamp;

/// Something that happens to a claim: judged by [`super::next`].
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody becomes the holder.
    Taking {
        /// Out of which state.
        how: Taking,
        /// Lease and margin of the taker.
        room: Room,
    },
    /// A holder reports how its attempt ended.
    Settle {
        /// The fence of its taking.
        fence: u64,
        /// The token of its taking.
        token: Token,
        /// What it reports.
        outcome: Outcome,
        /// When the claim is due again if it stays open.
        again_in: Duration,
    },
    /// The lease ended and nobody had settled.
    LeaseOver,
    /// Send-by has passed.
    Expire,
    /// The owner calls it off.
    Cancel,
    /// A probe has looked.
    Look {
        /// The fence whose attempt was looked for.
        fence: u64,
        /// When the look began, by the database's clock.
        begun_at: Timestamp,
        /// What it found.
        finding: Finding,
        /// When to look again if it stays in doubt.
        again_in: Duration,
    },
    /// No rule may decide, or a person takes it out of the sweep's hands.
    Escalate,
    /// A person rules.
    Rule {
        /// The page on which the ruling was made.
        seen: Seen,
        /// The ruling.
        ruling: Ruling,
        /// The landing horizon that the person states; used where none is declared.
        horizon: Option<Duration>,
        /// Whether the person relied on what the probe shows, so that its lag counts.
        looked: bool,
    },
    /// A fact about the effect, whoever brings it.
    Evidence {
        /// What it says.
        finding: Finding,
        /// The same fact is on file already: a repeated webhook is no new fact.
        known: bool,
    },
}

/// Becoming the holder, by the state that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Held → in flight.
    Begin,
    /// Retryable → in flight.
    Take,
    /// In doubt → in flight, under the same key.
    Redrive,
}

/// What a holder reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done {
        /// The provider's id, if the answer names one.
        provider_ref: Option<String>,
    },
    /// It will not happen.
    Refused {
        /// The answer speaks for the earlier attempts too, while the window is open.
        covers_earlier: bool,
        /// For causes.
        class: ErrorClass,
    },
    /// Nothing happened in this attempt.
    NotSent {
        /// For causes.
        class: ErrorClass,
    },
    /// It may have happened.
    Unknown {
        /// The provider's id, if an answer without an outcome named one (202).
        provider_ref: Option<String>,
        /// For causes.
        class: ErrorClass,
    },
}

/// What a probe or a piece of evidence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It happened; every match, by the provider's ids. No id: the source names none.
    Done {
        /// The provider's ids.
        ids: Vec<String>,
    },
    /// It was refused for good.
    Refused {
        /// The source speaks for every attempt made under the claim.
        covers_all: bool,
    },
    /// It was looked for and not found.
    NotDone,
    /// The source cannot tell.
    CannotTell,
}

/// What was seen of a claim when something was decided about it: the page on which a person ruled, the row that a sweep found. The
/// decision loses if any of the three has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The state shown.
    pub state: State,
    /// The fence shown.
    pub fence: u64,
    /// The revision shown.
    pub revision: u64,
}

impl Seen {
    /// Of these facts.
    pub const fn of(f: &Facts) -> Self {
        Self { state: f.state, fence: f.fence, revision: f.revision }
    }

    /// Whether they are still what was seen.
    ///
    /// # Errors
    /// [`Refused::Moved`] when any of the three has moved.
    pub fn holds(self, f: &Facts) -> Result<(), Refused> {
        let now = Self::of(f);
        if self == now {
            return Ok(());
        }
        Err(Refused::Moved { state: now.state, fence: now.fence, revision: now.revision })
    }
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It happened.
    Done {
        /// The provider's id, where the person found one.
        provider_ref: Option<String>,
    },
    /// It did not happen, and is given up.
    NotDone,
    /// One more attempt.
    Repeat,
}
