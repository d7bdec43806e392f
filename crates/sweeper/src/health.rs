//! Metrics and health over HTTP, on the loopback unless the configuration says otherwise. Answers are a word: nobody is asked who they
//! are, so nothing is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use earmark_claim::ClaimKey;
use earmark_sweeper::telemetry::OpenGauges;
use earmark_sweeper::{Schedule, Sweeper};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The gauges of open claims cost one read of all open claims.
const GAUGES_EVERY: Duration = Duration::from_secs(60);
/// Longer than this a probe of an orchestrator does not wait either.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// What health is asked of.
pub(crate) struct Health {
    pub(crate) sweeper: Sweeper,
    pub(crate) schedule: Schedule,
    /// A pass that finishes no claim for longer than a lease hangs.
    pub(crate) lease: Duration,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) stop: CancellationToken,
    pub(crate) gauges: Mutex<Gauges>,
}

/// The gauges, and when they were last read.
#[derive(Default)]
pub(crate) struct Gauges {
    open: OpenGauges,
    tried: Option<Instant>,
}

/// The routes.
pub(crate) fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/healthz/sweeper", get(sweeper))
        .route("/metrics", get(metrics))
        .with_state(health)
}

/// The database can be reached, and its tables have every column that is read here.
async fn ready(State(health): State<Arc<Health>>) -> (StatusCode, &'static str) {
    if health.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    let Ok(nobody) = ClaimKey::new("earmark", "readyz") else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "a bug\n");
    };
    let read = health.sweeper.earmark().store().find(&nobody);
    match tokio::time::timeout(DATABASE_TIMEOUT, read).await {
        Ok(Ok(_)) => (StatusCode::OK, "ok\n"),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the claims cannot be read\n"),
    }
}

/// Passes are made on time. For alerts; a restart mends no database, so no restart probe should ask this.
async fn sweeper(State(health): State<Arc<Health>>) -> (StatusCode, &'static str) {
    let vitals = health.sweeper.vitals();
    // A long pass is no silence as long as it gets on.
    let gets_on = vitals
        .since_progress
        .is_some_and(|since| !health.schedule.is_overdue(since.saturating_sub(health.lease)));
    if gets_on || !health.schedule.is_overdue(vitals.since_success) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no pass has succeeded for three intervals\n")
    }
}

async fn metrics(State(health): State<Arc<Health>>) -> impl IntoResponse {
    refresh(&health).await;
    health.metrics.run_upkeep();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], health.metrics.render())
}

/// At most once a minute, whoever scrapes and however often. A database that is away leaves the last numbers and their moment.
async fn refresh(health: &Health) {
    let Ok(mut gauges) = health.gauges.try_lock() else { return };
    if gauges.tried.is_some_and(|tried| tried.elapsed() < GAUGES_EVERY) {
        return;
    }
    gauges.tried = Some(Instant::now());
    let read = health.sweeper.earmark().store().open_tallies();
    match tokio::time::timeout(DATABASE_TIMEOUT * 5, read).await {
        Ok(Ok(tallies)) => gauges.open.set(&tallies),
        Ok(Err(error)) => {
            let error = earmark_claim::failure::chain(&error);
            tracing::debug!(error, "open claims cannot be counted");
        }
        Err(_) => tracing::debug!("open claims cannot be counted in time"),
    }
}
