//! One bounded pass over what is due: doubt, then decide, then expire, perform, look or escalate.

mod aside;
mod causes;
mod options;
mod vitals;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use earmark_claim::policy::{Act, Cause, decide};
use earmark_claim::state::{Refused, Taking};
use earmark_claim::{ClaimKey, ClaimView, Due, DueClaim, State, Walk};
use earmark_effects::{Earmark, Halt, Retaken};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::telemetry;
use aside::{Aside, lock};
use causes::Causes;
pub use options::{Pass, SweeperOptions};
use vitals::Life;
pub use vitals::Vitals;

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
    aside: Aside,
    causes: Causes,
    life: Life,
    passes: AtomicU64,
    /// Where the next pass begins.
    walk: Mutex<Walk>,
    /// Whether somebody else was at a claim of this pass.
    crowded: AtomicBool,
}

/// Read anew, in doubt, read anew, then one act: no claim needs more steps in a pass.
const STEPS_MAX: usize = 4;
/// The cause of passes that fail as a whole.
const PASS_FAILS: &str = "a pass fails";

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
            aside: Aside::default(),
            causes: Causes::default(),
            life: Life::new(),
            passes: AtomicU64::new(0),
            walk: Mutex::new(Walk::default()),
            crowded: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The effects that it performs.
    pub fn earmark(&self) -> &Earmark {
        &self.inner.earmark
    }

    /// Its signs of life.
    pub fn vitals(&self) -> Vitals {
        self.inner.life.vitals()
    }

    /// One pass, unless one is running in this process. Safe beside passes of other processes. Once `stop` is cancelled nothing new is
    /// begun; what is under way is settled.
    ///
    /// # Errors
    /// [`Error::Store`] when what is due cannot be read, or the heartbeat not be written.
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
        self.inner.life.progress();
        let done = self.bounded_pass(stop).await;
        self.inner.life.ended(done.is_ok());
        match &done {
            Ok(pass) => {
                telemetry::passed(pass, begun.elapsed());
                if self.inner.causes.is_over(PASS_FAILS) {
                    tracing::info!("passes succeed again");
                }
            }
            Err(error) => {
                telemetry::failed();
                if self.inner.causes.is_news(PASS_FAILS.to_owned()) {
                    let error = earmark_claim::failure::chain(error);
                    tracing::error!(
                        error,
                        "a pass failed; the next one is made on time, and only its success is reported"
                    );
                }
            }
        }
        done
    }

    async fn bounded_pass(&self, stop: &CancellationToken) -> Result<Pass, Error> {
        let Inner { earmark, options, .. } = &*self.inner;
        self.recall().await?;
        let due = self.due().await?;
        self.inner.crowded.store(false, Ordering::Relaxed);
        let mut pass = Pass { due: due.len() as u64, ..Pass::default() };
        let free = Arc::new(Semaphore::new(options.concurrency));
        let mut running = JoinSet::new();
        for DueClaim { key, view, .. } in due {
            let place = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                place = free.clone().acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            let (this, stop) = (self.clone(), stop.clone());
            running.spawn(async move {
                let done = this.handle(&key, view, &stop).await;
                drop(place);
                this.inner.life.progress();
                done
            });
        }
        while let Some(done) = running.join_next().await {
            // A panic of ours costs one claim one pass, never the sweeper.
            pass.add(done.unwrap_or(Pass { failed: 1, ..Pass::default() }));
        }
        let passes = self.inner.passes.fetch_add(1, Ordering::Relaxed) + 1;
        earmark.store().heartbeat(&options.name, env!("CARGO_PKG_VERSION"), passes).await?;
        Ok(pass)
    }

    /// What is due, from where the last pass ended.
    async fn due(&self) -> Result<Vec<DueClaim>, Error> {
        let Inner { earmark, options, aside, .. } = &*self.inner;
        let from = lock(&self.inner.walk).clone();
        let Due { claims, next, .. } =
            earmark.store().walk_due(from, options.share_max, options.batch_max, aside.now()).await?;
        *lock(&self.inner.walk) = next;
        Ok(claims)
    }

    /// Claims that stepped aside because of their downstream return when it may be called as ever; one of them, when it may be sampled.
    async fn recall(&self) -> Result<(), Error> {
        let Inner { earmark, aside, .. } = &*self.inner;
        for downstream in aside.downstreams() {
            if earmark.halted(&downstream).await?.is_some() {
                continue;
            }
            if earmark.is_failing(&downstream) {
                aside.recall_one(&downstream);
            } else {
                aside.recall(&downstream);
            }
        }
        Ok(())
    }

    /// One claim: what it needs, as far as this process can.
    async fn handle(
        &self,
        key: &ClaimKey,
        found: Result<ClaimView, earmark_claim::Error>,
        stop: &CancellationToken,
    ) -> Pass {
        let mut done = Pass::default();
        if let Err(error) = self.steps(key, found, stop, &mut done).await {
            done.failed += 1;
            self.step_aside(key, None);
            if self.inner.causes.is_news(format!("a claim fails: {}", kind_of(&error))) {
                let error = earmark_claim::failure::chain(&error);
                tracing::warn!(first = %key, error, "due claims cannot be handled; they step aside and are tried again");
            }
        }
        done
    }

    async fn steps(
        &self,
        key: &ClaimKey,
        found: Result<ClaimView, earmark_claim::Error>,
        stop: &CancellationToken,
        done: &mut Pass,
    ) -> Result<(), Error> {
        let earmark = &self.inner.earmark;
        let store = earmark.store();
        // What was listed may be as old as the pass. It is good for whatever is judged again under the row's lock; but where others sweep
        // the same claims, a look without that lock is the cheaper way to see what they have done already.
        let mut known = Some(found?).filter(|_| !self.inner.crowded.load(Ordering::Relaxed));
        let mut listed = known.is_some();
        for _ in 0..STEPS_MAX {
            let view = match known.take() {
                Some(view) => view,
                None => match store.find(key).await? {
                    Some(view) => view,
                    None => return Ok(()),
                },
            };
            let as_listed = std::mem::take(&mut listed);
            let facts = earmark.judged(&view);
            match decide(&facts, store.room(facts.declared.call_timeout)) {
                Act::Nothing => return Ok(()),
                Act::Doubt => {
                    // In doubt now, by whoever was quicker: decide again.
                    known = store.doubt(key).await?.map(|view| *view);
                    done.doubted += u64::from(known.is_some());
                    self.inner.crowded.fetch_or(known.is_none(), Ordering::Relaxed);
                }
                // The provider is asked, and a person called, on the newest row alone.
                Act::Look | Act::Escalate(_) if as_listed => {}
                Act::Expire => {
                    done.expired += u64::from(store.expire_due(key).await?.is_some());
                    return Ok(());
                }
                // What calls out is not begun any more.
                Act::Perform(_) | Act::Look if stop.is_cancelled() => return Ok(()),
                Act::Perform(how) if earmark.can_perform(&view) => {
                    return self.perform(view, how, done).await;
                }
                Act::Look if earmark.can_look(&view) => {
                    match earmark.look(&view).await {
                        Ok(state) => {
                            done.looked += 1;
                            done.confirmed += u64::from(state == State::Confirmed);
                        }
                        Err(earmark_effects::Error::HeldBack { halt, .. }) => {
                            self.held_back(key, &view.downstream, halt, done)
                        }
                        Err(error) => return Err(error.into()),
                    }
                    return Ok(());
                }
                Act::Perform(_) | Act::Look => {
                    done.left += 1;
                    self.step_aside(key, None);
                    return Ok(());
                }
                Act::Escalate(cause) => {
                    match store.escalate(key, cause, None, earmark.registered(&view).as_ref()).await {
                        Ok(_) => {
                            done.escalated += 1;
                            self.report_cause(&view, cause);
                        }
                        // Another sweeper, evidence or the service itself was quicker.
                        Err(earmark_claim::Error::Refused(why)) => {
                            tracing::debug!(%key, %why, "not escalated")
                        }
                        Err(error) => return Err(error.into()),
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn perform(&self, view: ClaimView, how: Taking, done: &mut Pass) -> Result<(), Error> {
        let (key, downstream) = (view.key.clone(), view.downstream.clone());
        match self.inner.earmark.retake_as_seen(view, how).await? {
            Retaken::Performed(outcome) => {
                done.performed += 1;
                done.confirmed += u64::from(outcome.is_confirmed());
            }
            Retaken::HeldBack(halt) => self.held_back(&key, &downstream, halt, done),
            // Another sweeper, or the service itself, is at it or was.
            Retaken::Missing | Retaken::Refused(Refused::Moved { .. }) => {
                self.inner.crowded.store(true, Ordering::Relaxed);
            }
            Retaken::Refused(why) => {
                let why = earmark_claim::failure::chain(&why);
                tracing::debug!(%key, why, "not taken");
                self.step_aside(&key, None);
            }
        }
        Ok(())
    }

    /// Its downstream is not to be called now: the claim waits, and others come before it.
    fn held_back(&self, key: &ClaimKey, downstream: &str, halt: Halt, done: &mut Pass) {
        match halt {
            Halt::Paused => done.paused += 1,
            Halt::Limited { .. } => done.limited += 1,
            _ => done.rested += 1,
        }
        self.step_aside(key, Some(downstream));
    }

    fn step_aside(&self, key: &ClaimKey, downstream: Option<&str>) {
        self.inner.aside.step(key, self.inner.options.aside_for, downstream);
    }

    fn report_cause(&self, view: &ClaimView, cause: Cause) {
        telemetry::escalated(view, cause);
        let class = view.facts.error_class.as_ref().map_or("none", |c| c.as_str());
        let group = format!("{}/{}/{class}/{}", view.downstream, view.kind, cause.as_str());
        if self.inner.causes.is_news(group) {
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

/// A word for what failed, so that one cause is one line however many claims it meets.
fn kind_of(error: &Error) -> &'static str {
    use earmark_claim::Error as Store;
    match error {
        Error::Store(store) | Error::Effects(earmark_effects::Error::Store(store)) => match store {
            Store::Malformed { .. } => "rows that cannot be read",
            Store::Refused(_) => "refused moves",
            error if error.is_transient() => "the database is away",
            _ => "the store",
        },
        Error::Effects(_) => "the effects",
        Error::Config(_) | Error::Schedule(_) => "the sweeper",
    }
}
