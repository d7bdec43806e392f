//! `earmark run`: the sidecar.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use earmark_effects::telemetry::ATTEMPT_SECONDS;
use earmark_sweeper::config::Config;
use earmark_sweeper::{Schedule, telemetry};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::common::{Common, duration, either, open};
use super::exit::{Ended, Exit};
use super::setup;
use crate::health::{Gauges, Health, router};

/// Sweeps on schedule, purges where a retention is configured, and serves /metrics, /livez, /readyz and /healthz/sweeper, until SIGTERM or SIGINT.
///
/// It performs and looks for claims of form http/1, whoever made them. For others it does what needs no code: it puts them in doubt when
/// their lease is over, and hands them to a person when nothing is left to try.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark run --config /etc/earmark.toml\n  EARMARK_DATABASE_URL=postgres://shop@db/shop earmark run\n\n\
    A first SIGTERM or SIGINT begins no new work and waits for the calls under way; a second one ends at once (130)."
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// How long calls under way may take to settle after a signal. What is left then becomes in doubt at the end of its lease.
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    grace: Duration,
}

/// Of histograms: from a local database to a slow provider.
const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.common.load()?;
    // Before anything is counted.
    let metrics = recorder()?;
    telemetry::start();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let schedule = setup::schedule(&config)?;
    let listener = listen(&config).await?;
    let store = open(&config).await?;
    let earmark = setup::earmark(&config, store.clone())?;
    let sweeper = setup::sweeper(&config, &earmark)?;
    let purge_schedule = Schedule::cron(&config.purge.schedule)?;
    let purger = setup::purger(&config.purge, &earmark)?;

    let (stop, served) = (CancellationToken::new(), CancellationToken::new());
    let health = Arc::new(Health {
        sweeper: sweeper.clone(),
        schedule: schedule.clone(),
        lease: config.sweep.lease,
        metrics,
        stop: stop.clone(),
        gauges: tokio::sync::Mutex::new(Gauges::default()),
    });
    let address = listener.local_addr()?;
    let serving =
        axum::serve(listener, router(health)).with_graceful_shutdown(served.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    let mut sweeping = {
        let stop = stop.clone();
        tokio::spawn(async move { sweeper.run(&schedule, stop).await })
    };
    // It ends after the batch under way; a failure is logged, and the sweep goes on without it.
    let purging = purger.map(|purger| {
        telemetry::start_purge();
        let stop = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = purger.run(&purge_schedule, stop).await {
                tracing::error!(%error, "nothing is purged");
            }
        })
    });
    tracing::info!(%address, database = config.database.url.redacted(), "sweeping");

    tokio::select! {
        () = either(&mut term, &mut int) => {}
        ended = &mut sweeping => {
            ended.context("the sweeper's task")??;
            anyhow::bail!("the sweeper has ended by itself");
        }
    }
    stop.cancel();
    tracing::info!(grace = ?args.grace, "stopping: no new work is begun; a second signal ends at once");
    let drained = async {
        let until = Instant::now() + args.grace;
        // Its metronome and the pass under way.
        let _ = tokio::time::timeout(args.grace, &mut sweeping).await;
        if let Some(purging) = purging {
            let _ = tokio::time::timeout(until.saturating_duration_since(Instant::now()), purging).await;
        }
        let left = earmark.close(until.saturating_duration_since(Instant::now())).await;
        if left > 0 {
            tracing::warn!(
                left,
                "calls are still under way: their claims become in doubt at the end of their leases"
            );
        }
        served.cancel();
        // Both end by themselves where nothing hangs.
        let closing = async {
            store.close().await;
            let _ = serving.await;
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    };
    tokio::select! {
        () = drained => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        () = either(&mut term, &mut int) => Ok(Exit::Interrupted.into()),
    }
}

/// For closing connections: to the database, and of a scrape that is being read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

async fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let address = config.listen.address;
    TcpListener::bind(address).await.map_err(|error| {
        Ended::usage(format!(
            "listen.address: {address} cannot be listened on ({error}); choose another, or stop who has it"
        ))
    })
}

fn recorder() -> anyhow::Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for name in [telemetry::SECONDS, telemetry::PURGE_SECONDS, ATTEMPT_SECONDS] {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &SECONDS)?;
    }
    Ok(builder.install_recorder()?)
}
