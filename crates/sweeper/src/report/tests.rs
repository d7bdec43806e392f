//! Tests of the report as a whole.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adversarial;
mod clocks;
mod forms;
mod roll_forward;
mod worklist;

use std::time::Duration;

use earmark_claim::state::{ClosedBy, Verb};
use earmark_claim::{RepeatSafety, State, Timestamp};

use super::input::{Amount, ClaimRow, EventDetail, EventRow, Input, PauseRow, Scope, Window};
use super::{Options, Report};

/// 2026-11-03T06:10:02.000250Z.
const AS_OF: Timestamp = Timestamp::from_micros(1_793_686_202_000_250);

/// So many minutes before the report.
fn ago(minutes: u64) -> Timestamp {
    AS_OF.minus(Duration::from_secs(minutes * 60))
}

fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3600)
}

/// An escalated charge in doubt, keyed for 24 h, of an hour ago.
fn row(message_id: &str) -> ClaimRow {
    ClaimRow {
        tenant: "".into(),
        consumer: "billing".into(),
        message_id: message_id.into(),
        kind: "charge.card".into(),
        downstream: "stripe".into(),
        form: "http/1".into(),
        summary: None,
        business_ref: None,
        amount: None,
        state: State::Escalated,
        doubt: true,
        contradicted: false,
        fence: 1,
        revision: 3,
        due_at: None,
        send_by: None,
        created_at: ago(60),
        window_from: Some(ago(60)),
        last_end_at: Some(ago(59)),
        attempts: 1,
        closed_at: None,
        closed_by: None,
        error_class: Some("timeout".into()),
        provider_ref: None,
        fingerprint: [0xab; 32],
        idempotency_key: "em1-key".into(),
        reference: "7F3K00000000000A".into(),
        repeat: RepeatSafety::Keyed { window: hours(24) },
        landing_horizon: Some(Duration::from_secs(300)),
        probe_lag: None,
        call_timeout: Duration::from_secs(30),
        purged: false,
    }
}

fn confirmed(message_id: &str, by: ClosedBy, minutes_ago: u64) -> ClaimRow {
    ClaimRow {
        state: State::Confirmed,
        doubt: false,
        closed_at: Some(ago(minutes_ago)),
        closed_by: Some(by),
        created_at: ago(minutes_ago + 1),
        window_from: Some(ago(minutes_ago + 1)),
        last_end_at: Some(ago(minutes_ago)),
        error_class: None,
        provider_ref: Some("ch_1".into()),
        ..row(message_id)
    }
}

fn waiting(message_id: &str, state: State, due_at: Timestamp) -> ClaimRow {
    ClaimRow { state, doubt: false, due_at: Some(due_at), ..row(message_id) }
}

fn amount(currency: &str, minor: i64) -> Option<Amount> {
    Some(Amount { minor, currency: currency.into() })
}

fn event(c: &ClaimRow, verb: Verb, at: Timestamp, from_state: State, to_state: State) -> EventRow {
    EventRow {
        tenant: c.tenant.clone(),
        consumer: c.consumer.clone(),
        message_id: c.message_id.clone(),
        seq: 1,
        at,
        name: verb.as_str().into(),
        actor: None,
        from_state,
        to_state,
        provider_ref: None,
        detail: EventDetail::default(),
    }
}

/// The last 24 hours.
fn input(claims: Vec<ClaimRow>, events: Vec<EventRow>) -> Input {
    Input {
        as_of: AS_OF,
        window: Window { from: ago(24 * 60), to: AS_OF },
        scope: Scope {
            database: "shop on db-1:5432".into(),
            namespace: "shop".into(),
            version: "0.1.0".into(),
            allow_non_durable: false,
        },
        claims,
        events,
        orphans: vec![],
        pauses: vec![],
        unreadable: vec![],
    }
}

fn built(claims: Vec<ClaimRow>, events: Vec<EventRow>) -> Report {
    super::build(&input(claims, events), &Options::default())
}
