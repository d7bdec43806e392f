//! What became of a message.

use earmark_claim::state::ClosedBy;
use earmark_claim::{Claimed, ErrorClass, Receipt, Timestamp};

/// What became of the effect that a message asks for. On every one of them the message may be acknowledged: the claim carries the rest.
#[derive(Debug)]
#[must_use = "the effect may not have happened"]
pub enum Outcome<R> {
    /// It happened: now, or earlier.
    Confirmed(Receipt<R>),
    /// To be sent later; nothing was sent. The downstream is not to be called now, or the request is not to be sent yet.
    Held {
        /// When the sweep may send it, at the earliest: a pause lasts until a person ends it.
        until: Timestamp,
    },
    /// Somebody else is at it.
    InFlight {
        /// Until when its holder is believed.
        until: Timestamp,
    },
    /// Nothing happened yet; it is tried again.
    Retryable {
        /// When.
        at: Timestamp,
    },
    /// It may have happened; the sweep finds out.
    InDoubt {
        /// Since when.
        since: Timestamp,
    },
    /// A person must rule.
    Escalated,
    /// It did not happen and will not: refused by the provider, called off, expired, or ruled.
    Abandoned {
        /// Why.
        by: ClosedBy,
        /// The class of the refusal, if there was one.
        class: Option<ErrorClass>,
    },
    /// The key was used with another request; nothing is told of that one.
    Mismatch,
}

impl<R> Outcome<R> {
    /// Of what a claim on file answers. A won claim is not an outcome: it has to be performed first.
    pub(crate) fn of(claimed: Claimed) -> Option<Self> {
        Some(match claimed {
            Claimed::Won(_) => return None,
            Claimed::Confirmed(receipt) => Self::Confirmed(receipt.cast()),
            Claimed::Held { until } => Self::Held { until },
            Claimed::InFlight { until } => Self::InFlight { until },
            Claimed::Retryable { at } => Self::Retryable { at },
            Claimed::InDoubt { since } => Self::InDoubt { since },
            Claimed::Escalated => Self::Escalated,
            Claimed::Abandoned { by, class } => Self::Abandoned { by, class },
            Claimed::Mismatch => Self::Mismatch,
        })
    }

    /// Whether it is known to have happened.
    pub fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed(_))
    }

    /// The same outcome, its receipt to be read as another type.
    pub fn cast<S>(self) -> Outcome<S> {
        match self {
            Self::Confirmed(receipt) => Outcome::Confirmed(receipt.cast()),
            Self::Held { until } => Outcome::Held { until },
            Self::InFlight { until } => Outcome::InFlight { until },
            Self::Retryable { at } => Outcome::Retryable { at },
            Self::InDoubt { since } => Outcome::InDoubt { since },
            Self::Escalated => Outcome::Escalated,
            Self::Abandoned { by, class } => Outcome::Abandoned { by, class },
            Self::Mismatch => Outcome::Mismatch,
        }
    }
}
