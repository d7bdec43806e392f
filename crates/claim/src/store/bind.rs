//! The values that each statement binds, in the order of its text.

use std::time::Duration;

use sea_orm::{Statement, Value};

use super::dialect::Dialect;
use crate::claim::Token;
use crate::declared::RepeatSafety;
use crate::key::{ClaimKey, IdempotencyKey, Reference};
use crate::new_claim::{NewClaim, When};
use crate::receipt::{ANSWER_BYTES_MAX, Answer, clean};
use crate::state::{Closed, Due, Facts, LastEnd, Move, Verb, Window};
use crate::time::micros;

/// An insert of one claim: what [`Sql::claim`](super::sql::Sql::claim) binds.
#[derive(Clone)]
pub(crate) struct Insert {
    pub(crate) key: ClaimKey,
    pub(crate) claim: NewClaim,
    pub(crate) token: Token,
    pub(crate) idempotency_key: IdempotencyKey,
    pub(crate) reference: Reference,
    /// Straight to in flight, or held.
    pub(crate) in_flight: bool,
    /// In flight: the lease. Held: how long it is left to its maker.
    pub(crate) due_in: Duration,
}

/// What claims of one kind have in common: written once per batch where many are written together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape<'a> {
    pub(crate) kind: &'a str,
    pub(crate) form: &'a str,
    pub(crate) downstream: &'a str,
    pub(crate) request_type: &'a str,
    pub(crate) credential: Option<&'a str>,
    pub(crate) in_flight: bool,
    /// Microseconds, as all that follows.
    pub(crate) due_in: i64,
    pub(crate) repeat_safety: &'static str,
    pub(crate) key_window: Option<i64>,
    pub(crate) landing_horizon: Option<i64>,
    pub(crate) probe_lag: Option<i64>,
    pub(crate) probe_proof: bool,
    pub(crate) looks_max: i64,
    pub(crate) call_timeout: i64,
    pub(crate) attempts_max: i64,
    pub(crate) age_max: i64,
}

impl<'a> Shape<'a> {
    pub(crate) fn of(insert: &'a Insert) -> Self {
        let Insert { claim, .. } = insert;
        let declared = &claim.declared;
        let (repeat_safety, key_window) = match declared.repeat {
            RepeatSafety::Keyed { window } => ("keyed", Some(window)),
            RepeatSafety::Natural => ("natural", None),
            RepeatSafety::Never => ("never", None),
        };
        Self {
            kind: &claim.kind,
            form: &claim.form,
            downstream: &claim.downstream,
            request_type: &claim.request_type,
            credential: claim.credential.as_deref(),
            in_flight: insert.in_flight,
            due_in: micros(insert.due_in),
            repeat_safety,
            key_window: key_window.map(micros),
            landing_horizon: declared.landing_horizon.map(micros),
            probe_lag: declared.probe.map(|p| micros(p.lag)),
            probe_proof: declared.probe.is_some_and(|p| p.not_found_is_proof),
            looks_max: i64::from(declared.probe.map_or(0, |p| p.looks_max)),
            call_timeout: micros(declared.call_timeout),
            attempts_max: i64::from(declared.attempts_max),
            age_max: micros(declared.age_max),
        }
    }

    pub(crate) const fn state(&self) -> &'static str {
        if self.in_flight { "in_flight" } else { "held" }
    }
}

pub(crate) fn claim(dialect: Dialect, insert: &Insert) -> Statement {
    let Insert { key, claim, .. } = insert;
    let shape = Shape::of(insert);
    let (not_before_at, not_before_in) = when(claim.not_before);
    let (send_by_at, send_by_in) = when(claim.send_by);
    let one = i64::from(shape.in_flight);
    let mut values = key_values(dialect, key);
    values.extend([
        shape.kind.into(),
        shape.form.into(),
        shape.downstream.into(),
        claim.summary.clone().into(),
        claim.business_ref.clone().into(),
        claim.amount.map(|m| m.minor).into(),
        claim.amount.map(|m| m.currency.as_str().to_owned()).into(),
        shape.state().into(),
        one.into(),
        bytes(&insert.token.0),
        one.into(),
        not_before_at.into(),
        not_before_in.into(),
        send_by_at.into(),
        send_by_in.into(),
        not_before_at.into(),
        not_before_in.into(),
        shape.due_in.into(),
        shape.in_flight.into(),
        bytes(claim.fingerprint.as_bytes()),
        dialect.key_value(insert.idempotency_key.as_str()),
        insert.reference.as_str().into(),
        claim.request.clone().into(),
        shape.request_type.into(),
        shape.credential.into(),
        shape.repeat_safety.into(),
        shape.key_window.into(),
        shape.landing_horizon.into(),
        shape.probe_lag.into(),
        shape.probe_proof.into(),
        shape.looks_max.into(),
        shape.call_timeout.into(),
        shape.attempts_max.into(),
        shape.age_max.into(),
        claim.traceparent.clone().into(),
        claim.supersedes.as_ref().map(|r| r.as_str().to_owned()).into(),
    ]);
    statement(dialect, dialect.sql().claim, values)
}

