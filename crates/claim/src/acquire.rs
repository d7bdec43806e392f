//! Phase one: making a claim, and becoming its holder.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};

use crate::claim::{Claim, Held, InFlight, Token};
use crate::declared::Declared;
use crate::error::Error;
use crate::failure::{ErrorClass, chain};
use crate::key::{ClaimKey, Fingerprint};
use crate::new_claim::{NewClaim, When};
use crate::receipt::Receipt;
use crate::state::{ClosedBy, Event, Facts, Outcome, Refused, State, Taking, Verb};
use crate::store::ClaimStore;
use crate::store::bind::{self, Insert, Note};
use crate::store::row::ClaimView;
use crate::store::write::{Ask, Inserted, Judged, append_once_in};
use crate::time::Timestamp;

/// What `claim` answers. Losing a race is one of the answers; on every one of them the message may be acknowledged.
#[derive(Debug)]
#[must_use = "only a won claim may be performed; every other answer says what became of the effect"]
pub enum Answer {
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

impl Answer {
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

/// What `claim_in` answers: a held claim, or what it lost to.
#[derive(Debug)]
#[must_use = "a duplicate is a value here, not an error"]
pub enum Joined {
    /// Written in your transaction. It can begin only after that has been committed; if the process dies after the
    /// commit, the sweep performs it; if the transaction is rolled back, it never was.
    Held(Claim<Held>),
    /// The key exists; your transaction goes on.
    Lost(Answer),
}

/// What `begin` answers.
#[derive(Debug)]
#[must_use = "only a begun claim may be performed"]
pub enum Begun {
    /// In flight: perform the effect, then settle.
    Started(Claim<InFlight>),
    /// The transaction in which the claim was made has not been committed (or was rolled back).
    NotCommitted(Claim<Held>),
    /// Not to be sent yet; the sweep begins it then.
    NotYet {
        /// From when.
        from: Timestamp,
    },
    /// The sweep, or another process, was faster; or the claim was called off.
    Gone(Answer),
}

/// What taking over an existing claim answers.
#[derive(Debug)]
#[must_use = "only a taken claim may be performed"]
pub enum Taken {
    /// In flight, with the frozen request.
    Started {
        /// The claim.
        claim: Claim<InFlight>,
        /// The row before the taking.
        view: Box<ClaimView>,
        /// The frozen request.
        request: Vec<u8>,
    },
    /// Not allowed, and why.
    Refused(Refused),
    /// Somebody else is at it, or there is no such claim.
    Missing,
}

impl ClaimStore {
    /// Claims a message: one insert, straight to in flight, committed when this returns.
    ///
    /// Never takes an existing claim over: a duplicate learns what became of the effect.
    ///
    /// # Errors
    /// [`Error::Invalid`] before anything is written. [`Error::Contention`], [`Error::Unavailable`], [`Error::Unclear`]:
    /// make no call, do not acknowledge. [`Error::Rejected`]: a constraint that is not the claim's.
    pub async fn claim(&self, key: &ClaimKey, new: NewClaim) -> Result<Answer, Error> {
        let in_flight = new.not_before.is_none();
        let insert = self.insert_of(key, new, in_flight)?;
        let fingerprint = insert.claim.fingerprint;
        // Deadlines count from before the statement is handed over.
        let handed_over = Instant::now();
        let db = self.inner.db.clone();
        let sent = insert.clone();
        let inserted = self.inner.writer.run(async move { db.insert(&sent).await }).await?;
        match inserted {
            Inserted::New(now) if in_flight => self.won(insert, now, handed_over).await,
            Inserted::New(_) => match self.find(key).await? {
                Some(view) => Ok(Answer::of(&view, &fingerprint)),
                None => Err(Error::NotFound(key.to_string())),
            },
            Inserted::Exists(view) => self.lost(key, &view, &fingerprint).await,
        }
    }

