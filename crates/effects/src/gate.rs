//! Whether a downstream may be called now: a person's pause, a breaker that is open, limits that are reached.
//!
//! Asked before a claim is made or taken, so that no wait shortens the time to send and no connection is held while waiting. Whoever is
//! not let through leaves its claim to the sweep: nothing is lost, and nothing is called. **Breaker and limits are of this process**; only
//! a pause is a row that every process obeys.

mod breaker;
mod bucket;
mod limits;
mod pauses;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use earmark_claim::{ErrorClass, Failure, Receipt, Verdict};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::telemetry;
use breaker::{Admits, Breaker};
use bucket::{Bucket, Slot};
pub use limits::Limits;
use pauses::Pauses;

/// Why a downstream is not to be called now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// A person has paused it, until a person resumes it.
    Paused,
    /// It fails in a row: one call in each interval goes through, until one is answered.
    Failing {
        /// Until the next of them.
        next_in: Duration,
    },
    /// This process calls it as often, or as many times at once, as it may.
    Limited {
        /// Until the next call that would be let through, where that is known.
        next_in: Duration,
    },
}

impl Halt {
    /// When it is worth another look.
    pub(crate) fn due_in(self) -> Duration {
        match self {
            Self::Paused => Duration::ZERO,
            Self::Failing { next_in } | Self::Limited { next_in } => next_in,
        }
    }

    /// A short stable word, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Failing { .. } => "failing",
            Self::Limited { .. } => "limited",
        }
    }
}

/// For how long a sweep waits for a limit: a pass has other downstreams to serve.
const SWEEP_PATIENCE: Duration = Duration::from_secs(1);
/// Names that are remembered. They come from rows, of which a database may hold any number.
const GATES_MAX: usize = 10_000;

/// One downstream in this process.
pub(crate) struct Gate {
    downstream: String,
    limits: Limits,
    began: Instant,
    paused: AtomicBool,
    /// The failures in a row that the breaker has counted, so that nobody locks it while all is well.
    failing: AtomicU32,
    breaker: Mutex<Breaker>,
    bucket: Option<Bucket>,
    places: Option<Arc<Semaphore>>,
}

impl Gate {
    pub(crate) fn new(downstream: &str, limits: &Limits) -> Self {
        Self {
            downstream: downstream.to_owned(),
            began: Instant::now(),
            paused: AtomicBool::new(false),
            failing: AtomicU32::new(0),
            breaker: Mutex::new(Breaker::new(limits.breaker_failures, limits.breaker_sample_every)),
            bucket: limits.calls_per_second.map(|rate| Bucket::new(rate, limits.burst)),
            places: limits.concurrent_calls.map(|n| Arc::new(Semaphore::new(n as usize))),
            limits: limits.clone(),
        }
    }

    /// Lets one call through, once its limits allow it and if that is soon enough.
    pub(crate) async fn admit(self: &Arc<Self>, patience: Duration) -> Result<Pass, Halt> {
        // Nobody waits for the limits of what is not to be called.
        self.halted().map_or(Ok(()), Err)?;
        let mut pass = self.within_limits(patience).await?;
        if self.paused.load(Ordering::Acquire) {
            return Err(Halt::Paused);
        }
        if self.failing.load(Ordering::Acquire) >= self.limits.breaker_failures {
            match self.breaker().admits(self.now()) {
                Admits::Yes => {}
                Admits::Sample => pass.sample = true,
                Admits::Not { next_in } => return Err(Halt::Failing { next_in }),
            }
        }
        Ok(pass)
    }

    /// The same for a question to the provider. The breaker does not stop it: it is what ends a doubt, and has a schedule of its own.
    pub(crate) async fn admit_look(self: &Arc<Self>) -> Result<Pass, Halt> {
        if self.paused.load(Ordering::Acquire) {
            return Err(Halt::Paused);
        }
        let pass = self.within_limits(SWEEP_PATIENCE).await?;
        if self.paused.load(Ordering::Acquire) { Err(Halt::Paused) } else { Ok(pass) }
    }

    /// Paused, or failing and not to be sampled yet. Takes nothing.
    pub(crate) fn halted(&self) -> Option<Halt> {
        if self.paused.load(Ordering::Acquire) {
            return Some(Halt::Paused);
        }
        if self.failing.load(Ordering::Acquire) < self.limits.breaker_failures {
            return None;
        }
        self.breaker().rests(self.now()).map(|next_in| Halt::Failing { next_in })
    }

