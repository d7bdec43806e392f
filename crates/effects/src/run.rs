//! Claim, call, settle: the one place where the phases stand in order. Services and the sweep go through it alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use earmark_claim::state::{Event, Refused, Taking, next};
use earmark_claim::{
    Backoff, Begun, Claim, ClaimKey, ClaimStore, ClaimView, Claimed, DatabaseTransaction, ErrorClass,
    Failure, Held, InFlight, Joined, NewClaim, Receipt, Settled, Started, State, Taken, Timestamp,
};
use serde_json::Value;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::attempt::attempt;
#[cfg(feature = "http")]
use crate::effect::Description;
use crate::effect::Effect;
use crate::erased::Performer;
use crate::error::Error;
use crate::gate::{Gates, Halt, Pass};
use crate::outcome::Outcome;
use crate::registry::{Builder, Entry};
use crate::telemetry;
use crate::wish::Wish;

/// Effects under claims. Cheap to clone.
#[derive(Clone)]
pub struct Earmark {
    pub(crate) parts: Arc<Parts>,
}

pub(crate) struct Parts {
    pub(crate) store: ClaimStore,
    pub(crate) entries: BTreeMap<String, Arc<Entry>>,
    #[cfg(feature = "http")]
    pub(crate) http: Option<Arc<crate::http::HttpEffect>>,
    pub(crate) backoff: Backoff,
    pub(crate) gates: Arc<Gates>,
    /// Attempts under way: they outlive the caller that asked for them.
    pub(crate) tasks: TaskTracker,
}

impl Earmark {
    /// Begins to collect effects on a store.
    pub fn builder(store: ClaimStore) -> Builder {
        Builder::new(store)
    }

    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// The store.
    pub fn store(&self) -> &ClaimStore {
        &self.parts.store
    }

    /// Claims the message, performs the effect, records the outcome; or says what became of it earlier.
    ///
    /// All of it runs in a task of its own: dropping this future (a client that disconnects, a `select!`) cuts nothing.
    ///
    /// Where the downstream is not to be called now (paused by a person, failing in a row, or at its [`Limits`](crate::Limits) for longer
    /// than their patience), the message is claimed without a call and the answer is [`Outcome::Held`]: it may be acknowledged, and the
    /// sweep performs the effect later. So somebody must sweep: of opaque kinds, a process with their code.
    ///
    /// # Errors
    /// [`Error::Closing`], [`Error::NotRegistered`], [`Error::Request`]: nothing was written. [`Error::Store`]: let the message be delivered
    /// again.
    pub async fn run<E: Effect>(
        &self,
        key: &ClaimKey,
        request: &E::Request,
    ) -> Result<Outcome<E::Receipt>, Error> {
        let wish = self.wish_of::<E>(request)?;
        self.claim_call_settle(key, wish).await.map(Outcome::cast)
    }

    /// The same for one kind of an effect that is registered under several.
    ///
    /// # Errors
    /// As [`Earmark::run`].
    pub async fn run_kind<E: Effect>(
        &self,
        kind: &str,
        key: &ClaimKey,
        request: &E::Request,
    ) -> Result<Outcome<E::Receipt>, Error> {
        let wish = self.wish::<E>(self.entry(kind)?, request)?;
        self.claim_call_settle(key, wish).await.map(Outcome::cast)
    }

    /// Claims the message, makes the HTTP call, records the outcome; or says what became of it earlier. The call is frozen on the claim, so
    /// that any process can repeat it or ask about it.
    ///
    /// # Errors
    /// As [`Earmark::run`]; [`Error::Call`] for a call that cannot be frozen.
    #[cfg(feature = "http")]
    pub async fn run_http(
        &self,
        kind: &str,
        key: &ClaimKey,
        call: &crate::http::HttpCall,
        description: Description,
    ) -> Result<Outcome<Value>, Error> {
        let wish = self.http_wish(kind, key, call, description)?;
        self.claim_call_settle(key, wish).await
    }

