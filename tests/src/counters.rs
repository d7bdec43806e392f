//! Reads the counters that the crates under test increment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, set_global_recorder,
};

/// Counters by name and labels; for the whole process, as the crates under test run in threads of their own.
#[derive(Clone, Default)]
pub struct Counters(Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>);

impl Counters {
    /// Those of this process, from the first call on.
    pub fn install() -> &'static Self {
        static COUNTERS: OnceLock<Counters> = OnceLock::new();
        COUNTERS.get_or_init(|| {
            let counters = Self::default();
            set_global_recorder(counters.clone()).unwrap_or_else(|_| panic!("another recorder is installed"));
            counters
        })
    }

    /// The sum over all series of that name that hold every given label.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let wanted: Vec<String> = labels.iter().map(|(k, v)| format!("|{k}={v}|")).collect();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |series: &str| {
            series.split('|').next() == Some(name) && wanted.iter().all(|w| series.contains(w.as_str()))
        };
        all.iter().filter(|(series, _)| fits(series)).map(|(_, n)| n.load(Ordering::SeqCst)).sum()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: String = key.labels().map(|l| format!("|{}={}|", l.key(), l.value())).collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counter::from_arc(all.entry(format!("{}|{labels}", key.name())).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
