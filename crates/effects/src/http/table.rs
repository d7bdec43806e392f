//! What an answer, or the lack of one, means: the effect's own rules first, then the general table.
//!
//! The general table is pessimistic: after a byte may have left, everything is *unknown* except what a standard
//! promises to be otherwise. Each row cites its promise. This file alone decides; nothing else reads a status.

mod transport;

use earmark_claim::{ErrorClass, Failure, Receipt, Verdict};
use serde_json::Value;

use super::answers::{Answers, Then};
use super::on::Fit;
use super::seen::Seen;
use super::{pointer, retry_after};

pub(super) use transport::of_error;

/// Longest provider's id that is believed; the store keeps no more, and a cut id would be another id.
const PROVIDER_REF_BYTES_MAX: usize = 255;

/// A row of the general table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// First status.
    pub from: u16,
    /// Last status.
    pub to: u16,
    /// What it means.
    pub means: Means,
    /// The class, where it is not that it happened.
    pub class: &'static str,
    /// Where it is written, and what is promised there.
    pub promise: &'static str,
}

/// What a status means where the effect's own rules say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It happened.
    Done,
    /// It was accepted, and the outcome is open.
    Accepted,
    /// Provably nothing happened in this attempt.
    NotSent,
    /// It may have happened.
    Unknown,
}

/// The general table: the first row that holds the status decides.
///
/// 401, 403, 404, 405 and 407 are *not sent* with class `operator`, and not *refused*: a wrong API key for ten minutes
/// must not abandon ten minutes of charges. An effect's own rules may say otherwise.
pub const fn general_table() -> &'static [Row] {
    TABLE
}

const fn row(from: u16, to: u16, means: Means, class: &'static str, promise: &'static str) -> Row {
    Row { from, to, means, class, promise }
}

use Means::{Accepted, Done, NotSent, Unknown};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(100, 199, Unknown,  "unexpected_1xx", "RFC 9110 §15.2: an interim answer is no outcome; 101 was not asked for (§7.8)"),
    row(202, 202, Accepted, "accepted",       "RFC 9110 §15.3.3: accepted, and noncommittal on whether it will be acted upon"),
    row(200, 299, Done,     "",               "RFC 9110 §15.3: received, understood, and accepted"),
    row(300, 399, Unknown,  "needs_mapping",  "RFC 9110 §15.4: further action is needed; it is not followed, and what was done before it is not said"),
    row(401, 401, NotSent,  "operator",       "RFC 9110 §15.5.2: not applied, since it lacks valid credentials"),
    row(403, 403, NotSent,  "operator",       "RFC 9110 §15.5.4: understood, and refused to fulfil"),
    row(404, 404, NotSent,  "operator",       "RFC 9110 §15.5.5: no such resource: most likely a wrong URL"),
    row(405, 405, NotSent,  "operator",       "RFC 9110 §15.5.6: the method is not supported by the resource"),
    row(407, 407, NotSent,  "operator",       "RFC 9110 §15.5.8: the proxy wants to know us before it passes anything on"),
    row(408, 408, Unknown,  "http_408",       "RFC 9110 §15.5.9: not received whole in time; gateways also send it for a slow backend"),
    row(409, 409, Unknown,  "http_409",       "RFC 9110 §15.5.10: a conflict: most often with our own attempt still running"),
    row(421, 421, NotSent,  "misdirected",    "RFC 9110 §15.5.20: not able to answer for this target; may be repeated on another connection, even if not idempotent"),
    row(425, 425, NotSent,  "too_early",      "RFC 8470 §5.2: not willing to risk processing a request that might be replayed"),
    row(429, 429, Unknown,  "http_429",       "RFC 6585 §4: too many requests; that nothing was executed is not promised"),
    row(400, 499, Unknown,  "http_4xx",       "RFC 9110 §15.5: the client seems to have erred; that nothing was executed is not promised"),
    row(503, 503, Unknown,  "http_503",       "RFC 9110 §15.6.4: overloaded; that nothing was executed is not promised, Retry-After or not"),
    row(500, 599, Unknown,  "http_5xx",       "RFC 9110 §15.6: the server erred, at an unknown point of its work"),
    row(0, u16::MAX, Unknown, "http_other",   "RFC 9110 §15: no class of this number is defined"),
];

/// What the answer means.
pub(super) fn classify(answers: &Answers, seen: &Seen) -> Result<Receipt, Failure> {
    let mut unread: Vec<&Then> = Vec::new();
    let mut own = None;
    for rule in &answers.rules {
        match rule.on.fit(seen, None) {
            Fit::Yes => {
                own = Some(&rule.then);
                break;
            }
            Fit::Unread => unread.push(&rule.then),
            Fit::No => {}
        }
    }
    let (then, why) = match own {
        Some(then) => (then.clone(), "by the effect's own table".to_owned()),
        None => general(seen.status),
    };
    // An earlier rule might have fitted, had the body arrived whole: where it says something else, nobody knows.
    if unread.iter().any(|other| !other.same_move(&then)) {
        let why = "the body did not arrive whole, and the effect's table decides this status by it";
        return Err(failure(seen, Verdict::Unknown, "body_unread", why));
    }
    let id = |own: Option<String>| provider_ref(seen, own.as_deref().or(answers.id.as_deref()));
    match then {
        Then::Done { id: at } => Ok(Receipt::new(Some(seen.answer()), id(at))),
        Then::Accepted { id: at } => {
            Err(failure(seen, Verdict::Unknown, "accepted", &why).with_provider_ref(id(at)))
        }
        Then::Refused { class, covers_earlier } => {
            Err(failure(seen, Verdict::Refused { covers_earlier }, class, &why))
        }
        Then::NotSent { class } => Err(failure(seen, Verdict::NotSent, class, &why)),
        Then::Unknown { class } => Err(failure(seen, Verdict::Unknown, class, &why)),
    }
}

fn general(status: u16) -> (Then, String) {
    let Some(row) = TABLE.iter().find(|row| (row.from..=row.to).contains(&status)) else {
        // The last row holds every number; were it ever lost, this is what it says.
        return (Then::Unknown { class: "http_other".to_owned() }, String::new());
    };
    let class = row.class.to_owned();
    let then = match row.means {
        Done => Then::Done { id: None },
        Accepted => Then::Accepted { id: None },
        NotSent => Then::NotSent { class },
        Unknown => Then::Unknown { class },
    };
    (then, row.promise.to_owned())
}

fn failure(seen: &Seen, verdict: Verdict, class: impl Into<ErrorClass>, why: &str) -> Failure {
    Failure::new(verdict, class)
        .because(format!("status {} {}: {why}", seen.status, seen.reason()))
        .retry_after(retry_after::of(seen))
        .with_answer(seen.answer())
}

/// The provider's id at the pointer.
fn provider_ref(seen: &Seen, at: Option<&str>) -> Option<String> {
    let found = pointer::find(seen.body.json.as_ref()?, at?);
    found.into_iter().find_map(id_text)
}

/// A value as an id: text or a whole number, not empty, not longer than is kept, without control characters.
pub(super) fn id_text(value: &Value) -> Option<String> {
    let id = match value {
        Value::String(text) => text.clone(),
        // A float is not what the provider wrote: beyond 64 bits, two ids would become one.
        Value::Number(number) if number.is_f64() => return None,
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let legal = !id.is_empty() && id.len() <= PROVIDER_REF_BYTES_MAX && !id.chars().any(char::is_control);
    legal.then_some(id)
}

#[cfg(test)]
mod tests;