    /// Claims the message inside the caller's own transaction. Commit it, then [`perform`](Earmark::perform) the held claim; if the process
    /// dies between the two, the sweep performs it.
    ///
    /// # Errors
    /// As [`ClaimStore::claim_in`].
    pub async fn claim_in<E: Effect>(
        &self,
        tx: &DatabaseTransaction,
        key: &ClaimKey,
        request: &E::Request,
    ) -> Result<Joined, Error> {
        self.open()?;
        let Wish { entry, new } = self.wish_of::<E>(request)?;
        self.join(tx, key, &entry, new).await
    }

    /// The same for an HTTP call.
    ///
    /// # Errors
    /// As [`ClaimStore::claim_in`]; [`Error::Call`].
    #[cfg(feature = "http")]
    pub async fn claim_http_in(
        &self,
        tx: &DatabaseTransaction,
        kind: &str,
        key: &ClaimKey,
        call: &crate::http::HttpCall,
        description: Description,
    ) -> Result<Joined, Error> {
        self.open()?;
        let Wish { entry, new } = self.http_wish(kind, key, call, description)?;
        self.join(tx, key, &entry, new).await
    }

    async fn join(
        &self,
        tx: &DatabaseTransaction,
        key: &ClaimKey,
        entry: &Entry,
        new: NewClaim,
    ) -> Result<Joined, Error> {
        let joined = self.parts.store.claim_in(tx, key, new).await?;
        match joined {
            Joined::Held(_) => count_created(key, entry),
            Joined::Lost(Claimed::Mismatch) => count_mismatch(key, entry),
            Joined::Lost(_) => {}
        }
        Ok(joined)
    }

