//! Signs of life of a sweeper in this process, by the monotonic clock: a health check must not need the database.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::aside::lock;

/// Signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// Since the last pass that succeeded, or since the sweeper was made.
    pub since_success: Duration,
    /// Whether any pass has succeeded.
    pub has_succeeded: bool,
    /// While a pass is running: since it began or last finished a claim.
    pub since_progress: Option<Duration>,
}

pub(super) struct Life(Mutex<Moments>);

struct Moments {
    success: Instant,
    has_succeeded: bool,
    progress: Option<Instant>,
}

impl Life {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Moments { success: Instant::now(), has_succeeded: false, progress: None }))
    }

    pub(super) fn progress(&self) {
        lock(&self.0).progress = Some(Instant::now());
    }

    pub(super) fn ended(&self, success: bool) {
        let mut moments = lock(&self.0);
        moments.progress = None;
        if success {
            moments.success = Instant::now();
            moments.has_succeeded = true;
        }
    }

    pub(super) fn vitals(&self) -> Vitals {
        let moments = lock(&self.0);
        Vitals {
            since_success: moments.success.elapsed(),
            has_succeeded: moments.has_succeeded,
            since_progress: moments.progress.map(|at| at.elapsed()),
        }
    }
}
