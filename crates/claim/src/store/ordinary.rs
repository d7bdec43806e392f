//! The two ordinary writes, each by itself: one insert makes a claim, one conditional update confirms it.
//!
//! Everything here runs on the writer's runtime, in a task that no caller can cut.

use std::collections::HashMap;
use std::time::Instant;

use sea_orm::{ConnectionTrait, DbErr, QueryResult};

use super::bind::{self, Apply, Insert, Note};
use super::dialect::Fault;
use super::group::Claiming;
use super::row::ClaimView;
use super::tries::{Tries, gone};
use super::write::Db;
use crate::claim::{Claim, InFlight, Token};
use crate::error::Error;
use crate::key::ClaimKey;
use crate::receipt::Answer;
use crate::state::{Changes, Closed, ClosedBy, Due, Facts, LastEnd, Move, State, Verb, Window};
use crate::time::Timestamp;

/// What became of an insert.
pub(crate) enum Inserted {
    /// It is committed, and it is ours.
    New {
        /// The clock of its statement, where the database returns it.
        at: Option<Timestamp>,
        /// Right before the statement was handed over: deadlines count from here.
        handed_over: Instant,
    },
    /// Somebody's claim is there.
    Exists(Box<ClaimView>),
}

/// The first end of the first attempt, known to have happened: one update, no event, since the columns tell it all.
pub(crate) struct Confirm {
    pub(crate) key: ClaimKey,
    pub(crate) facts: Box<Facts>,
    made: Move,
    pub(crate) receipt: Option<Answer>,
}

impl Confirm {
    /// `None` where the move is any other than the ordinary one, which the text of the batch has in it. Takes the answer out of the note.
    pub(crate) fn of(claim: &Claim<InFlight>, made: Move, note: &mut Note) -> Option<Self> {
        let ordinary = Move {
            verb: Verb::Confirm,
            from: State::InFlight,
            to: State::Confirmed,
            new_fact: true,
            only_if_due: false,
            not_after: None,
            set: Changes {
                doubt: false,
                contradicted: false,
                taking: false,
                due: Due::Never,
                window: Window::Keep,
                last_end: LastEnd::Now,
                attempts: 1,
                repeats_granted: 0,
                ruled: false,
                looks: 0,
                closed: Closed::By(ClosedBy::Answer),
                error_class: None,
                // Whatever it is, it goes along.
                provider_ref: made.set.provider_ref.clone(),
                landing_horizon: None,
            },
        };
        (made == ordinary).then(|| Self {
            key: claim.key.clone(),
            facts: claim.facts.clone(),
            made,
            receipt: note.answer.take(),
        })
    }

    pub(crate) fn provider_ref(&self) -> Option<&str> {
        self.made.set.provider_ref.as_deref()
    }

    fn apply(&self) -> Apply<'_> {
        Apply {
            key: &self.key,
            facts: &self.facts,
            made: &self.made,
            token: self.facts.token,
            receipt: self.receipt.as_ref(),
            same_revision: false,
        }
    }
}

/// How an ordinary write by itself begins.
#[derive(Clone)]
pub(crate) enum First {
    /// With the statement.
    Try,
    /// With an error of the statement, which has been handed over already.
    Failed { error: DbErr, handed_over: Instant },
}

impl Db {
    /// How each row of a failed batch goes on: whatever was wrong with one of them says nothing of the others, unless nobody knows
    /// whether all of them were committed.
    pub(super) fn first_of(&self, error: DbErr, handed_over: Instant) -> First {
        match self.pools.dialect.fault(&error) {
            Fault::Unclear => First::Failed { error, handed_over },
            Fault::Contention | Fault::Unavailable | Fault::Rejected => First::Try,
        }
    }

    /// Whether a batch that failed so may succeed as it is: not while one of its rows is held by somebody.
    pub(super) fn is_worth_another_try(&self, error: &DbErr) -> bool {
        let dialect = self.pools.dialect;
        dialect.fault(error) == Fault::Contention && !dialect.is_lock_timeout(error)
    }

    // ---- claim -------------------------------------------------------------------------------------------

