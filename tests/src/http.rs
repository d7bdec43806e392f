//! Services and sidecars that charge a [`Provider`] over HTTP.

use std::time::Duration;

use crate::effects::{PATIENT, unbroken};
use crate::provider::Provider;
use earmark_claim::{ClaimKey, ClaimStore, Declared};
use earmark_effects::credentials::{CredentialConfig, Credentials};
use earmark_effects::http::{Answers, HttpCall, HttpEffect, HttpOptions, HttpProbe, Items, On};
use earmark_effects::{Builder, Description, Earmark, HttpKind, Outcome};
use serde_json::{Value, json};

/// The stored name of the charge.
pub const KIND: &str = "billing.charge";

/// The HTTP effect alone, as a sidecar has it: origins by configuration.
pub fn sidecar(store: &ClaimStore, credentials: Credentials) -> Builder {
    // The client wants one, though nothing here speaks TLS. Of two tests in one process the second finds it there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = HttpOptions::new().connect_timeout(Duration::from_secs(2));
    let http = HttpEffect::new(options, credentials).unwrap();
    Earmark::builder(store.clone()).http(http).backoff(PATIENT)
}

/// A service of one HTTP kind.
pub fn service(store: &ClaimStore, provider: &Provider, declared: Declared) -> Earmark {
    service_at(store, &provider.origin(), declared)
}

/// The same, for a provider in another process.
pub fn service_at(store: &ClaimStore, origin: &str, declared: Declared) -> Earmark {
    let credentials = Credentials::new([], [origin]).unwrap();
    let builder = sidecar(store, credentials).downstream("stub", unbroken());
    builder.http_kind(HttpKind::new(KIND, "stub", declared)).build().unwrap()
}

/// Nobody's secret, for that provider.
pub fn anonymous(provider: &Provider) -> Credentials {
    Credentials::new([], [provider.origin()]).unwrap()
}

/// The credential `stub`, from a file, for that provider.
pub fn bearer(file: &std::path::Path, provider: &Provider) -> Credentials {
    let config = CredentialConfig {
        env: None,
        file: Some(file.to_owned()),
        ..CredentialConfig::bearer_from_env("UNUSED", [provider.origin()])
    };
    Credentials::new([("stub".to_owned(), config)], Vec::<String>::new()).unwrap()
}

/// A charge with its key in a header and a probe that lists everything.
pub fn charge(provider: &Provider) -> HttpCall {
    charge_at(&provider.origin(), 1200)
}

/// The same, of that amount, for a provider in another process.
pub fn charge_at(origin: &str, amount: u32) -> HttpCall {
    let ours = Items::at("/data").with("/key", "{idempotency_key}").id("/id");
    HttpCall::post(&format!("{origin}/charges"))
        .json(&json!({ "amount": amount }))
        .key_header("Idempotency-Key")
        .answers(
            Answers::new()
                .provider_id("/id")
                .refused(On::status(402), "declined")
                .not_sent(On::status(429), "busy"),
        )
        .probe(
            HttpProbe::get(&format!("{origin}/charges?key={{idempotency_key}}"))
                .done_items(On::status(200), ours)
                .not_done(On::status(200).json("/has_more", false)),
        )
}

/// Runs one charge; an error fails the test.
pub async fn run(earmark: &Earmark, key: &ClaimKey, call: &HttpCall) -> Outcome<Value> {
    earmark.run_http(KIND, key, call, Description::default()).await.unwrap()
}
