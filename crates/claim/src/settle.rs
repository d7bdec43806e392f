//! How an attempt is settled by its holder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::acquire::Claimed;
use crate::claim::{Claim, InFlight, Token};
use crate::declared::Declared;
use crate::error::Error;
use crate::failure::{Failure, Verdict, chain};
use crate::policy::backoff;
use crate::receipt::{Receipt, cut, provider_id};
use crate::state::{Event, Outcome, State, next};
use crate::store::ClaimStore;
use crate::store::bind::{self, Note};
use crate::store::group::answered;
use crate::store::ordinary::Confirm;
use crate::store::row::ClaimView;
use crate::store::write::{Ask, Judged};

/// How long to wait before an open claim is looked at again: exponential, full jitter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The ceiling of the first wait.
    pub base: Duration,
    /// The greatest ceiling.
    pub max: Duration,
}

impl Backoff {
    /// The wait after that many tries; a longer one that the provider asked for wins.
    pub fn after(&self, tries: u32, retry_after: Option<Duration>) -> Duration {
        let retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
        backoff(tries, self.base, self.max, fastrand::f64(), retry_after)
    }
}

/// Longest wait that a provider can ask for: a week. Beyond that its answer is a fault, and age limits should speak first.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// 2 s to 10 min: a provider's hiccup is over in seconds, an outage is not helped by more calls.
impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(2), max: Duration::from_secs(600) }
    }
}

/// Bytes kept of what a failure says to a person. A message of megabytes would be refused by the server, and the outcome with it.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What a settle answers: what is on file now.
#[derive(Debug)]
#[must_use = "somebody else may have settled first"]
pub enum Settled {
    /// The attempt's outcome moved the claim.
    Moved(State),
    /// It moved nothing: the claim had been taken by another holder, or settled by evidence. What was reported is kept.
    Late(Claimed),
}

impl ClaimStore {
    /// Records how the attempt ended. Evidence of "done" moves the claim however late it comes; any other report of a holder that was
    /// fenced out moves nothing and is kept.
    ///
    /// # Errors
    /// When the database stays away: the claim then becomes in doubt at the end of its lease.
    pub async fn settle<R>(
        &self,
        claim: Claim<InFlight>,
        outcome: Result<Receipt<R>, Failure>,
        backoff: Backoff,
    ) -> Result<Settled, Error> {
        let (event, note) = end_of(&claim, outcome, backoff);
        self.settle_event(claim, event, note).await
    }

    /// Records how many attempts ended, for consumers that work in batches: ordinary confirmations are written together. An answer for each,
    /// in their order.
    ///
    /// Attempts that are settled one by one from concurrent tasks are written together without this.
    ///
    /// # Errors
    /// Of an attempt, in its place: as [`ClaimStore::settle`].
    pub async fn settle_many<R>(
        &self,
        ends: impl IntoIterator<Item = (Claim<InFlight>, Result<Receipt<R>, Failure>)>,
        backoff: Backoff,
    ) -> Vec<Result<Settled, Error>> {
        let ends: Vec<_> = ends
            .into_iter()
            .map(|(claim, outcome)| {
                let (event, mut note) = end_of(&claim, outcome, backoff);
                let confirm = ordinary(&claim, &event, &mut note);
                (claim, event, note, confirm)
            })
            .collect();
        let confirms: Vec<_> = ends.iter().filter_map(|(.., confirm)| confirm.clone()).collect();
        let answers = self.inner.group.confirm(&self.inner.writer, confirms.into_iter()).await;
        let mut answers = answers.unwrap_or_default().into_iter();
        let mut settled = Vec::with_capacity(ends.len());
        for (claim, event, mut note, confirm) in ends {
            if let Some(confirm) = confirm {
                if matches!(answered("settle", answers.next()).await, Ok(true)) {
                    settled.push(Ok(Settled::Moved(State::Confirmed)));
                    continue;
                }
                note.answer.clone_from(&confirm.receipt);
            }
            settled.push(self.settle_patiently(claim, event, note).await);
        }
        settled
    }

    /// Records an end of an attempt. An answer in the note is the receipt if the event confirms.
    pub(crate) async fn settle_event(
        &self,
        claim: Claim<InFlight>,
        event: Event,
        mut note: Note,
    ) -> Result<Settled, Error> {
        if let Some(confirm) = ordinary(&claim, &event, &mut note) {
            let once = std::iter::once(confirm.clone());
            let queued = self.inner.group.confirm(&self.inner.writer, once).await;
            let written = match queued {
                Ok(mut answers) => answered("settle", answers.pop()).await,
                Err(error) => Err(error),
            };
            match written {
                Ok(true) => return Ok(Settled::Moved(State::Confirmed)),
                Ok(false) => {}
                Err(error) => tracing::debug!(key = %claim.key, error = chain(&error), "not confirmed yet"),
            }
            note.answer.clone_from(&confirm.receipt);
        }
        // What is not ordinary is kept apart: a future is moved about with all that it may ever hold.
        Box::pin(self.settle_patiently(claim, event, note)).await
    }

    async fn settle_patiently(
        &self,
        claim: Claim<InFlight>,
        event: Event,
        note: Note,
    ) -> Result<Settled, Error> {
        // The provider has answered: that must not be lost to a database that is away for a moment. Until the lease's
        // end nobody else will touch the claim.
        loop {
            match self.settle_judged(&claim, &event, &note).await {
                Err(error) if error.is_transient() && Instant::now() < claim.believed_until => {
                    tracing::warn!(key = %claim.key, error = chain(&error), "the outcome could not be recorded; trying again");
                    tokio::time::sleep(SETTLE_PAUSE_MAX.mul_f64(fastrand::f64())).await;
                }
                Err(error) => {
                    let error_chain = chain(&error);
                    tracing::error!(key = %claim.key, error = error_chain, ?event, "the outcome was not recorded: the claim becomes in doubt");
                    return Err(error);
                }
                settled => return settled,
            }
        }
    }