    /// Whether calls fail in a row, a sample that is due or not.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire) >= self.limits.breaker_failures
    }

    async fn within_limits(self: &Arc<Self>, patience: Duration) -> Result<Pass, Halt> {
        let pass =
            Pass { gate: self.clone(), place: None, slot: None, sample: false, waited: false, used: false };
        if self.places.is_none() && self.bucket.is_none() {
            return Ok(pass);
        }
        // Apart, since a future is moved about with all that it may ever hold.
        Box::pin(self.wait(pass, patience)).await
    }

    /// Waits for a place and a turn, together at most for `patience`. No lock and no connection is held meanwhile.
    async fn wait(&self, mut pass: Pass, patience: Duration) -> Result<Pass, Halt> {
        let asked = self.now();
        if let Some(places) = &self.places {
            pass.place = match places.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => {
                    pass.waited = true;
                    let place = tokio::time::timeout(patience, places.clone().acquire_owned()).await;
                    Some(place.ok().and_then(Result::ok).ok_or(Halt::Limited { next_in: Duration::ZERO })?)
                }
            };
        }
        if let Some(bucket) = &self.bucket {
            let now = self.now();
            let slot = bucket.take(now, patience.saturating_sub(now.saturating_sub(asked)));
            let slot = slot.map_err(|next_in| Halt::Limited { next_in })?;
            let turn_in = slot.at.saturating_sub(now);
            pass.slot = Some(slot);
            if !turn_in.is_zero() {
                pass.waited = true;
                tokio::time::sleep(turn_in).await;
            }
        }
        Ok(pass)
    }

    /// What a call said about the provider.
    fn heard(&self, outcome: &Result<Receipt, Failure>) {
        match says(outcome) {
            Says::Answers if self.failing.load(Ordering::Acquire) == 0 => {}
            Says::Answers => {
                let mut breaker = self.breaker();
                let closes = breaker.answered();
                self.failing.store(breaker.failures(), Ordering::Release);
                drop(breaker);
                if closes {
                    tracing::info!(downstream = self.downstream, "answers again");
                    self.breaker_gauge(0.0);
                }
            }
            Says::Fails => {
                let mut breaker = self.breaker();
                let opens = breaker.failed(self.now());
                self.failing.store(breaker.failures(), Ordering::Release);
                drop(breaker);
                if opens {
                    tracing::warn!(
                        downstream = self.downstream,
                        every = ?self.limits.breaker_sample_every,
                        "fails in a row: one call in each interval goes through until one is answered"
                    );
                    self.breaker_gauge(1.0);
                }
            }
            Says::Nothing => {}
        }
    }

    fn breaker_gauge(&self, open: f64) {
        metrics::gauge!(telemetry::BREAKER_OPEN, "downstream" => self.downstream.clone()).set(open);
    }

    fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    pub(crate) fn downstream(&self) -> &str {
        &self.downstream
    }

    /// How long `run` waits for a limit.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience
    }

    /// How long a sweep waits for a limit.
    pub(crate) fn sweep_patience(&self) -> Duration {
        self.limits.patience.min(SWEEP_PATIENCE)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of nobody.
impl Default for Gate {
    fn default() -> Self {
        Self::new("", &Limits::default())
    }
}

/// What an outcome says about the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Answers,
    Fails,
    /// It was never reached, for a reason of ours.
    Nothing,
}

fn says(outcome: &Result<Receipt, Failure>) -> Says {
    let failure = match outcome {
        Ok(_) => return Says::Answers,
        Err(failure) => failure,
    };
    // Ours, and of this claim alone: too late, or a request that cannot be built or sent.
    let ours = [ErrorClass::TOO_LATE, "before_send"].contains(&failure.class.as_str());
    match failure.verdict {
        Verdict::Refused { .. } => Says::Answers,
        // "Accepted" with an id is an answer, too.
        Verdict::Unknown if failure.provider_ref.is_some() => Says::Answers,
        Verdict::NotSent if ours || failure.class.no_retry_mends() => Says::Nothing,
        Verdict::NotSent | Verdict::Unknown => Says::Fails,
    }
}

/// One call that may be made. Dropped without being used, it takes nothing: a duplicate costs no place, no turn and no sample.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    place: Option<OwnedSemaphorePermit>,
    slot: Option<Slot>,
    sample: bool,
    waited: bool,
    used: bool,
}

impl Pass {
    /// Whether time has passed since it was asked for.
    pub(crate) fn waited(&self) -> bool {
        self.waited
    }

    /// The call is made now.
    pub(crate) fn begin(&mut self) {
        self.used = true;
    }

    /// The call has ended: the place is free.
    pub(crate) fn end(mut self, outcome: &Result<Receipt, Failure>) {
        self.used = true;
        self.gate.heard(outcome);
        self.place = None;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        if let (Some(slot), Some(bucket)) = (self.slot.take(), &self.gate.bucket) {
            bucket.give_back(slot);
        }
        if self.sample {
            self.gate.breaker().not_sampled(self.gate.now());
        }
    }
}

/// Every downstream in this process, and the pauses that it knows of.
pub(crate) struct Gates {
    limits: BTreeMap<String, Limits>,
    known: RwLock<Known>,
    pauses: Pauses,
}

#[derive(Default)]
struct Known {
    gates: HashMap<String, Arc<Gate>>,
    paused: HashSet<String>,
}

impl Gates {
    pub(crate) fn new(limits: BTreeMap<String, Limits>, pauses_every: Duration) -> Self {
        Self { limits, known: RwLock::default(), pauses: Pauses::new(pauses_every) }
    }

    /// The gate of a downstream.
    pub(crate) fn of(&self, downstream: &str) -> Arc<Gate> {
        if let Some(gate) = self.read().gates.get(downstream) {
            return gate.clone();
        }
        let mut known = self.write();
        if let Some(gate) = known.gates.get(downstream) {
            return gate.clone();
        }
        let limits = self.limits.get(downstream).cloned().unwrap_or_default();
        let gate = Arc::new(Gate::new(downstream, &limits));
        gate.set_paused(known.paused.contains(downstream));
        // Beyond that a name is a stranger every time: paused it is, but nothing is counted.
        if known.gates.len() < GATES_MAX {
            known.gates.insert(downstream.to_owned(), gate.clone());
        }
        gate
    }

    /// What the rows say now.
    fn set_paused(&self, now: HashSet<String>) {
        let mut known = self.write();
        for downstream in known.paused.symmetric_difference(&now) {
            let paused = now.contains(downstream);
            if let Some(gate) = known.gates.get(downstream) {
                gate.set_paused(paused);
            }
            if paused {
                tracing::warn!(downstream, "paused by a person: nothing is sent there until it is resumed");
            } else {
                tracing::info!(downstream, "resumed");
            }
            metrics::gauge!(telemetry::PAUSED, "downstream" => downstream.clone()).set(if paused {
                1.0
            } else {
                0.0
            });
        }
        known.paused = now;
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
