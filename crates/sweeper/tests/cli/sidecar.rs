//! `earmark run`: signals, health, metrics, and what a stalled process does when it wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use earmark_claim::{ClaimStore, Declared, Failure, KeyChoice, NewClaim, RepeatSafety, State};
use earmark_effects::http::{Answers, FORM, HttpCall, On};
use tokio::sync::Notify;

use crate::kit::{Place, key, never, new, settled, until, won};

/// A provider that answers when it is told to.
struct Provider {
    origin: String,
    calls: Arc<AtomicU32>,
    answer: Arc<Notify>,
}

async fn provider() -> Provider {
    let (calls, answer) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (counted, waited) = (calls.clone(), answer.clone());
    let charge = post(async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        waited.notified().await;
        (axum::http::StatusCode::CREATED, r#"{"id":"ch_1"}"#)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/charges", charge)).await });
    Provider { origin, calls, answer }
}

/// A service makes a claim of form `http/1` and dies.
async fn crashed(store: &ClaimStore, place: &Place, origin: &str) {
    let call = HttpCall::post(&format!("{origin}/charges"))
        .json(&1)
        .key_header("Idempotency-Key")
        .answers(Answers::new().done_with_id(On::status(201), "/id"));
    let idempotency_key = store.idempotency_key(&key("m1"), &KeyChoice::Derived).unwrap();
    let frozen = call.freeze("card.charge", &idempotency_key, &store.reference(&key("m1"))).unwrap();
    let declared = Declared {
        repeat: RepeatSafety::Keyed { window: Duration::from_secs(86_400) },
        call_timeout: Duration::from_secs(40),
        landing_horizon: Some(Duration::from_secs(40)),
        ..never()
    };
    let _claim =
        won(store, "m1", NewClaim { form: FORM.into(), request: frozen.bytes, ..new(declared) }).await;
    place.age(Duration::from_secs(100)).await;
}

async fn state(store: &ClaimStore, id: &str) -> State {
    store.find(&key(id)).await.unwrap().unwrap().facts.state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_lets_what_is_under_way_settle() {
    let (place, provider) = (Place::new(), provider().await);
    let store = place.store().await;
    crashed(&store, &place, &provider.origin).await;
    let mut sidecar = place.sidecar(&[], &[("EARMARK_HTTP_ANONYMOUS_ORIGINS", &provider.origin)]);
    until("the call arrives", || (provider.calls.load(Ordering::SeqCst) == 1).then_some(()));
    sidecar.signal("TERM");
    sidecar.line("stopping");
    assert_eq!(sidecar.get("/readyz").0, 503, "no new work");
    assert_eq!(sidecar.get("/livez").0, 200);
    provider.answer.notify_one();
    assert_eq!(sidecar.ended(), Some(0));
    assert_eq!(state(&store, "m1").await, State::Confirmed);
    assert_eq!(provider.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_at_once_and_so_does_the_end_of_the_grace() {
    let (place, provider) = (Place::new(), provider().await);
    let store = place.store().await;
    crashed(&store, &place, &provider.origin).await;
    let env = [("EARMARK_HTTP_ANONYMOUS_ORIGINS", provider.origin.as_str())];
    let mut sidecar = place.sidecar(&[], &env);
    until("the call arrives", || (provider.calls.load(Ordering::SeqCst) == 1).then_some(()));
    sidecar.signal("INT");
    sidecar.line("stopping");
    sidecar.signal("TERM");
    assert_eq!(sidecar.ended(), Some(130));
    assert_eq!(state(&store, "m1").await, State::InFlight, "its lease turns it into doubt");

    place.age(Duration::from_secs(100)).await;
    let mut sidecar = place.sidecar(&["--grace", "1s"], &env);
    until("the call arrives", || (provider.calls.load(Ordering::SeqCst) == 2).then_some(()));
    sidecar.signal("TERM");
    sidecar.line("calls are still under way");
    assert_eq!(sidecar.ended(), Some(0));
    assert_eq!(state(&store, "m1").await, State::InFlight);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_metrics_tell_what_is() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "m1", Err(Failure::unknown("timeout"))).await;
    let sidecar = place.sidecar(&[], &[]);
    assert_eq!(sidecar.get("/livez"), (200, "ok\n".into()));
    assert_eq!(sidecar.get("/readyz"), (200, "ok\n".into()));
    assert_eq!(sidecar.get("/healthz/sweeper").0, 200);
    assert_eq!(sidecar.get("/nothing").0, 404);
    let metrics = until("a pass is counted", || {
        let (status, body) = sidecar.get("/metrics");
        assert_eq!(status, 200);
        (!body.contains("earmark_sweep_runs_total{result=\"ok\"} 0")).then_some(body)
    });
    let open = "{consumer=\"mail\",kind=\"mail.welcome\",downstream=\"mailer\",state=\"in_doubt\"}";
    assert!(metrics.contains(&format!("earmark_claim_open{open} 1")), "{metrics}");
    assert!(metrics.contains(&format!("earmark_claim_open_oldest_age_seconds{open}")), "{metrics}");
    for name in ["earmark_sweep_last_success_timestamp_seconds", "earmark_sweep_duration_seconds_bucket"] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    assert!(!metrics.contains("m1") && !metrics.contains("acme"), "no keys: {metrics}");

    // The database loses a table: alive, but neither ready nor sweeping; and all is well again when it is back.
    place.sql("ALTER TABLE earmark_claim RENAME TO gone").await;
    assert_eq!(sidecar.get("/readyz").0, 503);
    until("the sweeper is overdue", || (sidecar.get("/healthz/sweeper").0 == 503).then_some(()));
    assert_eq!(sidecar.get("/livez").0, 200);
    place.sql("ALTER TABLE gone RENAME TO earmark_claim").await;
    until("the sweeper is on time", || (sidecar.get("/healthz/sweeper").0 == 200).then_some(()));
    assert_eq!(sidecar.get("/readyz").0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_frozen_for_ten_intervals_sweeps_again_within_one() {
    let place = Place::new();
    let store = place.store().await;
    let sidecar = place.sidecar(&[], &[]);
    until("it sweeps", || (sidecar.get("/healthz/sweeper").0 == 200).then_some(()));
    sidecar.signal("STOP");
    settled(&store, "m1", Err(Failure::unknown("timeout"))).await;
    place.age(Duration::from_secs(100)).await;
    let frozen = Instant::now();
    until("ten intervals have passed", || (frozen.elapsed() > Duration::from_secs(10)).then_some(()));
    sidecar.signal("CONT");
    let woken = Instant::now();
    loop {
        if state(&store, "m1").await == State::Escalated {
            break;
        }
        assert!(woken.elapsed() < Duration::from_secs(30), "it does not sweep any more");
    }
    // An interval, its jitter, and what a loaded machine needs.
    assert!(woken.elapsed() < Duration::from_secs(3), "after {:?}", woken.elapsed());
    // And it goes on: the metronome strikes as before.
    for id in ["m2", "m3"] {
        settled(&store, id, Err(Failure::unknown("timeout"))).await;
        place.age(Duration::from_secs(100)).await;
        let due = Instant::now();
        while state(&store, id).await != State::Escalated {
            assert!(due.elapsed() < Duration::from_secs(10), "{id} is not swept");
        }
    }
}

#[test]
fn what_it_cannot_start_with_is_told_at_once() {
    let place = Place::empty();
    place.run(&["run"]).says(3, "could not be reached");
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.command(&["run"]).env("EARMARK_LISTEN_ADDRESS", &address).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("listen.address: {address} cannot be listened on")), "{said}");
    for (name, value, says) in [
        ("EARMARK_SWEEP_INTERVAL", "7s", "cannot be struck evenly"),
        ("EARMARK_SWEEP_INTERVAL", "0s", "zero makes no sense here"),
        ("EARMARK_SWEEP_SCHEDULE", "0 0 0 30 2 *", "never strikes"),
        ("EARMARK_SWEEP_LEASE", "1s", "is not shorter than sweep.lease"),
        ("EARMARK_LISTEN_ADDRESS", "0.0.0.0:9464", "can be reached from other machines"),
    ] {
        let output = place.command(&["run"]).env(name, value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    }
}
