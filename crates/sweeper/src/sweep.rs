//! One bounded pass over what is due: doubt, then decide, then expire, perform, look or escalate.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use earmark_claim::policy::{Act, Cause, decide};
use earmark_claim::state::Taking;
use earmark_claim::{ClaimKey, ClaimView, State};
use earmark_effects::{Earmark, Retaken};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::telemetry;

/// How a sweeper works. Several may sweep one database side by side: rows are taken by an update that repeats state, fence and token, and there
/// is no leader.
#[derive(Clone, Debug)]
pub struct SweeperOptions {
    /// Its name in heartbeats; several sweepers of one name overwrite each other's. Default: `sweeper`.
    pub name: String,
    /// Most claims of one pass. Default 500: some seconds of calls, so that a stop is soon.
    pub batch_max: usize,
    /// Most claims of one pair of tenant and consumer in one pass. Default 100: no pair fills a pass alone while others wait.
    pub share_max: u32,
    /// Calls under way at once. Default 16.
    pub concurrency: usize,
    /// For how long a claim that this sweeper cannot handle, or that keeps failing, steps aside. Default 60 s.
    pub aside_for: Duration,
}

impl Default for SweeperOptions {
    fn default() -> Self {
        Self {
            name: "sweeper".into(),
            batch_max: 500,
            share_max: 100,
            concurrency: 16,
            aside_for: Duration::from_secs(60),
        }
    }
}

impl SweeperOptions {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: &str| {
            if !ok {
                faults.push(fault.to_owned());
            }
        };
        check(!self.name.is_empty() && self.name.len() <= 128, "the sweeper's name must have 1 to 128 bytes");
        check(self.batch_max > 0, "batch_max is zero: nothing would ever be swept");
        check(self.share_max > 0, "share_max is zero: nothing would ever be swept");
        check(self.concurrency > 0, "concurrency is zero: nothing would ever be swept");
        check(!self.aside_for.is_zero(), "aside_for is zero: a poisonous row would be tried in every pass");
        faults
    }
}

/// Takes over claims that nobody settled, by rule. Cheap to clone.
#[derive(Clone)]
pub struct Sweeper {
    inner: Arc<Inner>,
}