    /// Begins a held claim after the caller's commit, performs it, and records the outcome. Where the downstream is not to be called now, the
    /// claim is left to the sweep, as in [`run`](Earmark::run).
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::NotCommitted`] with the claim, when the transaction has not been committed. [`Error::Closing`],
    /// [`Error::NotRegistered`]: nothing was begun, and the sweep performs the claim.
    pub async fn perform<R>(&self, held: Claim<Held>) -> Result<Outcome<R>, Error> {
        let this = self.clone();
        self.in_a_task(async move { this.begin_call_settle(held).await }).await.map(Outcome::cast)
    }

    /// Takes a claim that is there, as the sweep does, and performs it to its end.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Closing`], [`Error::NotRegistered`]: nothing was taken.
    pub async fn retake(&self, key: &ClaimKey, how: Taking) -> Result<Retaken, Error> {
        let (this, key) = (self.clone(), key.clone());
        self.in_a_task(async move { this.find_take_call_settle(&key, how).await }).await
    }

    /// The same with a row that was read before, and only if nothing has moved since.
    ///
    /// # Errors
    /// As [`Earmark::retake`].
    pub async fn retake_as_seen(&self, seen: ClaimView, how: Taking) -> Result<Retaken, Error> {
        let this = self.clone();
        self.in_a_task(async move { this.take_call_settle(&seen, how).await }).await
    }

    /// Waits for the claims and attempts under way, at most for `grace`; new ones are refused from now on. Answers how many are
    /// left: their claims become in doubt at the end of their leases.
    pub async fn close(&self, grace: Duration) -> usize {
        self.parts.tasks.close();
        let _ = tokio::time::timeout(grace, self.parts.tasks.wait()).await;
        self.parts.tasks.len()
    }

    // ---- the phases --------------------------------------------------------------------------------------

    /// Runs phases in a task that no caller can cut: neither between the claim's commit and the call, nor between the call and
    /// the settle.
    async fn in_a_task<T: Send + 'static>(
        &self,
        phases: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        // Counted before it is asked whether we are open: `close` either waits for this one, or it is refused.
        let counted = self.parts.tasks.token();
        self.open()?;
        let task = self.parts.tasks.spawn(phases.in_current_span());
        drop(counted);
        task.await.map_err(|_| Error::Interrupted)?
    }

    pub(crate) fn open(&self) -> Result<(), Error> {
        if self.parts.tasks.is_closed() { Err(Error::Closing) } else { Ok(()) }
    }

    async fn claim_call_settle(&self, key: &ClaimKey, wish: Wish) -> Result<Outcome<Value>, Error> {
        let (this, key) = (self.clone(), key.clone());
        self.in_a_task(async move { this.claim_call_settle_uncut(&key, wish).await }).await
    }

    async fn claim_call_settle_uncut(&self, key: &ClaimKey, wish: Wish) -> Result<Outcome<Value>, Error> {
        let Wish { entry, new } = wish;
        let performer = self.performer(&entry)?;
        // Before the claim: a wait after it would be taken from the time to send.
        let pass = match self.admit(&entry.gate, entry.gate.patience()).await? {
            Ok(pass) => pass,
            // Apart, since a future is moved about with all that it may ever hold.
            Err(halt) => return Box::pin(self.claim_and_leave(key, &entry, new, halt)).await,
        };
        let request = new.request.clone();
        match self.parts.store.claim(key, new).await? {
            Claimed::Won(claim) => {
                count_created(key, &entry);
                self.call_and_settle(pass, claim, &entry.downstream, &*performer, &request).await
            }
            // The sweep's own row, which a redelivery may hurry when it is due.
            Claimed::Retryable { at } => Box::pin(self.hurry(pass, key, at)).await,
            Claimed::Mismatch => {
                count_mismatch(key, &entry);
                Ok(Outcome::Mismatch)
            }
            claimed => on_file(claimed),
        }
    }

    async fn hurry(&self, pass: Pass, key: &ClaimKey, at: Timestamp) -> Result<Outcome<Value>, Error> {
        // Its place is free before the sweep's way is gone: two of one limit would wait for each other.
        drop(pass);
        match self.find_take_call_settle(key, Taking::Take).await? {
            Retaken::Performed(outcome) => Ok(outcome),
            Retaken::Refused(Refused::NotYet { from, .. }) => Ok(Outcome::Retryable { at: from }),
            // Somebody was faster, or it is not to be tried again, or not now.
            Retaken::Refused(_) | Retaken::Missing | Retaken::HeldBack(_) => {
                match self.parts.store.answer(key).await? {
                    Some(claimed) => on_file(claimed),
                    None => Ok(Outcome::Retryable { at }),
                }
            }
        }
    }

    async fn begin_call_settle(&self, held: Claim<Held>) -> Result<Outcome<Value>, Error> {
        if !self.knows(held.kind()) {
            return Err(not_registered(held.kind()));
        }
        let Some(gate) = self.gate_of(&held).await? else {
            return Err(Error::NotCommitted(Box::new(held)));
        };
        let pass = match self.admit(&gate, gate.patience()).await? {
            Ok(pass) => pass,
            Err(_) => return self.leave(held).await,
        };
        match self.parts.store.begin(held).await? {
            Begun::Started(started) => self.perform_started(pass, started).await,
            Begun::NotCommitted(held) => Err(Error::NotCommitted(Box::new(held))),
            Begun::NotYet { from } => Ok(Outcome::Held { until: from }),
            Begun::Gone(claimed) => on_file(claimed),
        }
    }

    async fn find_take_call_settle(&self, key: &ClaimKey, how: Taking) -> Result<Retaken, Error> {
        let Some(seen) = self.parts.store.find(key).await? else { return Ok(Retaken::Missing) };
        self.take_call_settle(&seen, how).await
    }

    async fn take_call_settle(&self, seen: &ClaimView, how: Taking) -> Result<Retaken, Error> {
        // Before it is taken: an attempt that nobody can make would leave a doubt behind.
        if !self.can_perform(seen) {
            return Err(not_registered(&seen.kind));
        }
        // Nobody waits for a turn to take what is not to be taken; the taking itself judges again.
        let judged = self.judged(seen);
        let room = self.parts.store.room(judged.declared.call_timeout);
        if let Err(why) = next(&judged, &Event::Taking { how, room }) {
            return Ok(Retaken::Refused(why));
        }
        let gate = self.parts.gates.of(&seen.downstream);
        let pass = match self.admit(&gate, gate.sweep_patience()).await? {
            Ok(pass) => pass,
            Err(halt) => return Ok(Retaken::HeldBack(halt)),
        };
        let registered = self.registered(seen);
        Ok(match self.parts.store.take_over_as_seen(seen, how, registered.as_ref()).await? {
            Taken::Started(started) => Retaken::Performed(self.perform_started(pass, started).await?),
            Taken::Refused(why) => Retaken::Refused(why),
            Taken::Missing => Retaken::Missing,
        })
    }

    async fn perform_started(&self, pass: Pass, started: Started) -> Result<Outcome<Value>, Error> {
        let Started { claim, view, request } = started;
        match self.performer_of(&view) {
            Some(performer) => {
                self.call_and_settle(pass, claim, &view.downstream, &*performer, &request).await
            }
            // Of a form that this process cannot read: somebody else's to perform, and nothing was sent.
            None => {
                let key = claim.key().clone();
                let failure = Failure::not_sent(ErrorClass::OPERATOR).because(not_registered(&view.kind));
                let failed = Err::<Receipt, _>(failure);
                let settled = self.parts.store.settle(claim, failed, self.parts.backoff).await?;
                after(&self.parts.store, &key, settled, None).await
            }
        }
    }

    /// One attempt, from the permit to the settle.
    async fn call_and_settle(
        &self,
        pass: Pass,
        claim: Claim<InFlight>,
        downstream: &str,
        performer: &dyn Performer,
        request: &[u8],
    ) -> Result<Outcome<Value>, Error> {
        let (store, key) = (&self.parts.store, claim.key().clone());
        let (settled, receipt) =
            attempt(store, pass, claim, downstream, performer, request, self.parts.backoff).await?;
        after(store, &key, settled, receipt).await
    }

    // ---- who performs it ----------------------------------------------------------------------------------

    pub(crate) fn entry(&self, kind: &str) -> Result<Arc<Entry>, Error> {
        self.parts.entries.get(kind).cloned().ok_or_else(|| not_registered(kind))
    }

    /// Whether claims of that kind may be performed here, as far as can be told without their form.
    fn knows(&self, kind: &str) -> bool {
        #[cfg(feature = "http")]
        if self.parts.http.is_some() {
            return true;
        }
        self.parts.entries.contains_key(kind)
    }

    fn performer(&self, entry: &Entry) -> Result<Arc<dyn Performer>, Error> {
        #[cfg(feature = "http")]
        if entry.performer.is_none()
            && let Some(http) = &self.parts.http
        {
            return Ok(http.clone());
        }
        entry.performer.clone().ok_or_else(|| not_registered(&entry.kind))
    }
}