    /// Claims a message inside the caller's own transaction: business change and claim commit together or not at all.
    ///
    /// At READ COMMITTED a duplicate never aborts the transaction. While another transaction holds the same new key, this waits for it,
    /// then loses or wins as that one commits or rolls back. On SQLite the transaction must have begun IMMEDIATE.
    ///
    /// # Errors
    /// [`Error::Invalid`] before anything is written; [`Error::RetryTransaction`] when the server has ended the transaction;
    /// [`Error::SqliteNotImmediate`]; [`Error::InTransaction`] with the server's error unchanged, such as another
    /// constraint's violation.
    pub async fn claim_in(
        &self,
        tx: &DatabaseTransaction,
        key: &ClaimKey,
        new: NewClaim,
    ) -> Result<Joined, Error> {
        let dialect = self.dialect();
        let insert = self.insert_of(key, new, false)?;
        let statement = bind::claim(dialect, &insert);
        let written = if dialect.insert_returns() {
            tx.query_all_raw(statement).await.map(|rows| !rows.is_empty())
        } else {
            match tx.execute_raw(statement).await {
                Ok(_) => Ok(true),
                Err(e) if dialect.is_unique_violation(&e) => {
                    // A duplicate only if there is a claim under the very key; else another constraint was violated.
                    match self.find_in(tx, key).await? {
                        Some(view) => return self.lost_in(tx, key, &view, &insert.claim.fingerprint).await,
                        None => Err(e),
                    }
                }
                Err(e) => Err(e),
            }
        };
        match written {
            Ok(true) => Ok(Joined::Held(self.claim_of(&insert, held_facts(&insert), Instant::now()))),
            Ok(false) => match self.find_in(tx, key).await? {
                Some(view) => self.lost_in(tx, key, &view, &insert.claim.fingerprint).await,
                None => Err(Error::NotFound(key.to_string())),
            },
            Err(e) => Err(self.in_transaction(e)),
        }
    }

    /// Begins a held claim, after the caller's own commit. Reads on the store's own connection first, so that it cannot run inside
    /// that transaction, waits for no lock, and answers [`Begun::NotCommitted`] at once.
    ///
    /// # Errors
    /// As [`ClaimStore::claim`].
    pub async fn begin(&self, held: Claim<Held>) -> Result<Begun, Error> {
        let Some(view) = self.find(&held.key).await? else { return Ok(Begun::NotCommitted(held)) };
        if view.facts.token != held.facts.token && view.facts.state == State::Held {
            // Another transaction's claim: ours was rolled back.
            return Ok(Begun::NotCommitted(held));
        }
        match self.take_over(&held.key, Taking::Begin, None).await? {
            Taken::Started { claim, .. } => Ok(Begun::Started(claim)),
            Taken::Refused(Refused::NotYet { from, .. }) => Ok(Begun::NotYet { from }),
            Taken::Refused(Refused::NothingLeft { .. }) => {
                self.expire(&held.key).await?;
                self.gone(&held).await
            }
            Taken::Refused(_) | Taken::Missing => self.gone(&held).await,
        }
    }

    async fn gone(&self, held: &Claim<Held>) -> Result<Begun, Error> {
        match self.find(&held.key).await? {
            Some(view) => Ok(Begun::Gone(Answer::of(&view, &held.fingerprint))),
            None => Err(Error::NotFound(held.key.to_string())),
        }
    }

