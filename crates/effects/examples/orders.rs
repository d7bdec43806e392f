//! An HTTP endpoint under claims: `POST /orders` with an `Idempotency-Key`.
//!
//! However often and however parallel a client repeats its request, one order is placed, and every repeat gets the same status and
//! body. While somebody else is at it, the request waits a little and then answers 409 with `Retry-After`.
//!
//! `cargo run -p earmark-effects --example orders --features sqlite`, then
//! `curl -i -d '{"sku":"tea","quantity":2}' -H 'Content-Type: application/json' -H 'Idempotency-Key: o-1' localhost:3000/orders`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use earmark_effects::claim::{
    ClaimKey, ClaimStore, Claimed, Declared, Failure, Permit, Receipt, RepeatSafety, StoreOptions,
};
use earmark_effects::{Earmark, Effect, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// What.
    pub sku: String,
    /// How many.
    pub quantity: u32,
}

/// What proves that it was placed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// The warehouse's number.
    pub number: u64,
    /// What.
    pub sku: String,
}

/// The warehouse: another company's system, which remembers our key for a day.
#[derive(Clone, Default)]
pub struct Warehouse {
    placed: Arc<AtomicU64>,
}

impl Warehouse {
    /// How many orders were really placed.
    pub fn placed(&self) -> u64 {
        self.placed.load(Ordering::SeqCst)
    }
}

impl Effect for Warehouse {
    type Request = Order;
    type Receipt = Placed;

    fn kind(&self) -> &str {
        "orders.place"
    }

    fn downstream(&self) -> &str {
        "warehouse"
    }

    fn declared(&self) -> Declared {
        let day = Duration::from_secs(24 * 3600);
        Declared {
            repeat: RepeatSafety::Keyed { window: day },
            landing_horizon: Some(Duration::from_secs(60)),
            probe: None,
            call_timeout: Duration::from_secs(10),
            attempts_max: 8,
            age_max: day,
        }
    }

    async fn perform(&self, permit: Permit<'_>, order: &Order) -> Result<Placed, Failure> {
        // A real client would send `permit.idempotency_key()` here.
        permit.last_look()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(Placed { number: self.placed.fetch_add(1, Ordering::SeqCst) + 1, sku: order.sku.clone() })
    }

    fn provider_ref(&self, receipt: &Placed) -> Option<String> {
        Some(receipt.number.to_string())
    }
}

/// How long a repeat waits for the request that is under way.
const WAIT: Duration = Duration::from_secs(5);

/// The service.
pub fn app(earmark: Earmark) -> Router {
    Router::new().route("/orders", post(place)).with_state(earmark)
}

async fn place(State(earmark): State<Earmark>, headers: HeaderMap, Json(order): Json<Order>) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|v| v.to_str().ok()) else {
        return problem(StatusCode::BAD_REQUEST, "send an Idempotency-Key header");
    };
    let key = match ClaimKey::new("orders", key) {
        Ok(key) => key,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why.to_string()),
    };
    match earmark.run::<Warehouse>(&key, &order).await {
        Ok(Outcome::InFlight { .. }) => match earmark.store().wait(&key, WAIT).await {
            Ok(Some(Claimed::Confirmed(receipt))) => placed(receipt.cast()),
            _ => later(StatusCode::CONFLICT, "a request with this key is under way"),
        },
        Ok(Outcome::Confirmed(receipt)) => placed(receipt),
        Ok(Outcome::Mismatch) => {
            problem(StatusCode::UNPROCESSABLE_ENTITY, "this key was used with another request")
        }
        Ok(Outcome::Abandoned { .. }) => problem(StatusCode::CONFLICT, "the order was refused"),
        // Nothing is lost: the claim carries the order, and the sweep or a person finishes it.
        Ok(_) => later(StatusCode::ACCEPTED, "the order is on file"),
        Err(_) => later(StatusCode::SERVICE_UNAVAILABLE, "try again with the same key"),
    }
}

fn placed(receipt: Receipt<Placed>) -> Response {
    match receipt.decode() {
        Ok(placed) => (StatusCode::CREATED, Json(placed)).into_response(),
        // It was placed; only its receipt cannot be shown.
        Err(_) => (StatusCode::CREATED, Json(json!({ "number": receipt.provider_ref }))).into_response(),
    }
}

fn later(status: StatusCode, detail: &str) -> Response {
    (status, [(header::RETRY_AFTER, "2")], Json(json!({ "detail": detail }))).into_response()
}

fn problem(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({ "detail": detail }))).into_response()
}

/// Effects on a database that has Earmark's tables.
pub async fn earmark(url: &str, warehouse: Warehouse) -> Result<Earmark, Box<dyn std::error::Error>> {
    let store = ClaimStore::connect(url, StoreOptions::new(Duration::from_secs(60))).await?;
    Ok(Earmark::builder(store).effect(warehouse).build()?)
}

#[tokio::main]
#[allow(dead_code)] // the tests include this file and start the service themselves
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = "sqlite://orders.sqlite?mode=rwc";
    let db = sea_orm::Database::connect(url).await?;
    earmark_migrations::run(&db, &earmark_migrations::Options::default()).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(earmark(url, Warehouse::default()).await?)).await?;
    Ok(())
}
