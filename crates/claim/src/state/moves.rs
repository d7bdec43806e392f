//! What a judged event becomes.

use std::time::Duration;

use super::{EDGES, State, Verb};
use crate::failure::ErrorClass;
use crate::time::Timestamp;

/// A legal move, or something kept where nothing moves. The store writes it with one conditional update that
/// repeats the state, fence and token of the facts it was judged on.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Why.
    pub verb: Verb,
    /// From where.
    pub from: State,
    /// To where; equal to `from` where something is only kept.
    pub to: State,
    /// Whether it is a new fact: the revision grows.
    pub new_fact: bool,
    /// The update must find `due_at` passed.
    pub only_if_due: bool,
    /// The update must come before this moment: a taking with nothing left to send in is refused.
    pub not_after: Option<Timestamp>,
    /// What the row holds afterwards.
    pub set: Changes,
}

/// The columns after a move. Counters are absolute: the update repeats the token of the facts, and whatever else may
/// change them under that token changes the revision, which every move but the holder's own settle repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The doubt afterwards.
    pub doubt: bool,
    /// The mark of conflicting evidence afterwards.
    pub contradicted: bool,
    /// The fence grows and a fresh token is written.
    pub taking: bool,
    /// `due_at`.
    pub due: Due,
    /// `window_from`.
    pub window: Window,
    /// `last_end_at`.
    pub last_end: LastEnd,
    /// Attempts that may have left.
    pub attempts: u32,
    /// Ruled repeats not yet spent.
    pub repeats_granted: u32,
    /// `ruled_at` becomes now.
    pub ruled: bool,
    /// Looks that could have been proof.
    pub looks: u32,
    /// `closed_at` and `closed_by`.
    pub closed: Closed,
    /// Class of the newest failure.
    pub error_class: Option<ErrorClass>,
    /// The provider's id on file.
    pub provider_ref: Option<String>,
    /// The landing horizon that a person stated, kept on the row from then on; `None`: unchanged.
    pub landing_horizon: Option<Duration>,
}

/// What becomes of `due_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Unchanged.
    Keep,
    /// Null: nothing is due any more.
    Never,
    /// That long after the statement.
    In(Duration),
}

/// What becomes of `window_from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Unchanged.
    Keep,
    /// Null: no attempt may have reached the provider.
    Clear,
    /// Now, unless it is set: the window counts from the first attempt, not from the newest.
    StartUnlessSet,
}

/// What becomes of `closed_at` and `closed_by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Unchanged.
    Keep,
    /// Null: the claim is open again.
    Reopen,
    /// Now, by that: the claim reaches a terminal state.
    By(ClosedBy),
}

/// How a terminal state was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// The provider's answer to our own call.
    Answer,
    /// A probe.
    Probe,
    /// A webhook, a statement line, a late answer.
    Evidence,
    /// A person.
    Ruling,
    /// The provider's final refusal.
    Refused,
    /// Its owner called it off.
    Cancelled,
    /// Send-by had passed.
    Expired,
}

impl ClosedBy {
    /// Every way.
    pub const ALL: [Self; 7] = [
        Self::Answer,
        Self::Probe,
        Self::Evidence,
        Self::Ruling,
        Self::Refused,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Probe => "probe",
            Self::Evidence => "evidence",
            Self::Ruling => "ruling",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// What becomes of `last_end_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEnd {
    /// Unchanged.
    Keep,
    /// The attempt ends with its settle.
    Now,
    /// Nobody settled: the attempt ends with its lease.
    LeaseEnd,
}

impl Move {
    /// Whether state changes.
    pub fn moves(&self) -> bool {
        self.from != self.to
    }

    /// Whether (verb, from, to) is in [`EDGES`], or nothing moves.
    pub fn is_legal(&self) -> bool {
        !self.moves() || EDGES.contains(&(self.verb, self.from, self.to))
    }
}

/// Why an event moves nothing. Nothing is written for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The claim is not in a state in which this can happen.
    #[error("the claim is {state}: this needs {needs}")]
    WrongState {
        /// Its state.
        state: State,
        /// What would be needed.
        needs: &'static str,
    },
    /// The page is stale: state, fence or revision have moved since.
    #[error(
        "the claim has moved since the page was made: now {state}, fence {fence}, revision {revision}; look again"
    )]
    Moved {
        /// Its state now.
        state: State,
        /// Its fence now.
        fence: u64,
        /// Its revision now.
        revision: u64,
    },
    /// Allowed, but only from that moment on.
    #[error("allowed from {from} on: {why}")]
    NotYet {
        /// From when.
        from: Timestamp,
        /// Why not earlier.
        why: &'static str,
    },
    /// Nothing is left to send in: the key window or send-by is over, or the lease is too short.
    #[error("nothing is left to send in: {why}")]
    NothingLeft {
        /// What is over.
        why: &'static str,
    },
    /// The effect may be doubled by a repeat.
    #[error("a repeat is not known to be harmless: {why}")]
    RepeatNotSafe {
        /// Which of the grounds for a repeat is missing.
        why: &'static str,
    },
    /// Attempts for life are used up.
    #[error("attempts for life are used up ({attempts})")]
    AttemptsUsed {
        /// How many were made.
        attempts: u32,
    },
    /// The claim has reached its age limit.
    #[error("the claim has reached its age limit; a person must look at it")]
    AgeUsed,
    /// A fault that no retry mends.
    #[error("no retry mends {class}: a person must look at it")]
    NoRetryMends {
        /// The fault.
        class: ErrorClass,
    },
    /// No landing horizon is declared: the person must state one.
    #[error(
        "no landing horizon is declared: state how long a request that was given up may still take effect, at least {}s",
        at_least.as_secs_f64()
    )]
    HorizonNeeded {
        /// The call timeout.
        at_least: Duration,
    },
    /// The request has been purged.
    #[error("the request has been purged: make a new claim that supersedes this one")]
    Purged,
}