/// What taking over a claim led to.
#[derive(Debug)]
pub enum Retaken {
    /// It was performed; this is what is on file now.
    Performed(Outcome<Value>),
    /// Not allowed, and why.
    Refused(Refused),
    /// Somebody else is at it, or there is no such claim.
    Missing,
    /// Its downstream is not to be called now; nothing was taken.
    HeldBack(Halt),
}

/// What is on file after the attempt: our own receipt where it confirmed the claim, else what others left there.
async fn after(
    store: &ClaimStore,
    key: &ClaimKey,
    settled: Settled,
    receipt: Option<Receipt>,
) -> Result<Outcome<Value>, Error> {
    match (settled, receipt) {
        (Settled::Moved(State::Confirmed), Some(receipt)) => Ok(Outcome::Confirmed(receipt)),
        (Settled::Moved(_), _) => match Box::pin(store.answer(key)).await? {
            Some(claimed) => on_file(claimed),
            None => Err(earmark_claim::Error::NotFound(key.to_string()).into()),
        },
        (Settled::Late(claimed), _) => on_file(claimed),
    }
}

/// What is on file. A claim that was just won is not: it has to be performed.
pub(crate) fn on_file<R>(claimed: Claimed) -> Result<Outcome<R>, Error> {
    Outcome::of(claimed).ok_or(Error::Interrupted)
}

pub(crate) fn not_registered(kind: &str) -> Error {
    Error::NotRegistered(format!("kind {kind:?}"))
}

pub(crate) fn count_mismatch(key: &ClaimKey, entry: &Entry) {
    let labels = [("consumer", key.consumer().to_owned()), ("kind", entry.kind.clone())];
    metrics::counter!(telemetry::MISMATCHES, &labels).increment(1);
}

pub(crate) fn count_created(key: &ClaimKey, entry: &Entry) {
    metrics::counter!(
        telemetry::CREATED,
        "consumer" => key.consumer().to_owned(),
        "kind" => entry.kind.clone(),
        "downstream" => entry.downstream.clone(),
    )
    .increment(1);
}