    /// Inserts a claim. The token in it settles a lost acknowledgement: the row that bears it is ours. `blocked` is called once, when a
    /// stranger's open transaction is found to hold the key: it is waited for until the deadline. `None`: that is known already.
    pub(super) async fn insert(
        &self,
        claim: &Claiming,
        first: First,
        mut blocked: Option<impl FnOnce()>,
    ) -> Result<Inserted, Error> {
        const WHAT: &str = "claim";
        let (insert, deadline) = (&*claim.job, claim.deadline);
        let dialect = self.pools.dialect;
        let mut tries = Tries::new(self.contention_retries);
        let mut first = Some(first);
        // Why it was not written at the last try.
        let mut held = None;
        // A read-back renews nothing: from the first statement on of which nobody knows.
        let mut since = None;
        loop {
            let (failed, handed_over) = match first.take() {
                Some(First::Failed { error, handed_over }) => (Some(error), handed_over),
                Some(First::Try) | None => {
                    // One connection at most tries rows alone, and one waits for strangers; the batches keep theirs.
                    let lane = if blocked.is_some() { &self.alone } else { &self.held_up };
                    let Ok(turn) = tokio::time::timeout_at(deadline.into(), lane.acquire()).await else {
                        return Err(tries.given_up(match held {
                            Some(source) => Error::Contention { what: WHAT, source },
                            None => Error::Busy { what: WHAT, waited: self.patience },
                        }));
                    };
                    let _turn = turn.map_err(|_| Error::Closed)?;
                    // Nobody would perform it. What may be written already is still looked for, though nobody is told.
                    if since.is_none() && claim.is_abandoned() {
                        return Err(Error::Closed);
                    }
                    let handed_over = Instant::now();
                    match self.insert_alone(insert, blocked.is_some()).await {
                        Ok(Some(at)) => {
                            let handed_over = since.unwrap_or(handed_over);
                            return Ok(Inserted::New { at, handed_over });
                        }
                        Ok(None) => (None, handed_over),
                        Err(error) => (Some(error), handed_over),
                    }
                }
            };
            let duplicate = failed.as_ref().is_none_or(|e| dialect.is_unique_violation(e));
            let fault = failed.as_ref().map(|e| dialect.fault(e));
            if fault == Some(Fault::Unclear) {
                since.get_or_insert(handed_over);
            }
            if duplicate || fault == Some(Fault::Unclear) {
                // On another connection, so that what is found is committed.
                match self.row_patiently(WHAT, &insert.key).await? {
                    Some(view) if view.facts.token == insert.token => {
                        let handed_over = since.unwrap_or(handed_over);
                        return Ok(Inserted::New { at: None, handed_over });
                    }
                    Some(view) => return Ok(Inserted::Exists(Box::new(view))),
                    // No claim under this key: another constraint was violated, and that is not ours to swallow.
                    None => match failed {
                        Some(source) if duplicate => return Err(Error::Rejected { what: WHAT, source }),
                        // "Nothing there" means "not yet": the same insert with the same token, until somebody answers.
                        failed => {
                            let error = failed.unwrap_or_else(gone);
                            tries.again(WHAT, error, fault.unwrap_or(Fault::Contention)).await?;
                            continue;
                        }
                    },
                }
            }
            let error = failed.unwrap_or_else(gone);
            if dialect.is_lock_timeout(&error) {
                if let Some(blocked) = blocked.take() {
                    blocked();
                }
                held = Some(error.clone());
                tries.again_until(deadline, WHAT, error).await?;
            } else {
                tries.again(WHAT, error, fault.unwrap_or(Fault::Contention)).await?;
            }
        }
    }

    /// One insert in a lane. `briefly`: others wait behind it who know nothing of a held key.
    async fn insert_alone(&self, insert: &Insert, briefly: bool) -> Result<Option<Option<Timestamp>>, DbErr> {
        let dialect = self.pools.dialect;
        if dialect.shows_held_keys() {
            // Nor may it wait later: an insert that waits for a row keeps the lock of AUTO_INCREMENT from all others.
            let asked = bind::by_key(dialect, dialect.sql().held, &insert.key);
            let tx = self.pools.begin_claim().await?;
            tx.query_all_raw(asked).await?;
            tx.commit().await?;
        } else if briefly && dialect.autocommit_is_safe() {
            let tx = self.pools.begin_claim_briefly().await?;
            let rows = tx.query_all_raw(bind::claim(dialect, insert)).await?;
            tx.commit().await?;
            return created(&rows);
        }
        self.insert_once(insert).await
    }