    /// Takes a claim that is there: begins a held one, takes a retryable one that is due, or redrives one in doubt (the
    /// sweep alone does that). `registered`: what the effect declares now; the stricter of that and what is frozen judges.
    ///
    /// # Errors
    /// As [`ClaimStore::claim`].
    pub async fn take_over(
        &self,
        key: &ClaimKey,
        how: Taking,
        registered: Option<&Declared>,
    ) -> Result<Taken, Error> {
        let token = Token::fresh().map_err(Error::Random)?;
        let Some(frozen) = self.find(key).await? else { return Ok(Taken::Missing) };
        let timeout = match registered {
            Some(registered) => frozen.facts.declared.call_timeout.max(registered.call_timeout),
            None => frozen.facts.declared.call_timeout,
        };
        let room = self.room(timeout);
        let ask = Ask {
            key: key.clone(),
            event: Event::Taking { how, room },
            registered: registered.cloned(),
            token,
            note: Note { detail: "{}".into(), ..Note::default() },
            receipt: None,
            skip_locked: true,
        };
        // Deadlines count from before the statement is handed over; a read-back does not renew them.
        let handed_over = Instant::now();
        let db = self.inner.db.clone();
        let request_key = key.clone();
        let (judged, request) = self
            .inner
            .writer
            .run(async move {
                let judged = db.judge("take", &ask).await?;
                let request = match &judged {
                    Judged::Made { .. } => db.request(&request_key).await?,
                    _ => None,
                };
                Ok((judged, request))
            })
            .await?;
        Ok(match judged {
            Judged::Made { before, made } => {
                let mut facts = before.facts.clone();
                if let Some(registered) = registered {
                    facts.declared = facts.declared.stricter(registered);
                }
                let send_until = facts.send_until(made.set.doubt, room);
                let deadline = handed_over + send_until.since(facts.now);
                facts.state = State::InFlight;
                facts.doubt = made.set.doubt;
                facts.fence += 1;
                facts.token = token;
                facts.revision += 1;
                facts.attempts = made.set.attempts;
                facts.looks = 0;
                facts.window_from = facts.window_from.or(Some(facts.now));
                let claim = Claim {
                    key: key.clone(),
                    facts: Box::new(facts),
                    idempotency_key: before.idempotency_key.clone(),
                    reference: before.reference.clone(),
                    kind: before.kind.clone(),
                    fingerprint: before.fingerprint,
                    send_until: deadline,
                    state: PhantomData,
                };
                Taken::Started { claim, view: before, request: request.unwrap_or_default() }
            }
            Judged::Refused(why) => Taken::Refused(why),
            Judged::Missing => Taken::Missing,
        })
    }

    /// Waits until the claim under `key` is no longer in flight, or for at most `patience`; then answers what is on file.
    /// `None`: there is no such claim.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn wait(&self, key: &ClaimKey, patience: Duration) -> Result<Option<Answer>, Error> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            let Some(view) = self.find(key).await? else { return Ok(None) };
            let left = patience.saturating_sub(begun.elapsed());
            if view.facts.state != State::InFlight || left.is_zero() {
                return Ok(Some(Answer::of_same(&view)));
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(WAIT_PAUSE_MAX);
        }
    }

    // ---- inside ------------------------------------------------------------------------------------------

