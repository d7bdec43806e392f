//! What a report is built from: plain rows, as they were read.
//!
//! # The contract
//! The numbers are right only if these rows are present. Everything is read in **one snapshot** (one `REPEATABLE READ`
//! transaction on PostgreSQL and MySQL, one read transaction on SQLite), and [`Input::as_of`] is the database's clock in it.
//!
//! - [`Input::claims`]: every claim for which at least one of these holds
//!   1. it is open: `closed_at IS NULL`, escalated ones included;
//!   2. `created_at >= window.from`;
//!   3. `closed_at >= window.from`.
//!
//!   There is no upper bound at `window.to`: a window that ended before the snapshot is rolled forward from what
//!   happened since. Each claim once. More rows do no harm (each section picks its own); a claim that has an event in the window but
//!   fits none of the three may be added, so that its mismatches and late evidence are named in full.
//! - [`Input::events`]: every event with `at >= window.from`, and beside them every `mismatch` of an open claim however
//!   old. Each event once; any order.
//! - [`Input::orphans`]: every orphan with `at >= window.from`.
//! - [`Input::pauses`]: every pause that stands, and every one that began or ended at or after `window.from`.
//!
//! A closing that was undone leaves no trace in the columns, and the ordinary confirmation writes no event. So an event
//! that reopens a claim (from confirmed or abandoned to an open state) carries the `closed_at` that it cleared: see
//! [`EventDetail::closed_at`].
//!
//! Not read at all: requests, receipts, the bytes of an event.

use std::time::Duration;

use earmark_claim::state::ClosedBy;
use earmark_claim::{RepeatSafety, State, Timestamp};

use super::untrusted::Untrusted;

/// Everything a report is built from.
#[derive(Clone, Debug)]
pub struct Input {
    /// The database's clock in the snapshot.
    pub as_of: Timestamp,
    /// What the report is about.
    pub window: Window,
    /// Where it was read.
    pub scope: Scope,
    /// See the module's contract.
    pub claims: Vec<ClaimRow>,
    /// See the module's contract.
    pub events: Vec<EventRow>,
    /// See the module's contract.
    pub orphans: Vec<OrphanRow>,
    /// See the module's contract.
    pub pauses: Vec<PauseRow>,
    /// Rows that could not be read, each with its key and why. They are missing above, and the report says so.
    pub unreadable: Vec<Untrusted>,
}

/// `from <= t < to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first moment that belongs to it.
    pub from: Timestamp,
    /// The first moment that does not. After `as_of` it is cut there.
    pub to: Timestamp,
}

impl Window {
    /// Whether the moment lies in it.
    pub fn holds(self, t: Timestamp) -> bool {
        self.from <= t && t < self.to
    }
}

/// Where the rows were read, and by what.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The database, without user or password.
    pub database: Untrusted,
    /// The namespace in `earmark_meta`.
    pub namespace: Untrusted,
    /// The tool's version.
    pub version: String,
    /// The database was allowed to lose commits that it acknowledged.
    pub allow_non_durable: bool,
}

/// Whole minor units of a currency, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// `amount_minor`.
    pub minor: i64,
    /// `currency`.
    pub currency: String,
}

/// The columns of `earmark_claim` that a report needs. Names as stored.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the columns are described in docs/adr/0001-stored-form.md")]
pub struct ClaimRow {
    pub tenant: Untrusted,
    pub consumer: Untrusted,
    pub message_id: Untrusted,
    pub kind: Untrusted,
    pub downstream: Untrusted,
    pub form: Untrusted,
    pub summary: Option<Untrusted>,
    pub business_ref: Option<Untrusted>,
    /// `amount_minor` and `currency`.
    pub amount: Option<Amount>,
    pub state: State,
    pub doubt: bool,
    pub contradicted: bool,
    pub fence: u64,
    pub revision: u64,
    pub due_at: Option<Timestamp>,
    pub send_by: Option<Timestamp>,
    pub created_at: Timestamp,
    pub window_from: Option<Timestamp>,
    pub last_end_at: Option<Timestamp>,
    pub attempts: u32,
    pub closed_at: Option<Timestamp>,
    pub closed_by: Option<ClosedBy>,
    pub error_class: Option<Untrusted>,
    pub provider_ref: Option<Untrusted>,
    pub fingerprint: [u8; 32],
    pub idempotency_key: Untrusted,
    pub reference: Untrusted,
    /// `repeat_safety` and `key_window`.
    pub repeat: RepeatSafety,
    pub landing_horizon: Option<Duration>,
    pub probe_lag: Option<Duration>,
    pub call_timeout: Duration,
    /// `purged_at` is set.
    pub purged: bool,
}

