//! What one process may do to one downstream.

use std::time::Duration;

/// What one process may do to one downstream. Nothing is shared between processes: of a provider's limit give each its part, sidecars
/// and services that sweep included.
///
/// ```
/// use earmark_effects::Limits;
/// let stripe = Limits { calls_per_second: Some(25.0), concurrent_calls: Some(8), ..Limits::default() };
/// # let _ = stripe;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Calls and looks in a second, on average; fractions are allowed (`100.0 / 60.0`). `None`: any number.
    pub calls_per_second: Option<f64>,
    /// How many of them may come at once after a rest. `None`: one second's worth, at least one.
    pub burst: Option<u32>,
    /// Calls and looks under way at once. `None`: any number.
    pub concurrent_calls: Option<u32>,
    /// How long [`run`](crate::Earmark::run) and [`perform`](crate::Earmark::perform) wait for their turn before they leave the claim to
    /// the sweep. It is the back-pressure on whoever brings the messages. Zero: they never wait. A sweep waits for a second at most.
    /// Default 5 s.
    pub patience: Duration,
    /// After so many failures in a row the breaker opens. Fewer would stop at a provider's hiccup; more would add calls to an outage, each
    /// of which may be a claim in doubt. [`u32::MAX`]: never. Default 5.
    pub breaker_failures: u32,
    /// While it is open, one call in each such interval goes through, until one is answered. Default 5 s.
    pub breaker_sample_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_second: None,
            burst: None,
            concurrent_calls: None,
            patience: Duration::from_secs(5),
            breaker_failures: 5,
            breaker_sample_every: Duration::from_secs(5),
        }
    }
}

/// Slower than a call in a day is a pause; faster than a million in a second is no limit.
const RATES: std::ops::RangeInclusive<f64> = 1.0 / 86_400.0..=1e6;
/// A wait of an hour is no wait but a queue, and the claim is the better one.
const PATIENCE_MAX: Duration = Duration::from_secs(3600);
/// More would not be a limit; the semaphore takes no more either.
const CONCURRENT_MAX: u32 = 1_000_000;

impl Limits {
    /// Everything that is wrong with them, each with its fix.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: &str| {
            if !ok {
                faults.push(fault.to_owned());
            }
        };
        check(
            self.calls_per_second.is_none_or(|rate| RATES.contains(&rate)),
            "calls_per_second must lie between one call in a day and a million in a second; None means any number",
        );
        check(
            self.burst != Some(0),
            "burst is zero: nothing would ever be called; None means one second's worth",
        );
        check(
            self.burst.is_none() || self.calls_per_second.is_some(),
            "burst says nothing without calls_per_second: set that, or leave burst out",
        );
        check(
            self.concurrent_calls.is_none_or(|n| (1..=CONCURRENT_MAX).contains(&n)),
            "concurrent_calls must be 1 to a million; None means any number",
        );
        check(
            self.patience <= PATIENCE_MAX,
            "patience is more than an hour: leave waiting that long to the sweep",
        );
        check(
            self.breaker_failures > 0,
            "breaker_failures is zero: nothing would ever be called; u32::MAX means that it never opens",
        );
        check(
            !self.breaker_sample_every.is_zero(),
            "breaker_sample_every is zero: an open breaker would let every call through",
        );
        faults
    }
}