/// A judged move of a claim: what [`Sql::apply`](super::sql::Sql::apply) binds.
pub(crate) struct Apply<'a> {
    pub(crate) key: &'a ClaimKey,
    pub(crate) facts: &'a Facts,
    pub(crate) made: &'a Move,
    /// The fresh token of a taking.
    pub(crate) token: Token,
    /// The answer to keep as the receipt.
    pub(crate) receipt: Option<&'a Answer>,
    /// Whether the revision must be that of the facts. The holder's own settle does without: what others add to the row
    /// meanwhile does not change what the holder knows.
    pub(crate) same_revision: bool,
}

pub(crate) fn apply(dialect: Dialect, apply: &Apply<'_>) -> Statement {
    let Apply { key, facts: f, made, token, receipt, same_revision } = apply;
    let set = &made.set;
    let (fence, token) = if set.taking { (f.fence.saturating_add(1), *token) } else { (f.fence, f.token) };
    let last_end: i64 = match set.last_end {
        LastEnd::Keep => 0,
        LastEnd::Now => 1,
        LastEnd::LeaseEnd => 2,
    };
    let window: i64 = match set.window {
        Window::Keep => 0,
        Window::Clear => 1,
        Window::StartUnlessSet => 2,
    };
    let (due, due_in): (i64, i64) = match set.due {
        Due::Keep => (0, 0),
        Due::Never => (1, 0),
        Due::In(d) => (2, micros(d.min(DUE_IN_MAX))),
    };
    let (closed, closed_by): (i64, Option<String>) = match set.closed {
        Closed::Keep => (0, None),
        Closed::Reopen => (1, None),
        Closed::By(by) => (2, Some(by.as_str().to_owned())),
    };
    let has: Value = receipt.is_some().into();
    let mut values: Vec<Value> = vec![
        made.to.as_str().into(),
        set.doubt.into(),
        set.contradicted.into(),
        signed(fence).into(),
        bytes(&token.0),
        i64::from(made.new_fact).into(),
        last_end.into(),
        window.into(),
        due.into(),
        due_in.into(),
        i64::from(set.attempts).into(),
        i64::from(set.repeats_granted).into(),
        i64::from(set.looks).into(),
        set.ruled.into(),
        closed.into(),
        closed.into(),
        closed_by.into(),
        set.error_class.as_ref().map(|c| c.as_str().to_owned()).into(),
        dialect.key_value_opt(set.provider_ref.as_deref()),
        set.landing_horizon.map(micros).into(),
        has.clone(),
        receipt.map(kept_bytes).into(),
        has.clone(),
        receipt.map(|r| content_type(&r.content_type)).into(),
        has.clone(),
        receipt.map(received).into(),
        has,
        receipt.map(|r| r.digest.to_vec()).into(),
    ];
    values.extend(key_values(dialect, key));
    values.extend([
        made.from.as_str().into(),
        signed(f.fence).into(),
        bytes(&f.token.0),
        same_revision.then(|| signed(f.revision)).into(),
        (!made.only_if_due).into(),
        made.not_after.map_or(i64::MAX, |t| t.as_micros()).into(),
    ]);
    statement(dialect, dialect.sql().apply, values)
}

/// What is appended to the history beside a move.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// Who; `None` for the machine.
    pub(crate) actor: Option<String>,
    /// JSON.
    pub(crate) detail: String,
    /// The provider's id that it names.
    pub(crate) provider_ref: Option<String>,
    /// Bytes it brought.
    pub(crate) answer: Option<Answer>,
}

/// Nothing to say: of the machine, an empty object.
impl Default for Note {
    fn default() -> Self {
        Self { actor: None, detail: "{}".into(), provider_ref: None, answer: None }
    }
}

