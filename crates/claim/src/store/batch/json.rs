//! Batches as one JSON document: the databases without arrays take it apart into rows.

use serde::Serialize;

use super::super::bind::{Insert, content_type, kept, received, when};
use super::super::ordinary::Confirm;
use super::shapes;
use crate::key::hex;

/// A claim: what it shares with no other, and the place of what it shares. Bytes are in hex.
#[derive(Serialize)]
pub(super) struct Row<'a>(
    &'a str,         // 0 tenant
    &'a str,         // 1 consumer
    &'a str,         // 2 message_id
    Option<&'a str>, // 3 summary
    Option<&'a str>, // 4 business_ref
    Option<i64>,     // 5 amount_minor
    Option<&'a str>, // 6 currency
    String,          // 7 token
    Option<i64>,     // 8 not_before, a moment
    Option<i64>,     // 9 not_before, from now
    Option<i64>,     // 10 send_by, a moment
    Option<i64>,     // 11 send_by, from now
    String,          // 12 fingerprint
    &'a str,         // 13 idempotency_key
    &'a str,         // 14 reference
    String,          // 15 request
    Option<&'a str>, // 16 traceparent
    Option<&'a str>, // 17 supersedes
    usize,           // 18 place of the shape
);

/// What claims of one kind share.
#[derive(Serialize)]
pub(super) struct Shared<'a>(
    usize,           // 0 its place
    &'a str,         // 1 kind
    &'a str,         // 2 form
    &'a str,         // 3 downstream
    &'a str,         // 4 state
    i64,             // 5 in_flight: fence and attempts
    i64,             // 6 due_in
    &'a str,         // 7 request_type
    Option<&'a str>, // 8 credential
    &'a str,         // 9 repeat_safety
    Option<i64>,     // 10 key_window
    Option<i64>,     // 11 landing_horizon
    Option<i64>,     // 12 probe_lag
    i64,             // 13 probe_proof
    i64,             // 14 looks_max
    i64,             // 15 call_timeout
    i64,             // 16 attempts_max
    i64,             // 17 age_max
);

/// An ordinary confirmation.
#[derive(Serialize)]
struct Outcome<'a>(
    &'a str,         // 0 tenant
    &'a str,         // 1 consumer
    &'a str,         // 2 message_id
    String,          // 3 token
    Option<&'a str>, // 4 provider_ref
    Option<String>,  // 5 receipt
    Option<String>,  // 6 receipt_type
    Option<i64>,     // 7 receipt_len
    Option<String>,  // 8 receipt_digest
);

/// The claims, and what they share.
pub(super) fn claims(claims: &[&Insert]) -> (String, String) {
    let (shapes, places) = shapes(claims);
    let rows: Vec<Row<'_>> = claims
        .iter()
        .zip(places)
        .map(|(i, place)| {
            let (not_before, send_by) = (when(i.claim.not_before), when(i.claim.send_by));
            Row(
                i.key.tenant(),
                i.key.consumer(),
                i.key.message_id(),
                i.claim.summary.as_deref(),
                i.claim.business_ref.as_deref(),
                i.claim.amount.map(|m| m.minor),
                i.claim.amount.as_ref().map(|m| m.currency.as_str()),
                hex(&i.token.0),
                not_before.0,
                not_before.1,
                send_by.0,
                send_by.1,
                hex(i.claim.fingerprint.as_bytes()),
                i.idempotency_key.as_str(),
                i.reference.as_str(),
                hex(&i.claim.request),
                i.claim.traceparent.as_deref(),
                i.claim.supersedes.as_ref().map(|r| r.as_str()),
                place,
            )
        })
        .collect();
    let shared: Vec<Shared<'_>> = shapes
        .iter()
        .enumerate()
        .map(|(place, s)| {
            Shared(
                place,
                s.kind,
                s.form,
                s.downstream,
                s.state(),
                i64::from(s.in_flight),
                s.due_in,
                s.request_type,
                s.credential,
                s.repeat_safety,
                s.key_window,
                s.landing_horizon,
                s.probe_lag,
                i64::from(s.probe_proof),
                s.looks_max,
                s.call_timeout,
                s.attempts_max,
                s.age_max,
            )
        })
        .collect();
    (document(&rows), document(&shared))
}

pub(super) fn confirms(confirms: &[&Confirm]) -> String {
    let rows: Vec<Outcome<'_>> = confirms
        .iter()
        .map(|c| {
            Outcome(
                c.key.tenant(),
                c.key.consumer(),
                c.key.message_id(),
                hex(&c.facts.token.0),
                c.provider_ref(),
                c.receipt.as_ref().map(|r| hex(kept(r))),
                c.receipt.as_ref().map(|r| content_type(&r.content_type)),
                c.receipt.as_ref().map(received),
                c.receipt.as_ref().map(|r| hex(&r.digest)),
            )
        })
        .collect();
    document(&rows)
}

/// Strings and numbers: there is nothing in it that JSON could refuse, and a batch that is empty writes nothing.
fn document(rows: &impl Serialize) -> String {
    serde_json::to_string(rows).unwrap_or_else(|_| "[]".to_owned())
}
