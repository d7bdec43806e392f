//! One line per cause: ten thousand claims of one outage are one message.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::aside::lock;

/// A cause is logged again after that long.
const CAUSE_EVERY: Duration = Duration::from_secs(3600);
/// Most causes that are remembered. They are made of stored names, of which a database may hold any number.
const CAUSES_MAX: usize = 1000;

/// Causes that have been logged, and when.
#[derive(Default)]
pub(super) struct Causes(Mutex<HashMap<String, Instant>>);

impl Causes {
    /// Whether this one is to be logged now.
    pub(super) fn is_news(&self, cause: String) -> bool {
        let mut causes = lock(&self.0);
        let now = Instant::now();
        causes.retain(|_, at| now.duration_since(*at) < CAUSE_EVERY);
        if causes.len() >= CAUSES_MAX && !causes.contains_key(&cause) {
            return false;
        }
        let mut news = false;
        causes.entry(cause).or_insert_with(|| {
            news = true;
            now
        });
        news
    }

    /// It is over: the next time it is news again. Whether it had been logged.
    pub(super) fn is_over(&self, cause: &str) -> bool {
        lock(&self.0).remove(cause).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_news_once_and_again_when_it_had_been_over() {
        let causes = Causes::default();
        assert!(causes.is_news("a".into()));
        assert!(!causes.is_news("a".into()));
        assert!(causes.is_news("b".into()));
        assert!(causes.is_over("a") && !causes.is_over("a"));
        assert!(causes.is_news("a".into()));
    }
}