    /// `Some(clock)` when the row was written, `None` when the key exists.
    pub(super) async fn insert_once(&self, insert: &Insert) -> Result<Option<Option<Timestamp>>, DbErr> {
        let statement = bind::claim(self.pools.dialect, insert);
        if self.pools.dialect.insert_returns() {
            return created(&self.pools.query_claim(statement).await?);
        }
        self.pools.execute_claim(statement).await?;
        Ok(Some(None))
    }

    // ---- settle ------------------------------------------------------------------------------------------

    /// The ordinary settle. `false`: the row is not as the holder left it, or nobody knows; then the event is judged on the row as it is.
    pub(super) async fn confirm(&self, confirm: &Confirm, first: First) -> Result<bool, Error> {
        const WHAT: &str = "settle";
        let mut tries = Tries::new(self.contention_retries);
        let (mut first, mut unclear) = (Some(first), false);
        loop {
            let error = match first.take() {
                Some(First::Failed { error, .. }) => error,
                Some(First::Try) | None => match self.confirm_in_turn(confirm).await? {
                    // By an earlier try of ours, which nobody acknowledged, or by somebody else.
                    Ok(false) if unclear => {
                        let view = self.row_patiently(WHAT, &confirm.key).await?;
                        return Ok(view.is_some_and(|view| is_confirmed_by(&view, confirm.facts.token)));
                    }
                    Ok(written) => return Ok(written),
                    Err(error) => error,
                },
            };
            let fault = self.pools.dialect.fault(&error);
            unclear |= fault == Fault::Unclear;
            if fault == Fault::Unclear
                && let Some(view) = self.row_patiently(WHAT, &confirm.key).await?
                && is_confirmed_by(&view, confirm.facts.token)
            {
                return Ok(true);
            }
            tries.again(WHAT, error, fault).await?;
        }
    }

    /// A batch of one.
    pub(super) async fn confirm_once(&self, confirm: &Confirm) -> Result<bool, DbErr> {
        let statement = bind::apply(self.pools.dialect, &confirm.apply());
        Ok(self.pools.execute_claim(statement).await?.rows_affected() == 1)
    }

    /// One by itself, on a connection for every other write, of which those that are tried alone have one at most.
    async fn confirm_in_turn(&self, confirm: &Confirm) -> Result<Result<bool, DbErr>, Error> {
        let _turn = self.confirmed_alone.acquire().await.map_err(|_| Error::Closed)?;
        Ok(self.confirm_alone(confirm).await)
    }

    async fn confirm_alone(&self, confirm: &Confirm) -> Result<bool, DbErr> {
        let tx = self.pools.begin_briefly().await?;
        let done = tx.execute_raw(bind::apply(self.pools.dialect, &confirm.apply())).await?;
        tx.commit().await?;
        Ok(done.rows_affected() == 1)
    }

    // ---- reading back ------------------------------------------------------------------------------------

    /// The rows under these keys that there are, in one read, on a connection that wrote nothing.
    pub(super) async fn rows(&self, keys: &[&ClaimKey]) -> Result<HashMap<ClaimKey, ClaimView>, Error> {
        let statement = bind::by_keys(self.pools.dialect, self.pools.dialect.sql().rows, keys);
        let rows = self.read("claim", statement).await?;
        rows.iter().map(|row| ClaimView::read(row).map(|view| (view.key.clone(), view))).collect()
    }
}

/// What an insert answers that returns its row.
fn created(rows: &[QueryResult]) -> Result<Option<Option<Timestamp>>, DbErr> {
    match rows.first() {
        None => Ok(None),
        Some(row) => {
            let created: i64 = row.try_get_by_index(0)?;
            Ok(Some(Some(Timestamp::from_micros(created))))
        }
    }
}

/// Whether a row is as our own confirmation left it: not somebody's evidence, which leaves the same state and token and not our receipt.
pub(super) fn is_confirmed_by(view: &ClaimView, token: Token) -> bool {
    view.facts.token == token && view.closed_by == Some(ClosedBy::Answer)
}