    /// Judges the outcome on the row as it is.
    async fn settle_judged(
        &self,
        claim: &Claim<InFlight>,
        event: &Event,
        note: &Note,
    ) -> Result<Settled, Error> {
        let Claim { key, facts, .. } = claim;
        let done = matches!(event, Event::Settle { outcome: Outcome::Done { .. }, .. });
        let ask = Ask {
            key: key.clone(),
            event: event.clone(),
            seen: None,
            // What the taking was judged on: a refusal must not be said to cover what its window does not.
            registered: Some(facts.declared.clone()),
            token: facts.token,
            receipt: note.answer.clone().filter(|_| done),
            note: note.clone(),
            skip_locked: false,
        };
        let db = self.inner.db.clone();
        let judged = self.inner.writer.run(async move { db.judge("settle", &ask).await }).await?;
        match judged {
            Judged::Made { before, made } if made.moves() => {
                let open = matches!(before.facts.state, State::InFlight | State::InDoubt);
                if open && before.facts.token == facts.token {
                    Ok(Settled::Moved(made.to))
                } else {
                    self.late(key).await
                }
            }
            Judged::Made { .. } | Judged::Refused(_) => self.late(key).await,
            Judged::Missing => Err(Error::NotFound(key.to_string())),
        }
    }

    async fn late(&self, key: &crate::key::ClaimKey) -> Result<Settled, Error> {
        match self.find(key).await? {
            Some(view) => Ok(Settled::Late(Claimed::of_same(&view))),
            None => Err(Error::NotFound(key.to_string())),
        }
    }

    /// Moves the end of the present lease to a full lease from now, for work that takes longer than expected before or after the call. It
    /// does not renew send-until, which the taking fixed. `false`: the claim has been taken or settled meanwhile.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn extend(&self, claim: &Claim<InFlight>) -> Result<bool, Error> {
        let room = self.room(claim.facts.declared.call_timeout);
        let statement =
            bind::extend(self.dialect(), &claim.key, room.lease, claim.facts.fence, claim.facts.token);
        let db = self.inner.db.clone();
        Ok(self.inner.writer.run(async move { db.execute("extend", statement).await }).await? == 1)
    }

    /// Judges one event by key and writes it.
    pub(crate) async fn ask(
        &self,
        what: &'static str,
        key: &crate::key::ClaimKey,
        event: Event,
        note: Note,
        skip_locked: bool,
        registered: Option<&Declared>,
    ) -> Result<Judged, Error> {
        let token = Token([0; 16]); // no taking goes this way
        let ask = Ask {
            key: key.clone(),
            event,
            seen: None,
            registered: registered.cloned(),
            token,
            note,
            receipt: None,
            skip_locked,
        };
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.judge(what, &ask).await }).await
    }
}

/// The ordinary path: the first attempt of a claim, confirmed. One update, no event: the timeline is in the columns.
fn ordinary(claim: &Claim<InFlight>, event: &Event, note: &mut Note) -> Option<Arc<Confirm>> {
    if claim.facts.fence != 1 {
        return None;
    }
    let made = next(&claim.facts, event).ok()?;
    Confirm::of(claim, made, note).map(Arc::new)
}

/// The event that an outcome is, and what is kept beside it.
fn end_of<R>(
    claim: &Claim<InFlight>,
    outcome: Result<Receipt<R>, Failure>,
    backoff: Backoff,
) -> (Event, Note) {
    // By the takings: an attempt that was not sent is no attempt for life, but a try it was.
    let tries = u32::try_from(claim.facts.fence).unwrap_or(u32::MAX);
    match outcome {
        Ok(receipt) => {
            let provider_ref = receipt.provider_ref.map(provider_id);
            let note = Note { provider_ref: provider_ref.clone(), answer: receipt.answer, ..Note::default() };
            (claim.ended(Outcome::Done { provider_ref }, Duration::ZERO), note)
        }
        Err(failure) => {
            let provider_ref = failure.provider_ref.map(provider_id);
            // However long the provider asks to wait: at the age limit a person must look.
            let again_in =
                backoff.after(tries.saturating_sub(1), failure.retry_after).min(claim.facts.declared.age_max);
            let detail = serde_json::json!({
                "class": failure.class.as_str(),
                "message": cut(failure.message, MESSAGE_BYTES_MAX),
                "retry_after_s": failure.retry_after.map(|d| d.as_secs()),
            });
            let note = Note {
                detail: detail.to_string(),
                provider_ref: provider_ref.clone(),
                answer: failure.answer.map(|answer| *answer),
                actor: None,
            };
            let class = failure.class;
            let outcome = match failure.verdict {
                Verdict::Refused { covers_earlier } => Outcome::Refused { covers_earlier, class },
                Verdict::NotSent => Outcome::NotSent { class },
                Verdict::Unknown => Outcome::Unknown { provider_ref, class },
            };
            (claim.ended(outcome, again_in), note)
        }
    }
}

impl Claim<InFlight> {
    /// The event that its attempt ended so.
    pub(crate) fn ended(&self, outcome: Outcome, again_in: Duration) -> Event {
        Event::Settle { fence: self.facts.fence, token: self.facts.token, outcome, again_in }
    }
}

/// Longest pause between two tries to record an outcome.
const SETTLE_PAUSE_MAX: Duration = Duration::from_secs(1);

impl ClaimView {
    /// Whether the claim is open: neither confirmed nor abandoned.
    pub fn is_open(&self) -> bool {
        !self.facts.state.is_terminal()
    }
}