/// A row of `earmark_event`, without its bytes.
#[derive(Clone, Debug)]
pub struct EventRow {
    /// The claim's key.
    pub tenant: Untrusted,
    /// The claim's key.
    pub consumer: Untrusted,
    /// The claim's key.
    pub message_id: Untrusted,
    /// Its number under the claim.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The stored name of the verb: `rule_done`, `mismatch`.
    pub name: String,
    /// Who; `None` for the machine.
    pub actor: Option<Untrusted>,
    /// Before.
    pub from_state: State,
    /// After; the same where nothing moved.
    pub to_state: State,
    /// The provider's id that it brought.
    pub provider_ref: Option<Untrusted>,
    /// What the report reads of `detail`.
    pub detail: EventDetail,
}

/// What the report reads of an event's `detail`, a JSON object. Whatever else it holds is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDetail {
    /// `reason` (text): why a person decided so.
    pub reason: Option<Untrusted>,
    /// `fingerprint` (64 hex digits): of the other request, at a `mismatch`.
    pub fingerprint: Option<Untrusted>,
    /// `closed_at` (microseconds since the epoch): at an event that reopens a claim, the moment of the closing it undid.
    pub closed_at: Option<Timestamp>,
}

impl EventDetail {
    /// Reads the stored JSON. What is missing, of another type or no JSON at all is left out: a report must come out
    /// whatever a row holds.
    pub fn parse(detail: Option<&str>) -> Self {
        let Some(Ok(json)) = detail.map(serde_json::from_str::<serde_json::Value>) else {
            return Self::default();
        };
        let text = |name: &str| json.get(name).and_then(|v| v.as_str()).map(Untrusted::from);
        Self {
            reason: text("reason"),
            fingerprint: text("fingerprint"),
            closed_at: json.get("closed_at").and_then(serde_json::Value::as_i64).map(Timestamp::from_micros),
        }
    }
}

/// A row of `earmark_orphan`: evidence of which no claim is known. Without its bytes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the columns are described in docs/adr/0001-stored-form.md")]
pub struct OrphanRow {
    pub id: Untrusted,
    pub at: Timestamp,
    pub source: Untrusted,
    pub tenant: Option<Untrusted>,
    pub consumer: Option<Untrusted>,
    pub message_id: Option<Untrusted>,
    pub reference: Option<Untrusted>,
    pub idempotency_key: Option<Untrusted>,
    pub provider_ref: Option<Untrusted>,
    pub finding: Untrusted,
    pub adopted_at: Option<Timestamp>,
}

/// A row of `earmark_pause`.
#[derive(Clone, Debug)]
pub struct PauseRow {
    /// The downstream.
    pub downstream: Untrusted,
    /// Since when.
    pub at: Timestamp,
    /// Who paused it.
    pub actor: Untrusted,
    /// Why.
    pub reason: Untrusted,
    /// When it ended, who ended it, and why; `None`: it stands.
    pub resumed: Option<(Timestamp, Untrusted, Untrusted)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_that_cannot_be_read_is_no_reason_to_have_no_report() {
        let parse = |json| EventDetail::parse(Some(json));
        assert_eq!(EventDetail::parse(None), EventDetail::default());
        assert_eq!(parse("not json"), EventDetail::default());
        assert_eq!(parse(r#"{"reason": 5, "closed_at": "x"}"#), EventDetail::default());
        let read = parse(r#"{"reason": "seen in the console", "closed_at": 1764530521000250, "more": []}"#);
        assert_eq!(read.reason, Some("seen in the console".into()));
        assert_eq!(read.closed_at, Some(Timestamp::from_micros(1_764_530_521_000_250)));
    }
}
