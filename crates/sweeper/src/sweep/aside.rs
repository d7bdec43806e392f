//! Claims that step aside, so that what always fails or has to wait does not starve the rest.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use earmark_claim::ClaimKey;

/// Most claims that step aside at once: beyond that the oldest return. Bounds memory, and the rows that a pass reads to pass over.
const ASIDE_MAX: usize = 10_000;
/// Claims that step aside.
#[derive(Default)]
pub(super) struct Aside(Mutex<HashMap<ClaimKey, Stepped>>);

struct Stepped {
    until: Instant,
    /// Because of this downstream: they return when it may be called again.
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

    /// The downstreams that claims are aside for.
    pub(super) fn downstreams(&self) -> BTreeSet<String> {
        lock(&self.0).values().filter_map(|stepped| stepped.downstream.clone()).collect()
    }

    /// The downstream may be called once: the claim that stepped aside first returns.
    pub(super) fn recall_one(&self, downstream: &str) {
        let mut aside = lock(&self.0);
        let of_this = aside.iter().filter(|(_, stepped)| stepped.downstream.as_deref() == Some(downstream));
        if let Some(first) = of_this.min_by_key(|(_, stepped)| stepped.until).map(|(key, _)| key.clone()) {
            aside.remove(&first);
        }
    }

    /// The downstream may be called again.
    pub(super) fn recall(&self, downstream: &str) {
        lock(&self.0).retain(|_, stepped| stepped.downstream.as_deref() != Some(downstream));
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
    fn what_steps_aside_returns_in_time_or_when_its_downstream_answers() {
        let aside = Aside::default();
        let key = |id: &str| ClaimKey::new("mail", id).expect("a key");
        let hour = Duration::from_secs(3600);
        aside.step(&key("over"), Duration::ZERO, None);
        aside.step(&key("poisonous"), hour, None);
        aside.step(&key("resting"), hour, Some("stripe"));
        aside.step(&key("resting first"), hour / 2, Some("stripe"));
        assert_eq!(aside.now(), ["poisonous", "resting", "resting first"].map(key).into());
        aside.recall_one("mailer");
        aside.recall_one("stripe");
        assert_eq!(aside.now(), ["poisonous", "resting"].map(key).into());
        assert_eq!(aside.downstreams(), BTreeSet::from(["stripe".to_owned()]));
        aside.recall("stripe");
        assert_eq!(aside.now(), HashSet::from([key("poisonous")]));
    }
}
