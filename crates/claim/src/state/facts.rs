//! What is known of a claim when a move is judged.

use std::time::Duration;

use super::State;
use super::moves::{Due, LastEnd, Move, Window};
use crate::claim::Token;
use crate::declared::{Declared, RepeatSafety};
use crate::failure::ErrorClass;
use crate::time::Timestamp;

/// The columns of a claim that judge its moves, read together with the database's clock.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The database's clock when the rest was read. A lower bound of the present.
    pub now: Timestamp,
    /// The state.
    pub state: State,
    /// An attempt before the present or next one may have acted.
    pub doubt: bool,
    /// The evidence on file conflicts.
    pub contradicted: bool,
    /// Grows by one at every taking.
    pub fence: u64,
    /// Written fresh by every taking.
    pub token: Token,
    /// Grows at every move and with every new fact.
    pub revision: u64,
    /// Held: when the sweep may start it; in flight: the lease's end; retryable: next attempt; in doubt: next look.
    pub due_at: Option<Timestamp>,
    /// Not to be sent before.
    pub not_before: Option<Timestamp>,
    /// Not to be sent after.
    pub send_by: Option<Timestamp>,
    /// When the claim was committed.
    pub created_at: Timestamp,
    /// Start of the first attempt that may have reached the provider.
    pub window_from: Option<Timestamp>,
    /// End of the newest attempt: its settle, or its lease's end when nobody settled.
    pub last_end_at: Option<Timestamp>,
    /// Attempts that may have left, one in flight included.
    pub attempts: u32,
    /// Ruled repeats not yet spent.
    pub repeats_granted: u32,
    /// The last ruling, from which age counts anew.
    pub ruled_at: Option<Timestamp>,
    /// Looks of the newest fence that could have been proof.
    pub looks: u32,
    /// Class of the newest failure.
    pub error_class: Option<ErrorClass>,
    /// The provider's id on file.
    pub provider_ref: Option<String>,
    /// What the effect declares: frozen, or the stricter of frozen and registered.
    pub declared: Declared,
    /// Request and receipt have been dropped.
    pub purged: bool,
}

/// How much room a taking has: the store's lease, and the safety margin between clocks, wire and window.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// For how long the holder will be believed.
    pub lease: Duration,
    /// Kept free before the window's end.
    pub margin: Duration,
}

impl Facts {
    /// The facts after a move that was judged on these, and written under `token` if it is a taking. Times count from [`Facts::now`], a lower
    /// bound of when it was written.
    #[must_use]
    pub fn after(&self, made: &Move, token: Token) -> Self {
        let set = &made.set;
        Self {
            state: made.to,
            doubt: set.doubt,
            contradicted: set.contradicted,
            fence: self.fence.saturating_add(u64::from(set.taking)),
            token: if set.taking { token } else { self.token },
            revision: self.revision.saturating_add(u64::from(made.new_fact)),
            due_at: match set.due {
                Due::Keep => self.due_at,
                Due::Never => None,
                Due::In(wait) => Some(self.now.plus(wait)),
            },
            window_from: match set.window {
                Window::Keep => self.window_from,
                Window::Clear => None,
                Window::StartUnlessSet => self.window_from.or(Some(self.now)),
            },
            last_end_at: match set.last_end {
                LastEnd::Keep => self.last_end_at,
                LastEnd::Now => Some(self.now),
                LastEnd::LeaseEnd => self.due_at,
            },
            attempts: set.attempts,
            repeats_granted: set.repeats_granted,
            ruled_at: if set.ruled { Some(self.now) } else { self.ruled_at },
            looks: set.looks,
            error_class: set.error_class.clone(),
            provider_ref: set.provider_ref.clone(),
            declared: Declared {
                landing_horizon: set.landing_horizon.or(self.declared.landing_horizon),
                ..self.declared.clone()
            },
            ..self.clone()
        }
    }

    /// Until when the provider remembers the key; `None` when it does not, or nothing may have reached it.
    pub fn window_end(&self) -> Option<Timestamp> {
        match self.declared.repeat {
            RepeatSafety::Keyed { window } => Some(self.window_from?.plus(window)),
            RepeatSafety::Natural | RepeatSafety::Never => None,
        }
    }

    /// The latest moment at which a taking of this claim may start to send, apart from its lease: the window's end
    /// less what a request may still need to land, and send-by. The window binds only where an earlier attempt may
    /// have acted and no person granted the repeat.
    pub fn send_limit(&self, carries_doubt: bool, margin: Duration) -> Option<Timestamp> {
        let window = match self.declared.repeat {
            RepeatSafety::Keyed { .. } if carries_doubt && self.repeats_granted == 0 => {
                // Handed over now, given up after the call timeout, landing within the horizon after that. Their sum and not
                // the greater of the two: a request that lands when the key is forgotten is a second effect.
                let timeout = self.declared.call_timeout;
                let needed = timeout.saturating_add(self.declared.landing_horizon.unwrap_or(timeout));
                // A window whose start is not on file is closed: nothing shows that it is open.
                Some(
                    self.window_end()
                        .map_or(Timestamp::from_micros(0), |end| end.minus(needed).minus(margin)),
                )
            }
            RepeatSafety::Keyed { .. } | RepeatSafety::Natural | RepeatSafety::Never => None,
        };
        [window, self.send_by].into_iter().flatten().min()
    }

    /// Send-until of a taking now: until when its holder may still start to send.
    pub fn send_until(&self, carries_doubt: bool, room: Room) -> Timestamp {
        let lease = self.now.plus(room.lease).minus(self.declared.call_timeout);
        self.send_limit(carries_doubt, room.margin).map_or(lease, |limit| limit.min(lease))
    }

    /// Whether send-by has passed.
    pub fn send_by_passed(&self) -> bool {
        self.send_by.is_some_and(|t| t <= self.now)
    }

    /// Whether the claim may grow older without a person; its age counts anew from a ruling.
    pub fn age_left(&self) -> bool {
        let from = self.ruled_at.map_or(self.created_at, |ruled| ruled.max(self.created_at));
        self.now < from.plus(self.declared.age_max)
    }

    /// Whether another attempt may be made: attempts for life, or a repeat that a person granted.
    pub fn attempts_left(&self) -> bool {
        self.attempts < self.declared.attempts_max || self.repeats_granted > 0
    }

    /// Whether more looks may be made.
    pub fn looks_left(&self) -> bool {
        self.declared.probe.is_some_and(|p| self.looks < p.looks_max)
    }

    /// Whether `due_at` has passed.
    pub fn is_due(&self) -> bool {
        self.due_at.is_some_and(|t| t <= self.now)
    }

    /// After this moment a look that finds nothing is proof: the newest attempt's end, the landing horizon and the
    /// probe's lag. `None`: no look of this claim can be proof.
    pub fn proof_from(&self) -> Option<Timestamp> {
        let probe = self.declared.probe.filter(|p| p.not_found_is_proof)?;
        Some(self.last_end_at?.plus(self.declared.landing_horizon?).plus(probe.lag))
    }

    /// From when a person may rule *not done* or *repeat*, given the landing horizon that applies and whether the
    /// person looked at what the probe would show.
    pub fn rulable_from(&self, horizon: Duration, looked: bool) -> Option<Timestamp> {
        let lag = if looked { self.declared.probe.map_or(Duration::ZERO, |p| p.lag) } else { Duration::ZERO };
        self.last_end_at.map(|end| end.plus(horizon).plus(lag))
    }
}
