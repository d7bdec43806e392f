//! The metronome. The only file that knows tokio-cron-scheduler.
//!
//! The scheduler overlaps slow jobs, forgets jobs after a stall, and stops without waiting; so its one job only strikes, and the loop here
//! decides: one pass at a time, a pass of its own when the metronome falls silent, an orderly end.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::purge::Purger;
use crate::sweep::Sweeper;

/// After so many strikes that were not heard the loop sweeps by itself, and says so.
const SILENT_STRIKES: u32 = 3;
/// The scheduler polls twice a second; and passes begin with a random wait.
const LATE: Duration = Duration::from_secs(1);

/// When to sweep: a cron expression of six fields (seconds first), in UTC.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    cron: Cron,
}

impl Schedule {
    /// By a cron expression of six fields: second, minute, hour, day, month and weekday, in UTC.
    ///
    /// # Errors
    /// [`Error::Schedule`] for what is no such expression, or never strikes.
    pub fn cron(text: &str) -> Result<Self, Error> {
        let fields = text.split_whitespace().count();
        if fields != 6 {
            return Err(Error::Schedule(format!("has {fields} fields instead of 6")));
        }
        let wrong = || Error::Schedule(format!("{text:?} is not a cron expression"));
        // Asked of the scheduler, too, so that what is accepted here is what it runs.
        Job::new(text, |_, _| {}).map_err(|_| wrong())?;
        let parser = CronParser::builder().seconds(Seconds::Required).dom_and_dow(true).build();
        let schedule = Self { text: text.to_owned(), cron: parser.parse(text).map_err(|_| wrong())? };
        match schedule.strike(Utc::now(), 1) {
            Some(_) => Ok(schedule),
            None => Err(Error::Schedule(format!("{text:?} never strikes"))),
        }
    }

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
        Self::cron(&cron)
    }

    /// Whether a sweeper that last succeeded that long ago has missed three strikes.
    pub fn is_overdue(&self, since_success: Duration) -> bool {
        let now = Utc::now();
        let last = chrono::TimeDelta::from_std(since_success).ok().and_then(|d| now.checked_sub_signed(d));
        last.and_then(|last| self.strike(last, SILENT_STRIKES)).is_some_and(|third| third + LATE < now)
    }

    /// How long until the n-th strike from now.
    fn until(&self, n: u32) -> Duration {
        let now = Utc::now();
        // An expression that was good and strikes no more: look again in an hour.
        self.strike(now, n).map_or(Duration::from_secs(3600), |at| (at - now).to_std().unwrap_or_default())
    }

    /// The n-th strike after a moment.
    fn strike(&self, after: DateTime<Utc>, n: u32) -> Option<DateTime<Utc>> {
        (0..n).try_fold(after, |at, _| self.cron.find_next_occurrence(&at, false).ok())
    }
}

impl Sweeper {
    /// Sweeps on schedule until `stop`, then ends after the pass under way. Each pass begins with a small random wait, so that sweepers started
    /// together do not stay in step. A pass that fails is logged and counted, and the next one is made on time.
    ///
    /// # Errors
    /// [`Error::Schedule`] when the scheduler cannot be started.
    pub async fn run(&self, schedule: &Schedule, stop: CancellationToken) -> Result<(), Error> {
        // What a crash left behind is not made to wait for the first strike.
        let mut metronome = Metronome::start(schedule, true).await?;
        while metronome.strikes(&stop).await {
            match self.try_run_once(&stop).await {
                Ok(Some(pass)) if pass.due > 0 => tracing::info!(?pass, "swept"),
                Ok(Some(_)) => tracing::debug!("nothing due"),
                Ok(None) => tracing::debug!("a pass is running already"),
                // Counted and logged where it failed.
                Err(_) => {}
            }
        }
        metronome.end().await;
        Ok(())
    }
}

impl Purger {
    /// Purges on schedule until `stop`, then ends after the batch under way. A run that fails is logged and counted, and the next one goes on.
    ///
    /// # Errors
    /// [`Error::Schedule`] when the scheduler cannot be started.
    pub async fn run(&self, schedule: &Schedule, stop: CancellationToken) -> Result<(), Error> {
        let mut metronome = Metronome::start(schedule, false).await?;
        while metronome.strikes(&stop).await {
            match self.run_once(&stop, |_| {}).await {
                Ok(purged) => tracing::info!(?purged, "purged"),
                Err(error) => {
                    let error = earmark_claim::failure::chain(&error);
                    tracing::error!(error, "a purge failed; the next one goes on where it stopped");
                }
            }
        }
        metronome.end().await;
        Ok(())
    }
}

/// A schedule that strikes, and goes on by itself when the scheduler does not.
struct Metronome<'a> {
    schedule: &'a Schedule,
    strike: Arc<Notify>,
    scheduler: Option<JobScheduler>,
}

