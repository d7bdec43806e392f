//! What the HTTP effect costs beside the wire: freezing a call, and saying what an answer means.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use earmark_claim::{ClaimKey, IdempotencyKey, Namespace, Reference};
use earmark_effects::http::{Answers, HttpCall, HttpProbe, Items, On, Seen};
use serde_json::json;

/// A table of a dozen rules, as a payment provider has it.
fn answers() -> Answers {
    let mut answers = Answers::new().provider_id("/id").not_sent(On::status(429), "rate_limited");
    for code in ["card_declined", "expired_card", "incorrect_cvc", "insufficient_funds", "lost_card"] {
        answers = answers.refused_and_stored(On::status(402).json("/error/code", code), code);
    }
    for code in ["amount_too_small", "currency_unknown", "customer_unknown", "parameter_missing"] {
        answers = answers.refused(On::status([400, 422]).json("/error/code", code), code);
    }
    answers.unknown(On::status(409).header("idempotent-replayed", "false"), "still_running")
}

fn classification(c: &mut Criterion) {
    let answers = answers();
    answers.check().expect("a table that can be used");
    let body =
        |error: &str| json!({ "id": "ch_1", "object": "charge", "error": { "code": error, "message": "…" } });
    let seen = |status, body: &str| Seen::new(status, &[("content-type", "application/json")], body);
    let mut group = c.benchmark_group("classify");
    for (name, seen) in [
        ("done", seen(200, &json!({ "id": "ch_1", "object": "charge", "amount": 1200 }).to_string())),
        ("refused_by_the_last_rule", seen(422, &body("parameter_missing").to_string())),
        ("general_table", seen(503, "upstream connect error")),
        ("body_unread", seen(402, "{\"error\": {\"code\": \"\\ud800\"}}")),
    ] {
        group.bench_function(name, |b| b.iter(|| black_box(&answers).judge(black_box(&seen))));
    }
    // Reading the answer as well: digest, JSON.
    let text = body("parameter_missing").to_string();
    group.bench_function("read_and_judge", |b| b.iter(|| answers.judge(&seen(422, black_box(&text)))));
    group.finish();
}

fn freezing(c: &mut Criterion) {
    let origin = "https://api.provider.example";
    let ours = Items::at("/data").with("/key", "{idempotency_key}").id("/id");
    let call = HttpCall::post(&format!("{origin}/charges"))
        .json(&json!({ "amount": 1200, "currency": "eur", "customer": "cus_1", "description": "x".repeat(240) }))
        .key_header("Idempotency-Key")
        .answers(answers())
        .probe(
            HttpProbe::get(&format!("{origin}/charges?key={{idempotency_key}}"))
                .done_items(On::status(200), ours)
                .not_done(On::status(200).json("/has_more", false)),
        );
    let key = ClaimKey::new("billing", "0b7f4c1e-2a53-4a63-9a33-0d8f1f2e6b41").expect("a key");
    let namespace = Namespace::new("bench").expect("a namespace");
    let (key, reference) = (IdempotencyKey::derive(&namespace, &key), Reference::derive(&namespace, &key));
    call.freeze("billing.charge", &key, &reference).expect("a call that can be used");
    c.bench_function("freeze", |b| b.iter(|| black_box(&call).freeze("billing.charge", &key, &reference)));
}

criterion_group!(benches, classification, freezing);
criterion_main!(benches);
