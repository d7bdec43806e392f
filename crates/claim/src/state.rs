//! The machine: states, edges, and the one function that knows when an edge may be taken.
//!
//! Everything here is pure: no clock, no database, no randomness. The store turns a [`Move`] into its one
//! conditional update; the sweep, a service and a person all go through [`next`].

mod event;
mod facts;
mod moves;
mod next;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::str::FromStr;

pub use event::{Event, Finding, Outcome, Ruling, Seen, Taking};
pub use facts::{Facts, Room};
pub use moves::{Changes, Closed, ClosedBy, Due, LastEnd, Move, Refused, Window};
pub use next::next;

/// What is known of an effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Claimed, nothing sent.
    Held,
    /// May have been sent; its holder is believed until the lease ends.
    InFlight,
    /// To be tried again: nothing happened in any attempt, or a person ruled a repeat.
    Retryable,
    /// It may have happened and nobody knows.
    InDoubt,
    /// A person must rule.
    Escalated,
    /// Known to have happened. Terminal.
    Confirmed,
    /// Known not to have happened, and given up. Terminal.
    Abandoned,
}

impl State {
    /// Every state, in the order of a claim's life.
    pub const ALL: [Self; 7] = [
        Self::Held,
        Self::InFlight,
        Self::Retryable,
        Self::InDoubt,
        Self::Escalated,
        Self::Confirmed,
        Self::Abandoned,
    ];

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::InFlight => "in_flight",
            Self::Retryable => "retryable",
            Self::InDoubt => "in_doubt",
            Self::Escalated => "escalated",
            Self::Confirmed => "confirmed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Confirmed or abandoned.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Confirmed | Self::Abandoned)
    }

    /// Whether a row in this state has a `due_at`: what a sweep will look at.
    pub const fn is_due_some_day(self) -> bool {
        matches!(self, Self::Held | Self::InFlight | Self::Retryable | Self::InDoubt)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|s| s.as_str() == word).ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// A stored word that is no state: a newer schema, or a row typed by hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a state of a claim")]
pub struct UnknownState(pub String);

macro_rules! edges {
    ($($(#[$doc:meta])* $verb:ident $name:literal $(: $($from:ident => $to:ident),+)? ;)+) => {
        /// Why a claim moves, or what is kept about it where it stays. The stored name of the event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verb { $($(#[$doc])* $verb),+ }

        impl Verb {
            /// Every verb.
            pub const ALL: &'static [Self] = &[$(Self::$verb),+];

            /// The stored name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$verb => $name),+ }
            }
        }

        /// Every legal move between two different states. `docs/states.md`, the optional trigger and the tests are
        /// checked against this table; nothing else names a pair of states.
        pub const EDGES: &[(Verb, State, State)] = &[$($($((Verb::$verb, State::$from, State::$to),)+)?)+];
    };
}

edges! {
    /// A held claim starts: after the caller's own commit, or when it is due.
    Begin "begin": Held => InFlight;
    /// A retryable claim is tried again.
    Take "take": Retryable => InFlight;
    /// A claim in doubt is called again under the same key.
    Redrive "redrive": InDoubt => InFlight;

    /// The provider's answer to our own call: done.
    Confirm "confirm": InFlight => Confirmed, InDoubt => Confirmed;
    /// The provider's final refusal, of every attempt.
    Refuse "refuse": InFlight => Abandoned, InDoubt => Abandoned;
    /// A refusal that speaks for the newest attempt only.
    RefusedInDoubt "refused_in_doubt": InFlight => InDoubt;
    /// Provably nothing happened in this attempt.
    NotSent "not_sent": InFlight => Retryable, InDoubt => Retryable;
    /// Nothing happened in this attempt; an earlier one may have acted.
    NotSentInDoubt "not_sent_in_doubt": InFlight => InDoubt;
    /// It may have happened.
    Unknown "unknown": InFlight => InDoubt;
    /// The lease ended and nobody had settled.
    LeaseOver "lease_over": InFlight => InDoubt;

    /// A probe found it done.
    FoundDone "found_done": InDoubt => Confirmed;
    /// A probe found it refused for good, in every attempt.
    FoundRefused "found_refused": InDoubt => Abandoned;
    /// A probe's "not found" that is proof.
    FoundNotDone "found_not_done": InDoubt => Retryable;
    /// Evidence that it was done, whoever brings it.
    EvidenceDone "evidence_done":
        Held => Confirmed, InFlight => Confirmed, Retryable => Confirmed, InDoubt => Confirmed, Escalated => Confirmed;
    /// Evidence of a final refusal that covers every attempt.
    EvidenceRefused "evidence_refused": InDoubt => Abandoned;
    /// Evidence that conflicts with what is on file.
    Contradict "contradict":
        Held => Escalated, InFlight => Escalated, Retryable => Escalated, InDoubt => Escalated,
        Confirmed => Escalated, Abandoned => Escalated;

    /// Must not be sent any more.
    Expire "expire": Held => Abandoned, Retryable => Abandoned, Retryable => Escalated;
    /// Called off by its owner.
    Cancel "cancel": Held => Abandoned, Retryable => Abandoned, Retryable => Escalated;
    /// No rule may decide: handed to a person.
    Escalate "escalate": InDoubt => Escalated, Retryable => Escalated;
    /// A person ruled: it happened.
    RuleDone "rule_done": Escalated => Confirmed;
    /// A person ruled: it did not happen, and is given up.
    RuleNotDone "rule_not_done": Escalated => Abandoned;
    /// A person ruled: once more.
    RuleRepeat "rule_repeat": Escalated => Retryable, Abandoned => Retryable;

    // What is kept where nothing moves.
    /// The answer of a holder that was fenced out, or that came after somebody else's answer.
    LateAnswer "late_answer";
    /// A look that decided nothing.
    Look "look";
    /// Evidence that decided nothing.
    Evidence "evidence";
    /// The same key with another request.
    Mismatch "mismatch";
    /// The receipt of a confirmed claim, kept before a contradiction lets another one take its place.
    ReceiptKept "receipt_kept";
}