impl<'a> Metronome<'a> {
    /// `at_once`: the first strike does not wait for its time.
    async fn start(schedule: &'a Schedule, at_once: bool) -> Result<Self, Error> {
        let strike = Arc::new(Notify::new());
        if at_once {
            strike.notify_one();
        }
        let scheduler = Some(start(schedule, strike.clone()).await?);
        Ok(Self { schedule, strike, scheduler })
    }

    /// Waits for the next occasion; `false`: to stop.
    async fn strikes(&mut self, stop: &CancellationToken) -> bool {
        let Some(heard) = next(self.schedule, &self.strike, stop).await else { return false };
        if heard == Heard::Silence {
            tracing::error!("the scheduler has fallen silent; going on without it, and starting it again");
            end(self.scheduler.take()).await;
            match start(self.schedule, self.strike.clone()).await {
                Ok(new) => self.scheduler = Some(new),
                Err(error) => tracing::error!(%error, "the scheduler cannot be started again"),
            }
        }
        true
    }

    async fn end(self) {
        end(self.scheduler).await;
    }
}

/// Why a pass is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Strike,
    Silence,
}

/// Waits for the next occasion; `None`: to stop. Strikes during a pass are one occasion, however many.
async fn next(schedule: &Schedule, strike: &Notify, stop: &CancellationToken) -> Option<Heard> {
    let heard = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        () = strike.notified() => Heard::Strike,
        () = tokio::time::sleep(schedule.until(SILENT_STRIKES) + LATE) => Heard::Silence,
    };
    let jitter = (schedule.until(1) / 10).mul_f64(fastrand::f64()).min(LATE);
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        () = tokio::time::sleep(jitter) => Some(heard),
    }
}

async fn end(metronome: Option<JobScheduler>) {
    if let Some(mut metronome) = metronome {
        let _ = metronome.shutdown().await;
    }
}

async fn start(schedule: &Schedule, strike: Arc<Notify>) -> Result<JobScheduler, Error> {
    let failed = |e: tokio_cron_scheduler::JobSchedulerError| Error::Schedule(e.to_string());
    let scheduler = JobScheduler::new().await.map_err(failed)?;
    let job = Job::new_async(schedule.text.as_str(), move |_, _| {
        let strike = strike.clone();
        Box::pin(async move { strike.notify_one() })
    })
    .map_err(failed)?;
    scheduler.add(job).await.map_err(failed)?;
    scheduler.start().await.map_err(failed)?;
    Ok(scheduler)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_cron_cannot_strike_evenly_are_refused() {
        let cron = |secs| Schedule::every(Duration::from_secs(secs)).map(|s| s.text).ok();
        assert_eq!(cron(5).as_deref(), Some("*/5 * * * * *"));
        assert_eq!(cron(60).as_deref(), Some("0 * * * * *"));
        assert_eq!(cron(300).as_deref(), Some("0 */5 * * * *"));
        for uneven in [0, 7, 45, 61, 90, 420, 7200] {
            assert_eq!(cron(uneven), None, "{uneven}");
        }
        assert!(Schedule::every(Duration::from_millis(500)).is_err());
    }

    #[test]
    fn what_never_strikes_is_no_schedule() {
        for bad in ["", "* * * * *", "0 0 0 30 2 *", "x * * * * *", "61 * * * * *"] {
            assert!(Schedule::cron(bad).is_err(), "{bad}");
        }
        assert!(Schedule::cron("0 */5 9-17 * * MON-FRI").is_ok());
    }

    #[test]
    fn three_missed_strikes_are_overdue_whatever_the_gaps_between_them() {
        let schedule = Schedule::every(Duration::from_secs(10)).expect("a schedule");
        assert!(!schedule.is_overdue(Duration::from_secs(19)));
        assert!(schedule.is_overdue(Duration::from_secs(32)));
        let daily = Schedule::cron("0 30 2 * * *").expect("a schedule");
        assert!(!daily.is_overdue(Duration::from_secs(47 * 3600)));
        assert!(daily.is_overdue(Duration::from_secs(73 * 3600)));
    }

    #[tokio::test]
    async fn a_metronome_that_falls_silent_does_not_stop_the_sweep() {
        let schedule = Schedule::every(Duration::from_secs(1)).expect("a schedule");
        let (strike, stop) = (Notify::new(), CancellationToken::new());
        assert_eq!(next(&schedule, &strike, &stop).await, Some(Heard::Silence));
        strike.notify_one();
        assert_eq!(next(&schedule, &strike, &stop).await, Some(Heard::Strike));
        strike.notify_one();
        stop.cancel();
        assert_eq!(next(&schedule, &strike, &stop).await, None, "a stop comes first");
    }

    #[tokio::test]
    async fn strikes_during_a_slow_pass_make_one_more_pass() {
        let schedule = Schedule::every(Duration::from_secs(1)).expect("a schedule");
        let (strike, stop) = (Notify::new(), CancellationToken::new());
        for _ in 0..5 {
            strike.notify_one();
        }
        assert_eq!(next(&schedule, &strike, &stop).await, Some(Heard::Strike));
        assert_eq!(next(&schedule, &strike, &stop).await, Some(Heard::Silence));
    }
}
