//! The rate limit: a token bucket that hands out turns (the generic cell rate algorithm), in one atomic number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many calls in a second, and so many at once after a rest. It hands out the moment of the next turn instead of letting callers race
/// for it: who would have to wait too long knows at once, and who waits is served in order.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Nanoseconds between two turns.
    interval: u64,
    /// How far turns may be ahead of their interval: all of a burst but its first.
    tolerance: u64,
    /// When the next turn would be due if turns came evenly: nanoseconds of the gate's clock.
    next: AtomicU64,
}

/// A turn.
#[derive(Debug)]
pub(super) struct Slot {
    /// When.
    pub(super) at: Duration,
    before: u64,
    after: u64,
}

impl Bucket {
    /// `burst`: `None` is one second's worth.
    pub(super) fn new(calls_per_second: f64, burst: Option<u32>) -> Self {
        let interval = nanos(Duration::from_secs_f64(1.0 / calls_per_second)).max(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked: at most a million
        let burst = burst.map_or(calls_per_second.ceil() as u64, u64::from).max(1);
        Self { interval, tolerance: interval.saturating_mul(burst - 1), next: AtomicU64::new(0) }
    }

    /// The next turn, unless it is later than `patience` from now; then how long until it.
    pub(super) fn take(&self, now: Duration, patience: Duration) -> Result<Slot, Duration> {
        let (now, patience) = (nanos(now), nanos(patience));
        let mut before = self.next.load(Ordering::Acquire);
        loop {
            let even = before.max(now);
            let at = even.saturating_sub(self.tolerance).max(now);
            if at - now > patience {
                return Err(Duration::from_nanos(at - now));
            }
            let after = even.saturating_add(self.interval);
            match self.next.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Slot { at: Duration::from_nanos(at), before, after }),
                Err(other) => before = other,
            }
        }
    }

    /// A turn that was not used. Only the newest can be handed out again: turns behind it have been given already, and two at one moment
    /// would break the limit.
    pub(super) fn give_back(&self, slot: Slot) {
        let _ = self.next.compare_exchange(slot.after, slot.before, Ordering::AcqRel, Ordering::Acquire);
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
