//! The purge as a run: batch after batch to the end, throttled, and stepping aside for claims.
//!
//! Two things keep it out of the way. Between two batches it rests for so long that it uses at most its share of one connection's time; and
//! a batch grows and shrinks until it takes a few milliseconds, so that whoever waits for a lock or the one writer of SQLite waits no
//! longer than that, however large the requests are. It keeps no place of its own: a run that is stopped or killed is simply not
//! finished, and the next one goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use earmark_claim::{ClaimStore, Dialect, PurgeBatch, PurgePlan, PurgeRules, Timestamp, Tombstones};
use earmark_effects::Earmark;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::telemetry;

/// Purges what is finished and old. Cheap to clone.
#[derive(Clone)]
pub struct Purger {
    inner: Arc<Inner>,
}

struct Inner {
    store: ClaimStore,
    rules: PurgeRules,
    options: PurgeOptions,
    /// One run at a time here; across processes runs share the work.
    running: tokio::sync::Mutex<()>,
}

/// What is purged, and how fast.
#[derive(Clone, Debug)]
pub struct PurgeOptions {
    /// How long after it was closed a claim becomes a tombstone.
    pub retention: Duration,
    /// When tombstones are deleted; `None`, the default: never.
    pub tombstones: Option<Tombstones>,
    /// Most rows of one batch, that is of one transaction. Default 500.
    pub batch_max: u32,
    /// Most of one connection's time that is used, in percent. Default 10: claims then lose less than that of what the database can
    /// do, since a purge is one of many connections.
    pub share_percent: u32,
    /// Most rows in a second; `None`, the default: as many as the share allows.
    pub rows_per_second: Option<u32>,
}

/// What a run has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Purged {
    /// Claims that became tombstones.
    pub claims: u64,
    /// Tombstones that were deleted.
    pub deleted: u64,
    /// Events that went with either.
    pub events: u64,
    /// Signs of life of sweepers that are gone.
    pub sweepers: u64,
    /// Batches.
    pub batches: u64,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

/// The smallest batch: less is all overhead.
const BATCH_MIN: u32 = 10;
/// Longest that a batch waits for claims to pass, so that a service that is never idle is purged all the same.
const STEP_ASIDE_MAX: Duration = Duration::from_millis(100);
/// Between two looks whether claims have passed.
const STEP_ASIDE: Duration = Duration::from_millis(2);
/// A sweeper that gave no sign for a week is gone; its name never comes again where names are those of containers.
const SILENT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

impl PurgeOptions {
    /// With a retention; tombstones stay for ever.
    pub fn new(retention: Duration) -> Self {
        Self { retention, tombstones: None, batch_max: 500, share_percent: 10, rows_per_second: None }
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(BATCH_MIN..=10_000).contains(&self.batch_max) {
            faults.push(format!("batch_max is {}: use {BATCH_MIN} to 10000", self.batch_max));
        }
        if !(1..=100).contains(&self.share_percent) {
            faults.push(format!("share_percent is {}: use 1 to 100", self.share_percent));
        }
        if self.rows_per_second == Some(0) {
            faults.push("rows_per_second is zero: leave it out, or purge not at all".to_owned());
        }
        faults
    }
}