    fn insert_of(&self, key: &ClaimKey, claim: NewClaim, in_flight: bool) -> Result<Insert, Error> {
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

    async fn won(
        &self,
        insert: Insert,
        now: Option<Timestamp>,
        handed_over: Instant,
    ) -> Result<Answer, Error> {
        let options = &self.inner.options;
        let lease_room = options.lease.saturating_sub(insert.claim.declared.call_timeout);
        let send_in = match insert.claim.send_by {
            None => lease_room,
            Some(When::In(d)) => lease_room.min(d),
            Some(When::At(send_by)) => {
                // An absolute moment needs the database's clock at the insert.
                let created = match now {
                    Some(now) => Some(now),
                    None => self.find(&insert.key).await?.map(|view| view.facts.created_at),
                };
                lease_room.min(created.map_or(Duration::ZERO, |created| send_by.since(created)))
            }
        };
        let claim: Claim<InFlight> = self.claim_of(&insert, in_flight_facts(&insert), handed_over + send_in);
        if send_in.is_zero() {
            // Nothing is left to send in: a taking that is refused. Nothing was sent, so it expires.
            let key = insert.key.clone();
            let class = ErrorClass::from(ErrorClass::TOO_LATE);
            let _ = self
                .settle_outcome(claim, Outcome::NotSent { class }, Note::default(), None, Duration::ZERO)
                .await?;
            self.expire(&key).await?;
            return match self.find(&key).await? {
                Some(view) => Ok(Answer::of_same(&view)),
                None => Err(Error::NotFound(key.to_string())),
            };
        }
        Ok(Answer::Won(claim))
    }

    fn claim_of<S>(&self, insert: &Insert, facts: Facts, send_until: Instant) -> Claim<S> {
        Claim {
            key: insert.key.clone(),
            facts: Box::new(facts),
            idempotency_key: insert.idempotency_key.clone(),
            reference: insert.reference.clone(),
            kind: insert.claim.kind.clone(),
            fingerprint: insert.claim.fingerprint,
            send_until,
            state: PhantomData,
        }
    }

    /// What a duplicate learns. A mismatch is kept, on the store's own connection.
    async fn lost(&self, key: &ClaimKey, view: &ClaimView, asked: &Fingerprint) -> Result<Answer, Error> {
        if view.fingerprint != *asked {
            let (db, key, note) = (self.inner.db.clone(), key.clone(), mismatch(view, asked));
            self.inner
                .writer
                .run(async move { db.append_once("mismatch", &key, Verb::Mismatch, &note).await })
                .await?;
        }
        Ok(Answer::of(view, asked))
    }

    /// The same inside the caller's transaction, where the mismatch is kept too: on a connection of ours it would wait for the
    /// locks of that very transaction.
    async fn lost_in(
        &self,
        tx: &DatabaseTransaction,
        key: &ClaimKey,
        view: &ClaimView,
        asked: &Fingerprint,
    ) -> Result<Joined, Error> {
        if view.fingerprint != *asked {
            let (dialect, note) = (self.dialect(), mismatch(view, asked));
            append_once_in(tx, dialect, dialect.sql().row_in_caller, key, Verb::Mismatch, &note)
                .await
                .map_err(|e| self.in_transaction(e))?;
        }
        Ok(Joined::Lost(Answer::of(view, asked)))
    }

    /// What a failed statement means inside the caller's transaction.
    fn in_transaction(&self, e: DbErr) -> Error {
        let dialect = self.dialect();
        if dialect.is_whole_transaction_retry(&e) {
            Error::RetryTransaction(e)
        } else if dialect.is_not_immediate(&e) {
            Error::SqliteNotImmediate(e)
        } else {
            Error::InTransaction(e)
        }
    }

    async fn find_in(&self, tx: &DatabaseTransaction, key: &ClaimKey) -> Result<Option<ClaimView>, Error> {
        let dialect = self.dialect();
        let rows = tx
            .query_all_raw(bind::by_key(dialect, dialect.sql().row_in_caller, key))
            .await
            .map_err(|e| self.in_transaction(e))?;
        rows.first().map(ClaimView::read).transpose()
    }

    async fn expire(&self, key: &ClaimKey) -> Result<(), Error> {
        match self.ask("expire", key, Event::Expire, Note::default(), true).await? {
            Judged::Refused(why) => tracing::debug!(%key, why = chain(&why), "not expired"),
            Judged::Made { .. } | Judged::Missing => {}
        }
        Ok(())
    }
}

/// Both fingerprints; nothing of either request.
fn mismatch(view: &ClaimView, asked: &Fingerprint) -> Note {
    let detail = serde_json::json!({ "asked": asked.to_string(), "on_file": view.fingerprint.to_string() });
    Note { actor: Some("duplicate".into()), detail: detail.to_string(), ..Note::default() }
}

/// Longest pause between two looks of `wait`.
const WAIT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What the maker of a claim knows of its row, without reading it. The times are zero: a settle that needs them reads the row first.
fn held_facts(insert: &Insert) -> Facts {
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
