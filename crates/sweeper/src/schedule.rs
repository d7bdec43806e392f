//! The metronome. The only file that knows tokio-cron-scheduler.
//!
//! The scheduler overlaps slow jobs, forgets jobs after a stall, and stops without waiting; so its one job only strikes, and the loop here
//! decides: one pass at a time, a pass of its own when the metronome falls silent, an orderly end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::sweep::Sweeper;
use crate::telemetry;

/// Without a strike for that many intervals the loop sweeps by itself, and says so.
const SILENCE_INTERVALS: u32 = 3;

/// When to sweep: a cron expression of six fields (seconds first), in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    cron: String,
    interval: Duration,
}

impl Schedule {
    /// Every so many seconds: a divisor of 60 below a minute, whole minutes that divide an hour above.
    ///
    /// # Errors
    /// [`Error::Schedule`] for an interval that cron cannot strike evenly.
    pub fn every(interval: Duration) -> Result<Self, Error> {
        let secs = interval.as_secs();
        let uneven = || {
            Error::Schedule(format!(
                "{interval:?} cannot be struck evenly: use 1 s to 30 s that divide a minute, or whole minutes that divide an hour"
            ))
        };
        if interval.subsec_nanos() != 0 || secs == 0 {
            return Err(uneven());
        }
        let cron = match secs {
            1..60 if 60 % secs == 0 => format!("*/{secs} * * * * *"),
            60 => "0 * * * * *".to_owned(),
            61..3600 if secs.is_multiple_of(60) && 3600 % secs == 0 => format!("0 */{} * * * *", secs / 60),
            3600 => "0 0 * * * *".to_owned(),
            _ => return Err(uneven()),
        };
        Ok(Self { cron, interval })
    }

    /// The longest time that should pass between two strikes.
    pub fn interval(&self) -> Duration {
        self.interval
    }
}

impl Sweeper {
    /// Sweeps on schedule until `stop`, then ends after the pass under way. Each pass begins with a small random wait, so that sweepers started
    /// together do not stay in step.
    ///
    /// # Errors
    /// [`Error::Schedule`] when the scheduler cannot be started. A pass that fails is logged and counted, and the next one is made on time.
    pub async fn run(&self, schedule: &Schedule, stop: CancellationToken) -> Result<(), Error> {
        let strike = Arc::new(Notify::new());
        let mut scheduler = metronome(schedule, strike.clone()).await?;
        // What a crash left behind is not made to wait for the first strike.
        strike.notify_one();
        let silence = schedule.interval * SILENCE_INTERVALS;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = strike.notified() => {}
                () = tokio::time::sleep(silence) => {
                    tracing::error!(silence = ?silence, "the scheduler has fallen silent; sweeping without it");
                }
            }
            let jitter = (schedule.interval / 10).mul_f64(fastrand::f64());
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(jitter) => {}
            }
            match self.try_run_once(&stop).await {
                Ok(Some(pass)) if pass.due > 0 => tracing::info!(?pass, "swept"),
                Ok(Some(_)) => tracing::debug!("nothing due"),
                Ok(None) => tracing::debug!("the last pass is still running"),
                Err(error) => {
                    telemetry::failed();
                    tracing::error!(
                        error = earmark_claim::failure::chain(&error),
                        "a pass failed; the next one is made on time"
                    );
                }
            }
        }
        let _ = scheduler.shutdown().await;
        Ok(())
    }
}

async fn metronome(schedule: &Schedule, strike: Arc<Notify>) -> Result<JobScheduler, Error> {
    let failed = |e: tokio_cron_scheduler::JobSchedulerError| Error::Schedule(e.to_string());
    let scheduler = JobScheduler::new().await.map_err(failed)?;
    let job = Job::new_async(schedule.cron.as_str(), move |_, _| {
        let strike = strike.clone();
        Box::pin(async move { strike.notify_one() })
    })
    .map_err(failed)?;
    scheduler.add(job).await.map_err(failed)?;
    scheduler.start().await.map_err(failed)?;
    Ok(scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_cron_cannot_strike_evenly_are_refused() {
        let cron = |secs| Schedule::every(Duration::from_secs(secs)).map(|s| s.cron).ok();
        assert_eq!(cron(5).as_deref(), Some("*/5 * * * * *"));
        assert_eq!(cron(60).as_deref(), Some("0 * * * * *"));
        assert_eq!(cron(300).as_deref(), Some("0 */5 * * * *"));
        for uneven in [0, 7, 45, 61, 90, 420, 7200] {
            assert_eq!(cron(uneven), None, "{uneven}");
        }
        assert!(Schedule::every(Duration::from_millis(500)).is_err());
    }
}