impl Purger {
    /// A purge of the claims in the store of `earmark`, whose effects' key windows its tombstones must outlive.
    ///
    /// # Errors
    /// [`Error::Config`] with every fault; [`Error::Store`] for ages that would free a key too early.
    pub fn new(earmark: &Earmark, options: PurgeOptions) -> Result<Self, Error> {
        let faults = options.faults();
        if !faults.is_empty() {
            return Err(Error::Config(faults));
        }
        let rules = PurgeRules::new(options.retention, options.tombstones, earmark.key_windows())?;
        let inner =
            Inner { store: earmark.store().clone(), rules, options, running: tokio::sync::Mutex::new(()) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What a run would take now. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Store`] when the database cannot be read.
    pub async fn plan(&self) -> Result<PurgePlan, Error> {
        Ok(self.inner.store.purge_plan(&self.inner.rules).await?)
    }

    /// One run to the end, or until `stop`, after the one that may be running in this process. Safe beside runs of other
    /// processes. `progress` is told after each batch.
    ///
    /// # Errors
    /// [`Error::Store`] when the database cannot be written; what was purged until then stays purged.
    pub async fn run_once(
        &self,
        stop: &CancellationToken,
        progress: impl FnMut(&Purged) + Send,
    ) -> Result<Purged, Error> {
        let _running = self.inner.running.lock().await;
        let begun = Instant::now();
        let done = self.to_the_end(stop, progress).await;
        telemetry::purge_ended(done.is_ok(), begun.elapsed());
        done
    }

    async fn to_the_end(
        &self,
        stop: &CancellationToken,
        mut progress: impl FnMut(&Purged) + Send,
    ) -> Result<Purged, Error> {
        let Inner { store, rules, options, .. } = &*self.inner;
        let mut pace = Pace::new(options, store.dialect());
        let mut purged = Purged::default();
        for phase in [Phase::Payload, Phase::Tombstones] {
            let mut from = Some(Timestamp::from_micros(0));
            while let Some(at) = from {
                if self.steps_aside(stop).await {
                    return Ok(Purged { stopped: true, ..purged });
                }
                let batch = match phase {
                    Phase::Payload => store.purge_batch(rules, at, pace.size).await?,
                    Phase::Tombstones => store.delete_tombstones(rules, at, pace.size).await?,
                };
                let PurgeBatch { claims, events, held, next, .. } = batch;
                match phase {
                    Phase::Payload => purged.claims += claims,
                    Phase::Tombstones => purged.deleted += claims,
                }
                purged.events += events;
                purged.batches += u64::from(claims > 0);
                telemetry::purged(phase.word(), claims, events);
                progress(&purged);
                from = next;
                if from.is_some() && !rested(pace.rest(held, claims), stop).await {
                    return Ok(Purged { stopped: true, ..purged });
                }
            }
        }
        purged.sweepers = store.forget_sweepers(SILENT_FOR).await?;
        Ok(purged)
    }

    /// Waits a little while claims of this process are under way; whether it is to stop.
    async fn steps_aside(&self, stop: &CancellationToken) -> bool {
        let begun = Instant::now();
        while self.inner.store.is_busy() && begun.elapsed() < STEP_ASIDE_MAX {
            if !rested(STEP_ASIDE, stop).await {
                break;
            }
        }
        stop.is_cancelled()
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Payload,
    Tombstones,
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Self::Payload => "purge",
            Self::Tombstones => "delete",
        }
    }
}

/// `false`: to stop.
async fn rested(pause: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = tokio::time::sleep(pause) => true,
    }
}

/// How large the next batch is, and how long to rest before it.
struct Pace {
    size: u32,
    size_max: u32,
    /// What a batch should take: whoever meets it waits for so long.
    target: Duration,
    share_percent: u32,
    rows_per_second: Option<u32>,
}

impl Pace {
    fn new(options: &PurgeOptions, dialect: Dialect) -> Self {
        let target = match dialect {
            Dialect::Postgres | Dialect::MySql => Duration::from_millis(50),
            // Every claim waits while it writes.
            Dialect::Sqlite => Duration::from_millis(10),
        };
        Self {
            // The first one is small: nobody knows yet how large the requests are.
            size: (options.batch_max / 5).max(BATCH_MIN),
            size_max: options.batch_max,
            target,
            share_percent: options.share_percent,
            rows_per_second: options.rows_per_second,
        }
    }

    fn rest(&mut self, took: Duration, rows: u64) -> Duration {
        if took > self.target {
            self.size = (self.size / 2).max(BATCH_MIN);
        } else if took < self.target / 2 {
            self.size = self.size.saturating_mul(2).min(self.size_max);
        }
        let shared = took.saturating_mul(100 - self.share_percent) / self.share_percent;
        let rate = self.rows_per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(rows as f64 / f64::from(rate)).saturating_sub(took)
        });
        shared.max(rate)
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    fn pace(share_percent: u32, rows_per_second: Option<u32>) -> Pace {
        let options =
            PurgeOptions { share_percent, rows_per_second, ..PurgeOptions::new(Duration::from_secs(1)) };
        Pace::new(&options, Dialect::Postgres)
    }

    #[test]
    fn it_rests_until_its_share_or_its_rate_is_kept() {
        let ms = Duration::from_millis;
        assert_eq!(pace(10, None).rest(ms(30), 500), ms(270));
        assert_eq!(pace(100, None).rest(ms(30), 500), Duration::ZERO);
        assert_eq!(pace(100, Some(1000)).rest(ms(30), 500), ms(470));
        assert_eq!(pace(10, Some(1_000_000)).rest(ms(30), 500), ms(270));
    }

    #[test]
    fn a_batch_shrinks_while_it_takes_long_and_grows_again() {
        let mut pace = pace(10, None);
        assert_eq!(pace.size, 100);
        for _ in 0..20 {
            pace.rest(Duration::from_secs(3), 1);
        }
        assert_eq!(pace.size, BATCH_MIN);
        for _ in 0..20 {
            pace.rest(Duration::from_millis(1), 1);
        }
        assert_eq!(pace.size, 500);
    }

    #[test]
    fn options_are_refused_whole() {
        let bad = PurgeOptions {
            batch_max: 0,
            share_percent: 101,
            rows_per_second: Some(0),
            ..PurgeOptions::new(Duration::from_secs(1))
        };
        assert_eq!(bad.faults().len(), 3);
    }
}
