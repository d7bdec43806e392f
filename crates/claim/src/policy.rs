//! What the sweep does: pure functions of what is known. The guards are those of [`state::next`](crate::state::next), asked, not
//! repeated.

use std::time::Duration;

use crate::failure::ErrorClass;
use crate::state::{Event, Facts, Room, State, Taking, next};
use crate::time::Timestamp;

/// What the sweep does next with a claim whose `due_at` has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The lease is over: into doubt, then decide again.
    Doubt,
    /// Send-by has passed.
    Expire,
    /// Take it and call.
    Perform(Taking),
    /// Ask the provider.
    Look,
    /// Hand it to a person.
    Escalate(Cause),
    /// Nothing is due, or the state belongs to nobody's sweep.
    Nothing,
}

/// Why a claim goes to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It may have happened, a repeat may double it, and nobody can be asked.
    NoRuleDecides,
    /// The key window is over and nobody can be asked.
    WindowOver,
    /// Attempts for life are used up.
    AttemptsUsed,
    /// The age limit is reached.
    AgeUsed,
    /// The looks are used up.
    LooksUsed,
    /// Send-by has passed.
    SendByPassed,
    /// A fault that no retry mends.
    Fault,
}

impl Cause {
    /// A short stable word, for causes and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRuleDecides => "no_rule_decides",
            Self::WindowOver => "window_over",
            Self::AttemptsUsed => "attempts_used",
            Self::AgeUsed => "age_used",
            Self::LooksUsed => "looks_used",
            Self::SendByPassed => "send_by_passed",
            Self::Fault => "fault",
        }
    }
}

/// The rules of the sweep, first that applies. `f.declared` is the stricter of what is frozen and registered.
pub fn decide(f: &Facts, room: Room) -> Act {
    if !f.is_due() {
        return Act::Nothing;
    }
    match f.state {
        State::InFlight => Act::Doubt,
        State::Held if f.send_by_passed() => Act::Expire,
        State::Held => Act::Perform(Taking::Begin),
        State::Retryable if f.send_by_passed() => Act::Expire,
        State::Retryable => match why_not_tried_again(f) {
            Some(cause) => Act::Escalate(cause),
            None => Act::Perform(Taking::Take),
        },
        State::InDoubt => in_doubt(f, room),
        State::Escalated | State::Confirmed | State::Abandoned => Act::Nothing,
    }
}

fn in_doubt(f: &Facts, room: Room) -> Act {
    let can_look = f.looks_left() && f.age_left();
    // A 202 left its id: the provider knows, so ask before calling again.
    if f.provider_ref.is_some() && can_look {
        return Act::Look;
    }
    // Safe, and it answers the question.
    if next(f, &Event::Taking { how: Taking::Redrive, room }).is_ok() {
        return Act::Perform(Taking::Redrive);
    }
    if can_look {
        return Act::Look;
    }
    Act::Escalate(why_escalated(f))
}

fn why_not_tried_again(f: &Facts) -> Option<Cause> {
    if f.error_class.as_ref().is_some_and(ErrorClass::no_retry_mends) {
        Some(Cause::Fault)
    } else if !f.attempts_left() {
        Some(Cause::AttemptsUsed)
    } else if !f.age_left() {
        Some(Cause::AgeUsed)
    } else {
        None
    }
}

fn why_escalated(f: &Facts) -> Cause {
    use crate::declared::RepeatSafety::{Keyed, Natural, Never};
    if f.send_by_passed() {
        return Cause::SendByPassed;
    }
    if f.declared.probe.is_some() {
        return if f.age_left() { Cause::LooksUsed } else { Cause::AgeUsed };
    }
    match f.declared.repeat {
        Never => Cause::NoRuleDecides,
        Natural | Keyed { .. } => why_not_tried_again(f).unwrap_or(Cause::WindowOver),
    }
}

/// Exponential backoff with full jitter: anywhere between zero and `base * 2^tries`, at most `max`; a longer wait that the
/// provider asked for wins. `dice` is a random number in `0.0..1.0`.
pub fn backoff(
    tries: u32,
    base: Duration,
    max: Duration,
    dice: f64,
    retry_after: Option<Duration>,
) -> Duration {
    let ceiling = base.saturating_mul(1u32.checked_shl(tries.min(31)).unwrap_or(u32::MAX)).min(max);
    ceiling.mul_f64(dice.clamp(0.0, 1.0)).max(retry_after.unwrap_or(Duration::ZERO))
}

/// How long to wait between looks: as long again as the doubt has lasted, so that looks thin out like tries do, with full jitter above half of
/// that.
pub fn look_wait(f: &Facts, base: Duration, max: Duration, dice: f64) -> Duration {
    let doubted = f.now.since(f.last_end_at.unwrap_or(f.created_at));
    let ceiling = doubted.clamp(base.min(max), max);
    ceiling.mul_f64(0.5 + dice.clamp(0.0, 1.0) / 2.0)
}

/// When to look again: after `wait`, but not past the moment from which a look could be proof, so that the first such
/// look comes no later than needed.
pub fn look_again(f: &Facts, wait: Duration) -> Duration {
    // Strictly later than that moment: a look that begins on it proves nothing.
    let proof_in = |from: Timestamp| from.since(f.now) + Duration::from_millis(1);
    match f.proof_from().filter(|from| *from >= f.now).map(proof_in) {
        Some(proof_in) => wait.min(proof_in),
        None => wait,
    }
}

#[cfg(test)]
mod tests;
