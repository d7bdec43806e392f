//! How an attempt is settled by its holder.

use std::time::{Duration, Instant};

use crate::acquire::Claimed;
use crate::claim::{Claim, InFlight, Token};
use crate::declared::Declared;
use crate::error::Error;
use crate::failure::{Failure, Verdict, chain};
use crate::policy::backoff;
use crate::receipt::{Answer, Receipt, cut, provider_id};
use crate::state::{Event, Outcome, State, Verb, next};
use crate::store::ClaimStore;
use crate::store::bind::{self, Apply, Note};
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
        // By the takings: an attempt that was not sent is no attempt for life, but a try it was.
        let tries = u32::try_from(claim.facts.fence).unwrap_or(u32::MAX);
        match outcome {
            Ok(receipt) => {
                let provider_ref = receipt.provider_ref.map(provider_id);
                let note = Note {
                    detail: "{}".into(),
                    provider_ref: provider_ref.clone(),
                    answer: receipt.answer.clone(),
                    actor: None,
                };
                let done = Outcome::Done { provider_ref };
                self.settle_outcome(claim, done, note, receipt.answer, Duration::ZERO).await
            }
            Err(failure) => {
                let provider_ref = failure.provider_ref.map(provider_id);
                // However long the provider asks to wait: at the age limit a person must look.
                let again_in = backoff
                    .after(tries.saturating_sub(1), failure.retry_after)
                    .min(claim.facts.declared.age_max);
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
                self.settle_outcome(claim, outcome, note, None, again_in).await
            }
        }
    }

    pub(crate) async fn settle_outcome(
        &self,
        claim: Claim<InFlight>,
        outcome: Outcome,
        note: Note,
        receipt: Option<Answer>,
        again_in: Duration,
    ) -> Result<Settled, Error> {
        // The provider has answered: that must not be lost to a database that is away for a moment. Until the lease's
        // end nobody else will touch the claim.
        loop {
            match self.settle_now(&claim, &outcome, &note, receipt.as_ref(), again_in).await {
                Err(error) if error.is_transient() && Instant::now() < claim.believed_until => {
                    tracing::warn!(key = %claim.key, error = chain(&error), "the outcome could not be recorded; trying again");
                    tokio::time::sleep(SETTLE_PAUSE_MAX.mul_f64(fastrand::f64())).await;
                }
                Err(error) => {
                    let error_chain = chain(&error);
                    tracing::error!(key = %claim.key, error = error_chain, ?outcome, "the outcome was not recorded: the claim becomes in doubt");
                    return Err(error);
                }
                settled => return settled,
            }
        }
    }

    async fn settle_now(
        &self,
        claim: &Claim<InFlight>,
        outcome: &Outcome,
        note: &Note,
        receipt: Option<&Answer>,
        again_in: Duration,
    ) -> Result<Settled, Error> {
        let Claim { key, facts, .. } = claim;
        let (outcome, note, receipt) = (outcome.clone(), note.clone(), receipt.cloned());
        let event = Event::Settle { fence: facts.fence, token: facts.token, outcome, again_in };
        // The ordinary path: the first attempt of a claim, confirmed. One update, no event: the timeline is in the columns.
        let ordinary = facts.fence == 1 && !facts.doubt;
        if ordinary
            && let Ok(made) = next(facts, &event)
            && (made.verb, made.to) == (Verb::Confirm, State::Confirmed)
        {
            let (db, key, facts, receipt) =
                (self.inner.db.clone(), key.clone(), facts.clone(), receipt.clone());
            let write = async move {
                let apply = Apply {
                    key: &key,
                    facts: &facts,
                    made: &made,
                    token: facts.token,
                    receipt: receipt.as_ref(),
                    same_revision: false,
                };
                db.confirm(&apply).await
            };
            if self.inner.writer.run(write).await? {
                return Ok(Settled::Moved(State::Confirmed));
            }
        }
        let ask = Ask {
            key: key.clone(),
            event,
            seen: None,
            // What the taking was judged on: a refusal must not be said to cover what its window does not.
            registered: Some(facts.declared.clone()),
            token: facts.token,
            note,
            receipt,
            skip_locked: false,
        };
        let (db, written) = (self.inner.db.clone(), ask);
        let judged = self.inner.writer.run(async move { db.judge("settle", &written).await }).await?;
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

/// Longest pause between two tries to record an outcome.
const SETTLE_PAUSE_MAX: Duration = Duration::from_secs(1);

impl ClaimView {
    /// Whether the claim is open: neither confirmed nor abandoned.
    pub fn is_open(&self) -> bool {
        !self.facts.state.is_terminal()
    }
}
