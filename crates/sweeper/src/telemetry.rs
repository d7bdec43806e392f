//! Metrics of sweeping. Labels as in `earmark_effects::telemetry`: never a key, an amount or free text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_claim::policy::Cause;
use earmark_claim::{ClaimView, OpenTally};

use crate::sweep::Pass;

/// Counter: passes, by result (`ok`, `failed`).
pub const RUNS: &str = "earmark_sweep_runs_total";
/// Gauge, seconds since the epoch: the last pass that succeeded.
pub const LAST_SUCCESS: &str = "earmark_sweep_last_success_timestamp_seconds";
/// Histogram, seconds: how long a pass took.
pub const SECONDS: &str = "earmark_sweep_duration_seconds";
/// Counter: what was done with due claims, by action (`doubt`, `expire`, `perform`, `look`, `escalate`, `leave`, `rest`, `pause`, `limit`, `fail`).
pub const ACTIONS: &str = "earmark_sweep_actions_total";
/// Counter: claims handed to a person, by consumer, kind, downstream and error_class.
pub const ESCALATED: &str = "earmark_claim_escalated_total";

/// Counter: purges, by result (`ok`, `failed`).
pub const PURGE_RUNS: &str = "earmark_purge_runs_total";
/// Gauge, seconds since the epoch: the last purge that came to its end or was stopped.
pub const PURGE_LAST_SUCCESS: &str = "earmark_purge_last_success_timestamp_seconds";
/// Histogram, seconds: how long a purge took, its rests included.
pub const PURGE_SECONDS: &str = "earmark_purge_duration_seconds";
/// Counter: rows, by action (`purge`: claims that became tombstones, `delete`: tombstones that went, `event`: events that went).
pub const PURGE_ROWS: &str = "earmark_purge_rows_total";

/// Gauge: open claims, by consumer, kind, downstream and state.
pub const OPEN: &str = "earmark_claim_open";
/// Gauge, seconds: how long ago the oldest open claim may first have reached the provider, or was made. Labels as [`OPEN`].
pub const OPEN_OLDEST: &str = "earmark_claim_open_oldest_age_seconds";
/// Gauge, minor units: amounts of open claims, by currency and state. Never to be summed across currencies.
pub const OPEN_AMOUNT: &str = "earmark_claim_open_amount_minor";
/// Gauge, seconds since the epoch: when the three above were read.
pub const OPEN_READ: &str = "earmark_claim_open_read_timestamp_seconds";

/// Every label of [`ACTIONS`], so that all start at zero.
const ACTION_WORDS: [&str; 10] =
    ["doubt", "expire", "perform", "look", "escalate", "leave", "rest", "pause", "limit", "fail"];

/// Makes every series at zero, so that a rate can be taken from the first scrape on.
pub fn start() {
    for result in ["ok", "failed"] {
        metrics::counter!(RUNS, "result" => result).absolute(0);
    }
    for action in ACTION_WORDS {
        metrics::counter!(ACTIONS, "action" => action).absolute(0);
    }
}

/// The same for a purge, where one is configured.
pub fn start_purge() {
    for result in ["ok", "failed"] {
        metrics::counter!(PURGE_RUNS, "result" => result).absolute(0);
    }
    for action in ["purge", "delete", "event"] {
        metrics::counter!(PURGE_ROWS, "action" => action).absolute(0);
    }
}

pub(crate) fn purged(action: &'static str, claims: u64, events: u64) {
    metrics::counter!(PURGE_ROWS, "action" => action).increment(claims);
    metrics::counter!(PURGE_ROWS, "action" => "event").increment(events);
}

pub(crate) fn purge_ended(success: bool, took: Duration) {
    metrics::counter!(PURGE_RUNS, "result" => if success { "ok" } else { "failed" }).increment(1);
    if success {
        metrics::histogram!(PURGE_SECONDS).record(took.as_secs_f64());
        #[allow(clippy::cast_precision_loss)] // exact until the year 285,000,000
        metrics::gauge!(PURGE_LAST_SUCCESS).set(chrono::Utc::now().timestamp() as f64);
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
        pass.paused,
        pass.limited,
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

/// The gauges of open claims, and which series they have: one that has gone must go to zero.
#[derive(Default)]
pub struct OpenGauges {
    of_claims: BTreeSet<[String; 4]>,
    of_amounts: BTreeSet<[String; 2]>,
}

impl OpenGauges {
    /// Sets every series, old ones that have gone to zero.
    pub fn set(&mut self, tallies: &[OpenTally]) {
        let mut claims: BTreeMap<[String; 4], (u64, Duration)> = BTreeMap::new();
        let mut amounts: BTreeMap<[String; 2], f64> = BTreeMap::new();
        for gone in &self.of_claims {
            claims.insert(gone.clone(), (0, Duration::ZERO));
        }
        for gone in &self.of_amounts {
            amounts.insert(gone.clone(), 0.0);
        }
        for t in tallies {
            let labels = [&t.consumer, &t.kind, &t.downstream, &t.state].map(String::clone);
            let (n, oldest) = claims.entry(labels).or_default();
            *n += t.claims;
            *oldest = t.oldest_age.max(*oldest);
            if let Some(currency) = &t.currency {
                *amounts.entry([currency.clone(), t.state.clone()]).or_default() += t.minor;
            }
        }
        for (labels, (n, oldest)) in claims {
            let [consumer, kind, downstream, state] = &labels;
            let named = [
                ("consumer", consumer.clone()),
                ("kind", kind.clone()),
                ("downstream", downstream.clone()),
                ("state", state.clone()),
            ];
            #[allow(clippy::cast_precision_loss)] // nobody has 2^53 open claims
            metrics::gauge!(OPEN, &named).set(n as f64);
            metrics::gauge!(OPEN_OLDEST, &named).set(oldest.as_secs_f64());
            self.of_claims.insert(labels);
        }
        for (labels, minor) in amounts {
            let [currency, state] = &labels;
            metrics::gauge!(OPEN_AMOUNT, "currency" => currency.clone(), "state" => state.clone()).set(minor);
            self.of_amounts.insert(labels);
        }
        #[allow(clippy::cast_precision_loss)] // exact until the year 285,000,000
        metrics::gauge!(OPEN_READ).set(chrono::Utc::now().timestamp() as f64);
    }
}
