//! What an effect declares. Nothing dangerous has a default; everything is frozen on the claim.

use std::time::Duration;

/// What an effect declares about itself and its provider. Frozen on the claim when it is committed; the sweep acts
/// on the stricter of what is frozen and what is registered now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// When a repeat is harmless.
    pub repeat: RepeatSafety,
    /// How long after a call was given up its request may still take effect at the provider (queues, gateways,
    /// proxies). At least the call timeout. `None`: not declared; then no "not found" clears a doubt, and a person must
    /// state one to rule *not done* or *repeat*.
    pub landing_horizon: Option<Duration>,
    /// How the provider can be asked, if it can.
    pub probe: Option<ProbeTerms>,
    /// How long one call may take, from connecting to the end of the answer.
    pub call_timeout: Duration,
    /// Attempts for life. Attempts that were provably not sent use up age, not attempts.
    pub attempts_max: u32,
    /// How old a claim may grow before a person must look at it; counted anew from a ruling.
    pub age_max: Duration,
}

/// When a repeat of the effect is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RepeatSafety {
    /// The provider deduplicates by our key, for that long after it first saw it.
    Keyed {
        /// The smallest window that the provider documents.
        window: Duration,
    },
    /// The same result whenever, and in whatever order with other effects, it is repeated.
    Natural,
    /// A repeat may be a second effect.
    Never,
}

/// What is known of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeTerms {
    /// How long after an effect the provider may still answer "not found".
    pub lag: Duration,
    /// Whether "not found" (beyond lag and horizon) is proof: an authoritative list, never a search index.
    pub not_found_is_proof: bool,
    /// How many looks that could have been proof are made before a person is asked.
    pub looks_max: u32,
}

/// Counters are 32-bit columns; nobody attempts an effect a million times on purpose.
const COUNT_MAX: u32 = 1_000_000;

impl Declared {
    /// Everything that is wrong with it, each with its fix; empty when it can be used.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: &str| {
            if !ok {
                faults.push(fault.to_owned());
            }
        };
        check(!self.call_timeout.is_zero(), "call_timeout is zero: every call needs a limit");
        check(self.attempts_max > 0, "attempts_max is zero: at least one attempt");
        check(self.attempts_max <= COUNT_MAX, "attempts_max is greater than 1,000,000: a limit must limit");
        check(
            !self.age_max.is_zero(),
            "age_max is zero: how old may a claim grow before a person looks at it?",
        );
        if let Some(horizon) = self.landing_horizon {
            check(
                horizon >= self.call_timeout,
                "landing_horizon is shorter than call_timeout: a request may land as long as its call may last",
            );
        }
        if let RepeatSafety::Keyed { window } = self.repeat {
            check(
                window > self.call_timeout,
                "the key window is not longer than call_timeout: no repeat could ever be safe; declare Never",
            );
        }
        if let Some(probe) = self.probe {
            check(probe.looks_max > 0, "looks_max is zero: at least one look, or no probe");
            check(probe.looks_max <= COUNT_MAX, "looks_max is greater than 1,000,000: a limit must limit");
        }
        faults
    }

    /// The stricter of two declarations: what both allow.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        use RepeatSafety::{Keyed, Natural, Never};
        let repeat = match (self.repeat, other.repeat) {
            (Never, _) | (_, Never) => Never,
            (Keyed { window: a }, Keyed { window: b }) => Keyed { window: a.min(b) },
            (keyed @ Keyed { .. }, Natural) | (Natural, keyed @ Keyed { .. }) => keyed,
            (Natural, Natural) => Natural,
        };
        // A horizon that only one side declares still shortens the time to send in and delays a ruling, but no "not
        // found" may clear a doubt with it. Likewise a probe that only one side knows: it finds, it proves nothing.
        let same_horizon = self.landing_horizon.is_some() == other.landing_horizon.is_some();
        let probe = match (self.probe, other.probe) {
            (Some(a), Some(b)) => Some(ProbeTerms {
                lag: a.lag.max(b.lag),
                not_found_is_proof: a.not_found_is_proof && b.not_found_is_proof && same_horizon,
                looks_max: a.looks_max.min(b.looks_max),
            }),
            (Some(one), None) | (None, Some(one)) => Some(ProbeTerms { not_found_is_proof: false, ..one }),
            (None, None) => None,
        };
        Self {
            repeat,
            landing_horizon: self.landing_horizon.max(other.landing_horizon),
            probe,
            call_timeout: self.call_timeout.max(other.call_timeout),
            attempts_max: self.attempts_max.min(other.attempts_max),
            age_max: self.age_max.min(other.age_max),
        }
    }
}
