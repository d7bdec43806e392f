//! The circuit breaker, as a machine without a clock: closed, or open and sampled.

use std::time::Duration;

/// Counts failures in a row. Open, it lets one call in each interval through; the first answer closes it. There is no third state in
/// which it waits for the sample's end: a call may take longer than the interval, and one that is lost must not wedge it.
#[derive(Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    sample_every: Duration,
    failures: u32,
    sample_at: Duration,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admits {
    /// It is closed.
    Yes,
    /// It is open, and this is the interval's one call.
    Sample,
    /// It is open.
    Not {
        /// Until the next sample.
        next_in: Duration,
    },
}

impl Breaker {
    pub(super) fn new(failures_max: u32, sample_every: Duration) -> Self {
        Self { failures_max, sample_every, failures: 0, sample_at: Duration::ZERO }
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// A call is about to be made.
    pub(super) fn admits(&mut self, now: Duration) -> Admits {
        if !self.is_open() {
            return Admits::Yes;
        }
        if let Some(next_in) = self.rests(now) {
            return Admits::Not { next_in };
        }
        self.sample_at = now.saturating_add(self.sample_every);
        Admits::Sample
    }

    /// Open, and for how long not to be sampled; changes nothing.
    pub(super) fn rests(&self, now: Duration) -> Option<Duration> {
        (self.is_open() && now < self.sample_at).then(|| self.sample_at - now)
    }

    /// The sample was not made after all: the next call is it.
    pub(super) fn not_sampled(&mut self, now: Duration) {
        self.sample_at = self.sample_at.min(now);
    }

    /// A call was answered. Whether that closed it.
    pub(super) fn answered(&mut self) -> bool {
        let closes = self.is_open();
        self.failures = 0;
        closes
    }

    /// A call failed. Whether that opened it.
    pub(super) fn failed(&mut self, now: Duration) -> bool {
        let was_open = self.is_open();
        self.failures = self.failures.saturating_add(1);
        let opens = self.is_open() && !was_open;
        if opens {
            self.sample_at = now.saturating_add(self.sample_every);
        }
        opens
    }

    fn is_open(&self) -> bool {
        self.failures >= self.failures_max
    }
}
