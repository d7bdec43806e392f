//! The examples, run.

#[allow(dead_code)]
#[path = "../../crates/effects/examples/charge.rs"]
mod charge;
#[allow(dead_code)]
#[path = "../../crates/effects/examples/email.rs"]
mod email;
#[allow(dead_code)]
#[path = "../../crates/effects/examples/orders.rs"]
mod orders;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Json, Router, routing::post};
use earmark_effects::claim::{ClaimStore, StoreOptions};
use earmark_effects::{Earmark, Outcome};
use earmark_tests::claims::LEASE;
use earmark_tests::{EmptyDb, TestDb, per_backend};
use serde_json::{Value, json};
use tokio::task::JoinSet;

async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

fn client() -> reqwest::Client {
    // An installed provider is asked for as soon as a client is built, even for plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

per_backend! {
    async fn fifty_parallel_posts_with_one_key_place_one_order_and_get_equal_answers(db: TestDb) {
        let warehouse = orders::Warehouse::default();
        let base = serve(orders::app(orders::earmark(db.url(), warehouse.clone()).await.unwrap())).await;
        let client = client();
        let mut posts = JoinSet::new();
        for _ in 0..50 {
            let post = client
                .post(format!("{base}/orders"))
                .header("idempotency-key", "o-1")
                .header("content-type", "application/json")
                .body(r#"{"sku":"tea","quantity":2}"#);
            posts.spawn(async move {
                let answer = post.send().await.unwrap();
                (answer.status(), answer.text().await.unwrap())
            });
        }
        let answers = posts.join_all().await;
        assert_eq!(warehouse.placed(), 1);
        assert_eq!(answers[0], (StatusCode::CREATED, r#"{"number":1,"sku":"tea"}"#.to_owned()));
        assert!(answers.iter().all(|a| *a == answers[0]), "{answers:?}");
        let other = client
            .post(format!("{base}/orders"))
            .header("idempotency-key", "o-1")
            .header("content-type", "application/json")
            .body(r#"{"sku":"coffee","quantity":2}"#);
        let other = other.send().await.unwrap();
        assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert!(!other.text().await.unwrap().contains("tea"), "a mismatch discloses nothing");
    }

    async fn invoice_and_charge_are_committed_together_and_charged_once(db: EmptyDb) {
        charge::tables(db.connection()).await.unwrap();
        let host = sea_orm::Database::connect(db.url()).await.unwrap();
        let store = ClaimStore::on(&host, StoreOptions::new(LEASE)).await.unwrap();
        let payments = charge::Payments::default();
        let earmark = Earmark::builder(store).effect(payments.clone()).build().unwrap();
        let wanted = charge::Charge { invoice: "INV-1".into(), amount_minor: 1250, currency: "EUR".into() };
        assert!(charge::issue(&host, &earmark, &wanted).await.unwrap().is_some());
        assert!(charge::issue(&host, &earmark, &wanted).await.unwrap().is_none());
        assert_eq!(payments.charged().len(), 1);
        assert_eq!(db.number("SELECT COUNT(*) FROM invoice").await, 1);
    }

    async fn a_mail_goes_out_once_with_its_key_and_reference(db: TestDb) {
        let sent = Arc::new(AtomicU32::new(0));
        let api = Router::new().route("/emails", post(mail_api)).with_state(sent.clone());
        let base = serve(api).await;
        let _ = client();
        let earmark = email::earmark(db.url(), &base).await.unwrap();
        for _ in 0..2 {
            let outcome = email::send(&earmark, &base, "7", "a@example.org").await.unwrap();
            let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
            assert_eq!(receipt.provider_ref.as_deref(), Some("em_1"));
        }
        assert_eq!(sent.load(Ordering::SeqCst), 1);
        assert_eq!(earmark.close(Duration::from_secs(5)).await, 0);
    }
}

async fn mail_api(
    State(sent): State<Arc<AtomicU32>>,
    headers: HeaderMap,
    Json(mail): Json<Value>,
) -> (StatusCode, Json<Value>) {
    assert_eq!(headers["idempotency-key"].len(), 36);
    assert_eq!(mail["tags"]["earmark"].as_str().map(str::len), Some(16));
    let n = sent.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::OK, Json(json!({ "id": format!("em_{n}") })))
}