/// An event of what happened under `fence`.
pub(crate) fn event(
    dialect: Dialect,
    key: &ClaimKey,
    verb: Verb,
    fence: u64,
    (from, to): (crate::State, crate::State),
    note: &Note,
) -> Statement {
    let mut values: Vec<Value> = vec![
        signed(fence).into(),
        verb.as_str().into(),
        note.actor.clone().into(),
        from.as_str().into(),
        to.as_str().into(),
        dialect.key_value_opt(note.provider_ref.as_deref()),
        note.detail.clone().into(),
        note.answer.as_ref().map(kept_bytes).into(),
        note.answer.as_ref().map(|a| content_type(&a.content_type)).into(),
    ];
    values.extend(key_values(dialect, key));
    statement(dialect, dialect.sql().event, values)
}

pub(crate) fn keep_receipt(dialect: Dialect, key: &ClaimKey) -> Statement {
    let mut values: Vec<Value> = vec![Verb::ReceiptKept.as_str().into(), "{}".into()];
    values.extend(key_values(dialect, key));
    statement(dialect, dialect.sql().keep_receipt, values)
}

pub(crate) fn extend(
    dialect: Dialect,
    key: &ClaimKey,
    lease: Duration,
    fence: u64,
    token: Token,
) -> Statement {
    let mut values: Vec<Value> = vec![micros(lease).into()];
    values.extend(key_values(dialect, key));
    values.extend([signed(fence).into(), bytes(&token.0)]);
    statement(dialect, dialect.sql().extend, values)
}

/// A statement whose only values are the claim's key.
pub(crate) fn by_key(dialect: Dialect, sql: &'static str, key: &ClaimKey) -> Statement {
    statement(dialect, sql, key_values(dialect, key))
}

/// A statement whose only values are the keys of several claims: an array for each part, or one JSON document.
pub(crate) fn by_keys(dialect: Dialect, sql: &'static str, keys: &[&ClaimKey]) -> Statement {
    let parts = [ClaimKey::tenant, ClaimKey::consumer, ClaimKey::message_id];
    let values = match dialect {
        // Without the feature there is no store on it, and no type for an array.
        #[cfg(not(feature = "postgres"))]
        Dialect::Postgres => Vec::new(),
        #[cfg(feature = "postgres")]
        Dialect::Postgres => {
            let array = |part: fn(&ClaimKey) -> &str| {
                let texts = keys.iter().map(|key| Value::from(part(key))).collect();
                Value::Array(sea_orm::sea_query::ArrayType::String, Some(Box::new(texts)))
            };
            parts.map(array).into()
        }
        Dialect::MySql | Dialect::Sqlite => {
            let rows: Vec<[&str; 3]> = keys.iter().map(|key| parts.map(|part| part(key))).collect();
            vec![Value::from(serde_json::json!(rows).to_string())]
        }
    };
    statement(dialect, sql, values)
}

pub(crate) fn statement(dialect: Dialect, sql: &'static str, values: Vec<Value>) -> Statement {
    Statement::from_sql_and_values(dialect.backend(), sql, values)
}

pub(crate) fn key_values(dialect: Dialect, key: &ClaimKey) -> Vec<Value> {
    [key.tenant(), key.consumer(), key.message_id()].map(|part| dialect.key_value(part)).into()
}

/// Farther than this nothing is put off: a provider may ask for any wait, and a time that no column can hold would lose the
/// outcome that came with it.
const DUE_IN_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// A content type as every database can keep it, whoever built the answer.
pub(crate) fn content_type(named: &str) -> String {
    clean(named.to_owned(), 128)
}

/// An answer's bytes as every database can keep them, whoever built it: a server refuses a statement of many megabytes, and the
/// outcome with it.
pub(crate) fn kept(answer: &Answer) -> &[u8] {
    &answer.bytes[..answer.bytes.len().min(ANSWER_BYTES_MAX)]
}

/// How many bytes of an answer were received, whoever built it.
pub(crate) fn received(answer: &Answer) -> i64 {
    signed(answer.len.max(answer.bytes.len() as u64))
}

pub(crate) fn kept_bytes(answer: &Answer) -> Vec<u8> {
    kept(answer).to_vec()
}

/// A moment, or microseconds from the statement on.
pub(crate) fn when(when: Option<When>) -> (Option<i64>, Option<i64>) {
    match when {
        None => (None, None),
        Some(When::At(t)) => (Some(t.as_micros()), None),
        Some(When::In(d)) => (None, Some(micros(d))),
    }
}

fn bytes(b: &[u8]) -> Value {
    b.to_vec().into()
}

/// Counters of ours stay far below `i64::MAX`; a length from outside is cut rather than wrapped.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
