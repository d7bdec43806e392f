//! Phase one: making a claim, and becoming its holder.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::claim::{Claim, InFlight, Token};
use crate::error::Error;
use crate::failure::{ErrorClass, chain};
use crate::key::{ClaimKey, Fingerprint};
use crate::new_claim::{NewClaim, When};
use crate::receipt::Receipt;
use crate::state::{ClosedBy, Event, Facts, Outcome, State, Verb};
use crate::store::ClaimStore;
use crate::store::bind::{Insert, Note};
use crate::store::group::answered;
use crate::store::ordinary::Inserted;
use crate::store::row::ClaimView;
use crate::store::write::Judged;
use crate::time::Timestamp;

/// What `claim` answers. Losing a race is one of the answers; on every one of them the message may be acknowledged.
#[derive(Debug)]
#[must_use = "only a won claim may be performed; every other answer says what became of the effect"]
pub enum Claimed {
    /// This call made the claim: perform the effect, then settle.
    Won(Claim<InFlight>),
    /// Known to have happened: the recorded outcome.
    Confirmed(Receipt),
    /// Claimed, to be sent later; nothing was sent.
    Held {
        /// When the sweep may start it.
        until: Timestamp,
    },
    /// Somebody is at it.
    InFlight {
        /// Until when its holder is believed.
        until: Timestamp,
    },
    /// To be tried again.
    Retryable {
        /// When.
        at: Timestamp,
    },
    /// It may have happened; the sweep finds out.
    InDoubt {
        /// Since when.
        since: Timestamp,
    },
    /// A person must rule.
    Escalated,
    /// Known not to have happened, and given up.
    Abandoned {
        /// Why.
        by: ClosedBy,
        /// The class of the refusal, if there was one.
        class: Option<ErrorClass>,
    },
    /// The key was used with another request. Nothing is told of that one; the mismatch is on file.
    Mismatch,
}

impl Claimed {
    /// What a claim on file answers to a request with that fingerprint.
    pub(crate) fn of(view: &ClaimView, asked: &Fingerprint) -> Self {
        if view.fingerprint != *asked {
            return Self::Mismatch;
        }
        Self::of_same(view)
    }

    pub(crate) fn of_same(view: &ClaimView) -> Self {
        match view.facts.state {
            State::Held => Self::Held { until: view.due_at() },
            State::InFlight => Self::InFlight { until: view.due_at() },
            State::Retryable => Self::Retryable { at: view.due_at() },
            State::InDoubt => Self::InDoubt { since: view.in_doubt_since() },
            State::Escalated => Self::Escalated,
            State::Confirmed => Self::Confirmed(view.receipt()),
            State::Abandoned => Self::Abandoned {
                by: view.closed_by.unwrap_or(ClosedBy::Refused),
                class: view.facts.error_class.clone(),
            },
        }
    }
}

impl ClaimStore {
    /// Claims a message: one insert, straight to in flight, committed when this returns.
    ///
    /// Never takes an existing claim over: a duplicate learns what became of the effect.
    ///
    /// # Errors
    /// [`Error::Invalid`] before anything is written. [`Error::Contention`], [`Error::Unavailable`], [`Error::Unclear`]:
    /// make no call, do not acknowledge. [`Error::Rejected`]: a constraint that is not the claim's.
    pub async fn claim(&self, key: &ClaimKey, new: NewClaim) -> Result<Claimed, Error> {
        let in_flight = new.not_before.is_none();
        let insert = Arc::new(self.insert_of(key, new, in_flight)?);
        let once = std::iter::once(insert.clone());
        let answer = self.inner.group.claim(&self.inner.writer, once).await?.pop();
        self.claimed(&insert, answered("claim", answer).await?).await
    }