struct Inner {
    earmark: Earmark,
    options: SweeperOptions,
    /// One pass at a time here; across processes passes may overlap.
    busy: tokio::sync::Mutex<()>,
    /// Claims that step aside, and until when.
    aside: Mutex<HashMap<ClaimKey, Instant>>,
    /// Causes that have been logged, and when: one line per cause, not per claim.
    causes: Mutex<HashMap<String, Instant>>,
    passes: AtomicU64,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pass {
    /// Due claims that were read.
    pub due: u64,
    /// Leases over: into doubt.
    pub doubted: u64,
    /// Send-by passed.
    pub expired: u64,
    /// Begun, tried again or redriven.
    pub performed: u64,
    /// Looks of probes.
    pub looked: u64,
    /// Handed to a person.
    pub escalated: u64,
    /// Confirmed in this pass, by a call or a look.
    pub confirmed: u64,
    /// Left to a process that has their code.
    pub left: u64,
    /// Failed: they step aside and are tried again.
    pub failed: u64,
}

impl Pass {
    fn add(&mut self, other: Self) {
        self.due += other.due;
        self.doubted += other.doubted;
        self.expired += other.expired;
        self.performed += other.performed;
        self.looked += other.looked;
        self.escalated += other.escalated;
        self.confirmed += other.confirmed;
        self.left += other.left;
        self.failed += other.failed;
    }
}

/// Most claims that step aside at once: beyond that the oldest return. Bounds memory, and the rows that a pass reads to pass over.
const ASIDE_MAX: usize = 10_000;
/// A cause is logged again after that long.
const CAUSE_EVERY: Duration = Duration::from_secs(3600);
/// In doubt, then one act: no claim needs more steps in a pass.
const STEPS_MAX: usize = 3;

impl Sweeper {
    /// A sweeper of the claims that `earmark` can perform; for others it does what needs no code.
    ///
    /// # Errors
    /// [`Error::Config`] with every fault.
    pub fn new(earmark: &Earmark, options: SweeperOptions) -> Result<Self, Error> {
        let faults = options.faults();
        if !faults.is_empty() {
            return Err(Error::Config(faults));
        }
        let inner = Inner {
            earmark: earmark.clone(),
            options,
            busy: tokio::sync::Mutex::new(()),
            aside: Mutex::default(),
            causes: Mutex::default(),
            passes: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The effects that it performs.
    pub fn earmark(&self) -> &Earmark {
        &self.inner.earmark
    }

    /// One pass, unless one is running in this process. Safe beside passes of other processes.
    ///
    /// # Errors
    /// [`Error::Store`] when what is due cannot be read.
    pub async fn try_run_once(&self, stop: &CancellationToken) -> Result<Option<Pass>, Error> {
        match self.inner.busy.try_lock() {
            Ok(_running) => self.pass(stop).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// One pass, after the one that may be running in this process.
    ///
    /// # Errors
    /// As [`Sweeper::try_run_once`].
    pub async fn run_once(&self) -> Result<Pass, Error> {
        let _running = self.inner.busy.lock().await;
        self.pass(&CancellationToken::new()).await
    }

    async fn pass(&self, stop: &CancellationToken) -> Result<Pass, Error> {
        let begun = Instant::now();
        let Inner { earmark, options, .. } = &*self.inner;
        let due = earmark.store().due(options.share_max, options.batch_max, self.aside()).await?;
        let mut pass = Pass { due: due.len() as u64, ..Pass::default() };
        let free = Arc::new(Semaphore::new(options.concurrency));
        let mut running = JoinSet::new();
        for key in due {
            // Nothing new is begun once a stop is asked for; what is under way is settled.
            let Ok(place) = free.clone().acquire_owned().await else { break };
            if stop.is_cancelled() {
                break;
            }
            let this = self.clone();
            running.spawn(async move {
                let done = this.handle(&key).await;
                drop(place);
                done
            });
        }
        while let Some(done) = running.join_next().await {
            // A panic of ours costs one claim one pass, never the sweeper.
            pass.add(done.unwrap_or(Pass { failed: 1, ..Pass::default() }));
        }
        let passes = self.inner.passes.fetch_add(1, Ordering::Relaxed) + 1;
        earmark.store().heartbeat(&options.name, env!("CARGO_PKG_VERSION"), passes).await?;
        telemetry::passed(&pass, begun.elapsed());
        Ok(pass)
    }

    /// One claim: what it needs, as far as this process can.
    async fn handle(&self, key: &ClaimKey) -> Pass {
        let mut done = Pass::default();
        if let Err(error) = self.steps(key, &mut done).await {
            done.failed += 1;
            self.step_aside(key);
            let error = earmark_claim::failure::chain(&error);
            tracing::warn!(%key, error, "a due claim could not be handled; it steps aside and is tried again");
        }
        done
    }

    async fn steps(&self, key: &ClaimKey, done: &mut Pass) -> Result<(), Error> {
        let earmark = &self.inner.earmark;
        let store = earmark.store();
        for _ in 0..STEPS_MAX {
            let Some(view) = store.find(key).await? else { return Ok(()) };
            let facts = earmark.judged(&view);
            match decide(&facts, store.room(facts.declared.call_timeout)) {
                Act::Nothing => return Ok(()),
                Act::Doubt => {
                    if store.lease_over(key).await?.is_none() {
                        return Ok(());
                    }
                    done.doubted += 1;
                    // In doubt now: decide again.
                }
                Act::Expire => {
                    done.expired += u64::from(store.expire_due(key).await?.is_some());
                    return Ok(());
                }
                Act::Perform(how) if earmark.can_perform(&view) => {
                    return self.perform(&view, how, done).await;
                }
                Act::Look if earmark.can_look(&view) => {
                    done.looked += 1;
                    done.confirmed += u64::from(earmark.look(&view).await? == State::Confirmed);
                    return Ok(());
                }
                Act::Perform(_) | Act::Look => {
                    done.left += 1;
                    self.step_aside(key);
                    return Ok(());
                }
                Act::Escalate(cause) => {
                    store.escalate(key, cause, None, earmark.registered(&view).as_ref()).await?;
                    done.escalated += 1;
                    self.report_cause(&view, cause);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn perform(&self, view: &ClaimView, how: Taking, done: &mut Pass) -> Result<(), Error> {
        match self.inner.earmark.retake(&view.key, how).await? {
            Retaken::Performed(outcome) => {
                done.performed += 1;
                done.confirmed += u64::from(outcome.is_confirmed());
            }
            Retaken::Refused(why) => {
                let why = earmark_claim::failure::chain(&why);
                tracing::debug!(key = %view.key, why, "not taken");
                self.step_aside(&view.key);
            }
            // Another sweeper, or the service itself, is at it.
            Retaken::Missing => {}
        }
        Ok(())
    }

    fn aside(&self) -> HashSet<ClaimKey> {
        let mut aside = self.inner.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        aside.retain(|_, until| *until > now);
        aside.keys().cloned().collect()
    }

    fn step_aside(&self, key: &ClaimKey) {
        let mut aside = self.inner.aside.lock().unwrap_or_else(PoisonError::into_inner);
        if aside.len() >= ASIDE_MAX
            && let Some(first) = aside.iter().min_by_key(|(_, until)| **until).map(|(key, _)| key.clone())
        {
            aside.remove(&first);
        }
        aside.insert(key.clone(), Instant::now() + self.inner.options.aside_for);
    }

    /// One line per cause: ten thousand claims of one outage are one message.
    fn report_cause(&self, view: &ClaimView, cause: Cause) {
        let class = view.facts.error_class.as_ref().map_or("none", |c| c.as_str());
        telemetry::escalated(view, cause);
        let group = format!("{}/{}/{class}/{}", view.downstream, view.kind, cause.as_str());
        let mut causes = self.inner.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        causes.retain(|_, at| now.duration_since(*at) < CAUSE_EVERY);
        if causes.insert(group, now).is_none() {
            tracing::error!(
                downstream = view.downstream,
                kind = view.kind,
                error_class = class,
                cause = cause.as_str(),
                first = %view.reference,
                "claims go to a person; see the report for all of this cause"
            );
        }
    }
}
