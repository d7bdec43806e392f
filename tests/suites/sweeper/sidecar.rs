//! A sidecar, which has no code of the service: it redrives and asks about the calls that the service froze.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use earmark_claim::{ClaimStore, Declared, ProbeTerms, State};
use earmark_effects::credentials::{CredentialConfig, Credentials};
use earmark_effects::http::{Answers, HttpCall, HttpEffect, HttpOptions, HttpProbe, On};
use earmark_effects::{Description, Earmark, HttpKind};
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

use crate::kit::LONG;

/// What truly happened at the provider.
#[derive(Clone, Default)]
struct Provider(Arc<Mutex<Ledger>>);

#[derive(Default)]
struct Ledger {
    /// Keys of all requests, in order.
    requests: Vec<String>,
    /// By key: how often it was charged.
    charges: HashMap<String, u32>,
    deduplicates: bool,
}

async fn charge(Shared(provider): Shared<Provider>, headers: HeaderMap) -> (StatusCode, String) {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let mut ledger = provider.0.lock().unwrap();
    ledger.requests.push(key.clone());
    let deduplicates = ledger.deduplicates;
    let charges = ledger.charges.entry(key.clone()).or_default();
    if *charges == 0 || !deduplicates {
        *charges += 1;
    }
    // The first answer is lost in a gateway.
    match ledger.requests.len() {
        1 => (StatusCode::BAD_GATEWAY, "<html>".into()),
        _ => (StatusCode::CREATED, json!({ "id": format!("ch_{key}") }).to_string()),
    }
}

async fn look(Shared(provider): Shared<Provider>, Path(key): Path<String>) -> (StatusCode, String) {
    match provider.0.lock().unwrap().charges.contains_key(&key) {
        true => (StatusCode::OK, json!({ "id": format!("ch_{key}") }).to_string()),
        false => (StatusCode::NOT_FOUND, "{}".into()),
    }
}

/// The provider, and its origin.
async fn provider(deduplicates: bool) -> (Provider, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let provider = Provider::default();
    provider.0.lock().unwrap().deduplicates = deduplicates;
    let routes = Router::new()
        .route("/charges", post(charge))
        .route("/charges/{key}", get(look))
        .with_state(provider.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (provider, origin)
}

fn http(origin: &str) -> HttpEffect {
    let credentials = Credentials::new(std::iter::empty::<(String, CredentialConfig)>(), [origin]).unwrap();
    HttpEffect::new(HttpOptions::new().connect_timeout(Duration::from_secs(2)), credentials).unwrap()
}

/// The service: it makes the claim, and its first call is lost.
async fn serve(store: ClaimStore, origin: &str, declared: Declared) {
    let probed = declared.probe.is_some();
    let earmark = Earmark::builder(store)
        .http(http(origin))
        .http_kind(HttpKind::new("card.charge", "acme", declared))
        .build()
        .unwrap();
    let mut call = HttpCall::post(&format!("{origin}/charges"))
        .json(&json!({ "amount": 4900 }))
        .key_header("Idempotency-Key")
        .answers(Answers::new().done_with_id(On::status(201), "/id"));
    if probed {
        call = call.probe(
            HttpProbe::get(&format!("{origin}/charges/{{idempotency_key}}"))
                .done(On::status(200), "/id")
                .not_done(On::status(404)),
        );
    }
    let outcome = earmark.run_http("card.charge", &key("m1"), &call, Description::default()).await.unwrap();
    assert!(!outcome.is_confirmed(), "{outcome:?}");
}

/// Another process, with nothing but the HTTP effect.
async fn sidecar(db: &TestDb, origin: &str) -> Sweeper {
    let earmark = Earmark::builder(store(db).await).http(http(origin)).build().unwrap();
    Sweeper::new(&earmark, SweeperOptions::default()).unwrap()
}

per_backend! {
    async fn it_redrives_a_call_under_the_key_that_the_service_sent(db: TestDb) {
        let (provider, origin) = provider(true).await;
        serve(store(&db).await, &origin, keyed()).await;
        let sweeper = sidecar(&db, &origin).await;
        age(&db, &key("m1"), LONG).await;
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.performed, pass.confirmed), (1, 1), "{pass:?}");
        let ledger = provider.0.lock().unwrap();
        assert_eq!(ledger.requests.len(), 2);
        assert_eq!(ledger.requests[0], ledger.requests[1]);
        assert_eq!(ledger.charges.values().sum::<u32>(), 1);
    }

    async fn it_asks_the_provider_where_a_repeat_might_charge_twice(db: TestDb) {
        let (provider, origin) = provider(false).await;
        let probe = ProbeTerms { lag: Duration::ZERO, not_found_is_proof: true, looks_max: 3 };
        serve(store(&db).await, &origin, Declared { probe: Some(probe), ..never() }).await;
        let sweeper = sidecar(&db, &origin).await;
        age(&db, &key("m1"), LONG).await;
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.looked, pass.confirmed, pass.performed), (1, 1, 0), "{pass:?}");
        let view = sweeper.earmark().store().find(&key("m1")).await.unwrap().unwrap();
        assert!(view.facts.provider_ref.unwrap().starts_with("ch_"));
        assert_eq!(provider.0.lock().unwrap().requests.len(), 1);
    }

    async fn it_calls_no_origin_that_it_was_not_told_of(db: TestDb) {
        let (provider, origin) = provider(true).await;
        serve(store(&db).await, &origin, keyed()).await;
        let sweeper = sidecar(&db, "https://elsewhere.example").await;
        age(&db, &key("m1"), LONG).await;
        sweeper.run_once().await.unwrap();
        assert_eq!(provider.0.lock().unwrap().requests.len(), 1);
        age(&db, &key("m1"), LONG).await;
        sweeper.run_once().await.unwrap();
        let view = sweeper.earmark().store().find(&key("m1")).await.unwrap().unwrap();
        assert_ne!(view.facts.state, State::Confirmed);
    }
}