    /// Claims many messages, for consumers that receive them in batches: written together, committed when this returns. An answer for
    /// each, in their order; one that fails leaves the others alone. Of two with one key, the first is the claim.
    ///
    /// Claims that come one by one from concurrent tasks are written together without this.
    ///
    /// # Errors
    /// Of a claim, in its place: as [`ClaimStore::claim`]. Of the call, when nothing was written: [`Error::Busy`], [`Error::Closed`].
    pub async fn claim_many(
        &self,
        claims: impl IntoIterator<Item = (ClaimKey, NewClaim)>,
    ) -> Result<Vec<Result<Claimed, Error>>, Error> {
        let inserts: Vec<_> = claims
            .into_iter()
            .map(|(key, new)| {
                let in_flight = new.not_before.is_none();
                self.insert_of(&key, new, in_flight).map(Arc::new)
            })
            .collect();
        let good: Vec<_> = inserts.iter().filter_map(|insert| insert.as_ref().ok().cloned()).collect();
        let mut answers = self.inner.group.claim(&self.inner.writer, good.into_iter()).await?.into_iter();
        let mut claimed = Vec::with_capacity(inserts.len());
        for insert in inserts {
            claimed.push(match insert {
                Ok(insert) => match answered("claim", answers.next()).await {
                    Ok(inserted) => self.claimed(&insert, inserted).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            });
        }
        Ok(claimed)
    }

    async fn claimed(&self, insert: &Insert, inserted: Inserted) -> Result<Claimed, Error> {
        let (key, fingerprint) = (&insert.key, &insert.claim.fingerprint);
        match inserted {
            Inserted::New { at, handed_over } if insert.in_flight => match self.send_in(insert, at) {
                Some(send_in) if !send_in.is_zero() => {
                    let facts = in_flight_facts(insert);
                    Ok(Claimed::Won(self.claim_of(insert, facts, handed_over, send_in)))
                }
                // What is rare is kept apart: a future is moved about with all that it may ever hold.
                send_in => Box::pin(self.won_narrowly(insert, send_in, handed_over)).await,
            },
            Inserted::New { .. } => match Box::pin(self.find(key)).await? {
                Some(view) => Ok(Claimed::of(&view, fingerprint)),
                None => Err(Error::NotFound(key.to_string())),
            },
            Inserted::Exists(view) if view.fingerprint == *fingerprint => Ok(Claimed::of_same(&view)),
            Inserted::Exists(view) => Box::pin(self.mismatched(key, &view, fingerprint)).await,
        }
    }

    /// What the claim under `key` answers to a duplicate of its own request; `None`: there is no such claim.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn answer(&self, key: &ClaimKey) -> Result<Option<Claimed>, Error> {
        Ok(self.find(key).await?.map(|view| Claimed::of_same(&view)))
    }

