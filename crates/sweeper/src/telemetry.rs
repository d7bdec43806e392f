//! Metrics of sweeping. Labels as in `earmark_effects::telemetry`: never a key, an amount or free text.

use std::time::Duration;

use earmark_claim::ClaimView;
use earmark_claim::policy::Cause;

use crate::sweep::Pass;

/// Counter: passes, by result (`ok`, `failed`).
pub const RUNS: &str = "earmark_sweep_runs_total";
/// Gauge, seconds since the epoch: the last pass that succeeded.
pub const LAST_SUCCESS: &str = "earmark_sweep_last_success_timestamp_seconds";
/// Histogram, seconds: how long a pass took.
pub const SECONDS: &str = "earmark_sweep_duration_seconds";
/// Counter: what was done with due claims, by action (`doubt`, `expire`, `perform`, `look`, `escalate`, `leave`, `rest`, `fail`).
pub const ACTIONS: &str = "earmark_sweep_actions_total";
/// Counter: claims handed to a person, by consumer, kind, downstream and error_class.
pub const ESCALATED: &str = "earmark_claim_escalated_total";

/// Every label of [`ACTIONS`], so that all start at zero.
const ACTION_WORDS: [&str; 8] = ["doubt", "expire", "perform", "look", "escalate", "leave", "rest", "fail"];

/// Makes every series at zero, so that a rate can be taken from the first scrape on.
pub fn start() {
    for result in ["ok", "failed"] {
        metrics::counter!(RUNS, "result" => result).absolute(0);
    }
    for action in ACTION_WORDS {
        metrics::counter!(ACTIONS, "action" => action).absolute(0);
    }
}

pub(crate) fn passed(pass: &Pass, took: Duration) {
    metrics::counter!(RUNS, "result" => "ok").increment(1);
    metrics::histogram!(SECONDS).record(took.as_secs_f64());
    let done = [
        pass.doubted,
        pass.expired,
        pass.performed,
        pass.looked,
        pass.escalated,
        pass.left,
        pass.rested,
        pass.failed,
    ];
    for (action, n) in ACTION_WORDS.into_iter().zip(done) {
        metrics::counter!(ACTIONS, "action" => action).increment(n);
    }
    // Prometheus compares it with its own clock, so this is the host's.
    let epoch = chrono::Utc::now().timestamp();
    #[allow(clippy::cast_precision_loss)] // exact until the year 285,000,000
    metrics::gauge!(LAST_SUCCESS).set(epoch as f64);
}

pub(crate) fn failed() {
    metrics::counter!(RUNS, "result" => "failed").increment(1);
}

pub(crate) fn escalated(view: &ClaimView, cause: Cause) {
    metrics::counter!(
        ESCALATED,
        "consumer" => view.key.consumer().to_owned(),
        "kind" => view.kind.clone(),
        "downstream" => view.downstream.clone(),
        "error_class" => view.facts.error_class.as_ref().map_or_else(|| cause.as_str().to_owned(), ToString::to_string),
    )
    .increment(1);
}
