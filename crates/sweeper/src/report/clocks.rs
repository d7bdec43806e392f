//! The clocks of a claim: how old it is, until when a repeat is harmless, from when a person may rule.
//!
//! They follow the frozen declaration in the row. The sweep acts on the stricter of it and what is registered, so it may
//! stop earlier than is said here, never later. The arithmetic is that of the claim crate's `Facts`, on a row that has no
//! token.

use std::time::Duration;

use earmark_claim::{RepeatSafety, State, Timestamp};

use super::input::ClaimRow;
use super::model::{Deadline, DeadlineClock, Repeat, RepeatVerdict};
use super::words::{Moment, span};

/// From when a claim's age counts: the start of the first attempt that may have reached the provider, else its own.
pub(crate) fn age_from(c: &ClaimRow) -> Timestamp {
    c.window_from.unwrap_or(c.created_at)
}

/// It may have happened, and nobody knows: in doubt, a doubt carried, or in flight past its lease.
pub(crate) fn effect_unknown(c: &ClaimRow, as_of: Timestamp) -> bool {
    match c.state {
        State::InDoubt => true,
        State::InFlight => c.doubt || c.due_at.is_some_and(|lease_end| lease_end <= as_of),
        State::Held | State::Retryable | State::Escalated => c.doubt,
        State::Confirmed | State::Abandoned => false,
    }
}

/// Until when the provider remembers the key.
pub(crate) fn window_end(c: &ClaimRow) -> Option<Timestamp> {
    match c.repeat {
        RepeatSafety::Keyed { window } => Some(c.window_from?.plus(window)),
        RepeatSafety::Natural | RepeatSafety::Never => None,
    }
}

/// Confirmed, but more than one attempt may have acted: it carries doubt, several attempts may have left, and no key
/// that the provider remembered all the while covers them.
pub(crate) fn perhaps_twice(c: &ClaimRow) -> bool {
    let covered = match c.repeat {
        RepeatSafety::Natural => true,
        RepeatSafety::Never => false,
        // A window or an end that is not on file covers nothing.
        RepeatSafety::Keyed { .. } => {
            window_end(c).zip(c.last_end_at).is_some_and(|(window_end, ended)| ended <= window_end)
        }
    };
    c.state == State::Confirmed && c.doubt && c.attempts > 1 && !covered
}

/// What a repeat would be, now and for how long.
pub(crate) fn repeat(c: &ClaimRow, as_of: Timestamp, margin: Duration) -> Repeat {
    let plain = |verdict, words: &str| Repeat { verdict, until: None, window_end: None, words: words.into() };
    if !c.doubt && c.state != State::InDoubt && c.state != State::InFlight {
        return plain(
            RepeatVerdict::NothingHappened,
            "nothing happened in any attempt: a repeat is the first",
        );
    }
    match c.repeat {
        RepeatSafety::Natural => plain(RepeatVerdict::Harmless, "a repeat is always harmless"),
        RepeatSafety::Never => plain(RepeatVerdict::SecondEffect, "a repeat may be a second effect"),
        RepeatSafety::Keyed { .. } => match window_end(c) {
            None => plain(
                RepeatVerdict::WindowUnknown,
                "the start of the key window is not on file: a repeat may be a second effect",
            ),
            Some(end) => keyed(c, end, as_of, margin),
        },
    }
}

fn keyed(c: &ClaimRow, end: Timestamp, as_of: Timestamp, margin: Duration) -> Repeat {
    // A repeat must not only leave but land while the provider remembers the key.
    let needed = c.call_timeout.max(c.landing_horizon.unwrap_or(Duration::ZERO));
    let until = end.minus(needed).minus(margin);
    let (verdict, words) = if as_of < until {
        let left = span(until.since(as_of));
        (RepeatVerdict::SafeUntil, format!("repeat safe until {} ({left} left)", Moment(until).text()))
    } else {
        let since = Moment(until).text();
        (RepeatVerdict::WindowOver, format!("window over since {since}: a repeat may be a second effect"))
    };
    Repeat { verdict, until: Some(Moment(until)), window_end: Some(Moment(end)), words }
}

/// The nearest moment after which less can be done. `None`: no clock runs.
pub(crate) fn deadline(c: &ClaimRow, repeat: &Repeat, as_of: Timestamp) -> Option<Deadline> {
    let window = match repeat.verdict {
        RepeatVerdict::SafeUntil => repeat.until.map(|at| Deadline { at, clock: DeadlineClock::RepeatSafe }),
        _ => None,
    };
    let send_by =
        c.send_by.filter(|t| as_of < *t).map(|t| Deadline { at: Moment(t), clock: DeadlineClock::SendBy });
    [window, send_by].into_iter().flatten().min_by_key(|d| d.at)
}