    /// Waits until the claim under `key` is no longer in flight, or for at most `patience`; then answers what is on file.
    /// `None`: there is no such claim.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn wait(&self, key: &ClaimKey, patience: Duration) -> Result<Option<Claimed>, Error> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            let Some(view) = self.find(key).await? else { return Ok(None) };
            let left = patience.saturating_sub(begun.elapsed());
            if view.facts.state != State::InFlight || left.is_zero() {
                return Ok(Some(Claimed::of_same(&view)));
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(WAIT_PAUSE_MAX);
        }
    }

    // ---- inside ------------------------------------------------------------------------------------------

    pub(crate) fn insert_of(
        &self,
        key: &ClaimKey,
        claim: NewClaim,
        in_flight: bool,
    ) -> Result<Insert, Error> {
        let mut faults = claim.faults();
        let options = &self.inner.options;
        let needed = claim.declared.call_timeout.saturating_add(options.margin);
        if options.lease <= needed {
            faults.push(format!(
                "the lease ({:?}) is not longer than call_timeout plus margin ({needed:?}): the claim would be swept \
                 while its call is under way",
                options.lease
            ));
        }
        if !faults.is_empty() {
            return Err(Error::Invalid { what: "the claim", faults });
        }
        let idempotency_key = self.idempotency_key(key, &claim.key_choice)?;
        let due_in = if in_flight { options.lease } else { options.held_grace.unwrap_or(options.lease) };
        // A claim to be sent later has no maker waiting beside it: the sweep may start it on time.
        let due_in = if !in_flight && claim.not_before.is_some() { Duration::ZERO } else { due_in };
        Ok(Insert {
            key: key.clone(),
            token: Token::fresh().map_err(Error::Random)?,
            idempotency_key,
            reference: self.reference(key),
            in_flight,
            due_in,
            claim,
        })
    }

    /// How long the maker of a claim may still start to send; `None`: that takes the moment of the insert, which this database did not
    /// return.
    fn send_in(&self, insert: &Insert, created: Option<Timestamp>) -> Option<Duration> {
        let lease_room = self.inner.options.lease.saturating_sub(insert.claim.declared.call_timeout);
        match insert.claim.send_by {
            None => Some(lease_room),
            Some(When::In(d)) => Some(lease_room.min(d)),
            Some(When::At(send_by)) => created.map(|created| lease_room.min(send_by.since(created))),
        }
    }

    async fn won_narrowly(
        &self,
        insert: &Insert,
        send_in: Option<Duration>,
        handed_over: Instant,
    ) -> Result<Claimed, Error> {
        let send_in = match send_in {
            Some(send_in) => send_in,
            None => {
                let created = self.find(&insert.key).await?.map(|view| view.facts.created_at);
                created.and_then(|created| self.send_in(insert, Some(created))).unwrap_or_default()
            }
        };
        let claim: Claim<InFlight> = self.claim_of(insert, in_flight_facts(insert), handed_over, send_in);
        if !send_in.is_zero() {
            return Ok(Claimed::Won(claim));
        }
        // Nothing is left to send in: a taking that is refused. Nothing was sent, so it expires.
        let key = insert.key.clone();
        let class = ErrorClass::from(ErrorClass::TOO_LATE);
        let event = claim.ended(Outcome::NotSent { class }, Duration::ZERO);
        let _ = self.settle_event(claim, event, Note::default()).await?;
        self.expire(&key).await?;
        match self.find(&key).await? {
            Some(view) => Ok(Claimed::of_same(&view)),
            None => Err(Error::NotFound(key.to_string())),
        }
    }

    pub(crate) fn claim_of<S>(
        &self,
        insert: &Insert,
        facts: Facts,
        handed_over: Instant,
        send_in: Duration,
    ) -> Claim<S> {
        Claim {
            key: insert.key.clone(),
            facts: Box::new(facts),
            idempotency_key: insert.idempotency_key.clone(),
            reference: insert.reference.clone(),
            kind: insert.claim.kind.as_str().into(),
            fingerprint: Box::new(insert.claim.fingerprint),
            send_until: handed_over + send_in,
            believed_until: handed_over + self.inner.options.lease,
            state: PhantomData,
        }
    }

    /// A mismatch is kept, on the store's own connection.
    pub(crate) async fn mismatched(
        &self,
        key: &ClaimKey,
        view: &ClaimView,
        asked: &Fingerprint,
    ) -> Result<Claimed, Error> {
        let (db, key, note) = (self.inner.db.clone(), key.clone(), mismatch(view, asked));
        self.inner
            .writer
            .run(async move { db.append_once("mismatch", &key, Verb::Mismatch, &note).await })
            .await?;
        Ok(Claimed::Mismatch)
    }

    pub(crate) async fn expire(&self, key: &ClaimKey) -> Result<(), Error> {
        match self.ask("expire", key, Event::Expire, Note::default(), true, None).await? {
            Judged::Refused(why) => tracing::debug!(%key, why = chain(&why), "not expired"),
            Judged::Made { .. } | Judged::Missing => {}
        }
        Ok(())
    }
}

/// Both fingerprints; nothing of either request.
pub(crate) fn mismatch(view: &ClaimView, asked: &Fingerprint) -> Note {
    let detail =
        serde_json::json!({ "fingerprint": asked.to_string(), "on_file": view.fingerprint.to_string() });
    Note { actor: Some("duplicate".into()), detail: detail.to_string(), ..Note::default() }
}

/// Longest pause between two looks of `wait`.
const WAIT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What the maker of a claim knows of its row, without reading it. The times are zero: a settle that needs them reads the row first.
pub(crate) fn held_facts(insert: &Insert) -> Facts {
    let zero = Timestamp::from_micros(0);
    Facts {
        now: zero,
        state: State::Held,
        doubt: false,
        contradicted: false,
        fence: 0,
        token: insert.token,
        revision: 1,
        due_at: None,
        not_before: None,
        send_by: None,
        created_at: zero,
        window_from: None,
        last_end_at: None,
        attempts: 0,
        repeats_granted: 0,
        ruled_at: None,
        looks: 0,
        error_class: None,
        provider_ref: None,
        declared: insert.claim.declared.clone(),
        purged: false,
    }
}

fn in_flight_facts(insert: &Insert) -> Facts {
    Facts {
        state: State::InFlight,
        fence: 1,
        attempts: 1,
        window_from: Some(Timestamp::from_micros(0)),
        ..held_facts(insert)
    }
}
