//! Claims that step aside, and downstreams that are left alone: so that what always fails does not starve the rest.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use earmark_claim::ClaimKey;

/// Most claims that step aside at once: beyond that the oldest return. Bounds memory, and the rows that a pass reads to pass over.
const ASIDE_MAX: usize = 10_000;
/// After so many failures in a row a downstream is left alone, but for one call in each pass. Fewer would stop at a provider's hiccup;
/// more would add calls to an outage, each of which may be a claim in doubt.
const FAILURES_MAX: u32 = 5;

/// Claims that step aside.
#[derive(Default)]
pub(super) struct Aside(Mutex<HashMap<ClaimKey, Stepped>>);

struct Stepped {
    until: Instant,
    /// Because of this downstream: they return when it answers again.
    downstream: Option<String>,
}

impl Aside {
    /// Those that are aside now.
    pub(super) fn now(&self) -> HashSet<ClaimKey> {
        let now = Instant::now();
        let mut aside = lock(&self.0);
        aside.retain(|_, stepped| stepped.until > now);
        aside.keys().cloned().collect()
    }

    pub(super) fn step(&self, key: &ClaimKey, length: Duration, downstream: Option<&str>) {
        let mut aside = lock(&self.0);
        if aside.len() >= ASIDE_MAX
            && let Some(first) = aside.iter().min_by_key(|(_, s)| s.until).map(|(key, _)| key.clone())
        {
            aside.remove(&first);
        }
        let downstream = downstream.map(str::to_owned);
        aside.insert(key.clone(), Stepped { until: Instant::now() + length, downstream });
    }

    /// The downstream answers again.
    pub(super) fn recall(&self, downstream: &str) {
        lock(&self.0).retain(|_, stepped| stepped.downstream.as_deref() != Some(downstream));
    }
}

/// How often each downstream has failed in a row, and whether it was sampled in this pass.
#[derive(Default)]
pub(super) struct Breakers(Mutex<HashMap<String, Breaker>>);

#[derive(Default)]
struct Breaker {
    failures: u32,
    sampled: bool,
}

impl Breakers {
    /// A new pass: each downstream may be sampled once more.
    pub(super) fn new_pass(&self) {
        lock(&self.0).values_mut().for_each(|breaker| breaker.sampled = false);
    }

    /// Whether it may be called now.
    pub(super) fn admits(&self, downstream: &str) -> bool {
        let mut breakers = lock(&self.0);
        let Some(breaker) = breakers.get_mut(downstream).filter(|b| b.failures >= FAILURES_MAX) else {
            return true;
        };
        !std::mem::replace(&mut breaker.sampled, true)
    }

    /// It answered: whether it had been left alone.
    pub(super) fn answered(&self, downstream: &str) -> bool {
        lock(&self.0).remove(downstream).is_some_and(|breaker| breaker.failures >= FAILURES_MAX)
    }

    /// It failed: whether it is left alone from now on, and was not before.
    pub(super) fn failed(&self, downstream: &str) -> bool {
        let mut breakers = lock(&self.0);
        let breaker = breakers.entry(downstream.to_owned()).or_default();
        breaker.failures = breaker.failures.saturating_add(1);
        breaker.failures == FAILURES_MAX
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_downstream_that_fails_in_a_row_is_sampled_once_a_pass_until_it_answers() {
        let breakers = Breakers::default();
        for n in 1..=FAILURES_MAX {
            assert!(breakers.admits("stripe"));
            assert_eq!(breakers.failed("stripe"), n == FAILURES_MAX, "{n}");
        }
        assert!(breakers.admits("stripe"), "the sample");
        assert!(!breakers.admits("stripe"));
        assert!(breakers.admits("mailer"), "another downstream");
        breakers.new_pass();
        assert!(breakers.admits("stripe"));
        assert!(!breakers.failed("stripe"), "said once");
        assert!(breakers.answered("stripe"));
        assert!(breakers.admits("stripe") && breakers.admits("stripe"));
        assert!(!breakers.answered("stripe"), "it had not been left alone");
    }

    #[test]
    fn what_steps_aside_returns_in_time_or_when_its_downstream_answers() {
        let aside = Aside::default();
        let key = |id: &str| ClaimKey::new("mail", id).expect("a key");
        let hour = Duration::from_secs(3600);
        aside.step(&key("over"), Duration::ZERO, None);
        aside.step(&key("poisonous"), hour, None);
        aside.step(&key("resting"), hour, Some("stripe"));
        assert_eq!(aside.now(), HashSet::from([key("poisonous"), key("resting")]));
        aside.recall("stripe");
        assert_eq!(aside.now(), HashSet::from([key("poisonous")]));
    }
}
