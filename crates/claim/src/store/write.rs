//! The writes that are judged: one conditional update and its event, and how a lost acknowledgement is settled. The two that are not, the
//! insert and the ordinary confirmation, are in `ordinary.rs`.
//!
//! Everything here runs on the writer's runtime, in a task that no caller can cut.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement};

use tokio::sync::Semaphore;

use super::bind::{self, Apply, Note};
use super::connect::Pools;
use super::dialect::{Dialect, Fault};
use super::row::{ClaimView, EventView};
use super::tries::{Tries, outnumbered};
use super::tx::Tx;
use crate::claim::Token;
use crate::declared::Declared;
use crate::error::Error;
use crate::key::ClaimKey;
use crate::receipt::Answer;
use crate::state::{Closed, ClosedBy, Event, Move, Refused, Seen, State, Verb, next};
use crate::time::Timestamp;

/// The store's two pools and its patience.
pub(crate) struct Db {
    pub(crate) pools: Pools,
    pub(crate) contention_retries: u32,
    pub(super) patience: Duration,
    /// One place for rows of failed batches, and one for rows that strangers' transactions hold up.
    pub(super) alone: Semaphore,
    pub(super) held_up: Semaphore,
    /// One place for outcomes of failed batches.
    pub(super) confirmed_alone: Semaphore,
}

/// What is asked of a claim: an event to judge, and what to keep beside the move.
pub(crate) struct Ask {
    pub(crate) key: ClaimKey,
    pub(crate) event: Event,
    /// On which row it was decided; refused where that has moved.
    pub(crate) seen: Option<Seen>,
    /// What is registered now; the move is judged on the stricter of this and what is frozen.
    pub(crate) registered: Option<Declared>,
    /// The fresh token of a taking; minted once, so that a lost acknowledgement is recognised.
    pub(crate) token: Token,
    pub(crate) note: Note,
    /// The answer to keep as the receipt if the move confirms.
    pub(crate) receipt: Option<Answer>,
    /// Give up at once where somebody holds the row's lock.
    pub(crate) skip_locked: bool,
}

/// The answer to an [`Ask`].
pub(crate) enum Judged {
    /// Written and committed.
    Made {
        /// The row before.
        before: Box<ClaimView>,
        /// What was written.
        made: Box<Move>,
    },
    /// Nothing was written.
    Refused(Refused),
    /// There is no such claim; or, with `skip_locked`, somebody holds its lock.
    Missing,
}

/// Where a write failed: before its commit it is rolled back with its connection; at its commit nobody knows.
pub(super) enum Failed {
    Before(DbErr),
    AtCommit(DbErr),
    /// A row that cannot be read, or an error that is final.
    Final(Error),
}

impl Db {
    pub(super) fn new(pools: Pools, contention_retries: u32, patience: Duration) -> Self {
        let one = || Semaphore::new(1);
        Self { pools, contention_retries, patience, alone: one(), held_up: one(), confirmed_alone: one() }
    }

    // ---- moves -------------------------------------------------------------------------------------------

    /// Judges an event under the row's lock and writes the move and its history in one transaction.
    pub(crate) async fn judge(&self, what: &'static str, ask: &Ask) -> Result<Judged, Error> {
        let mut tries = Tries::new(self.contention_retries);
        // A taking of ours whose commit nobody acknowledged, and which was not there when it was read back: "not yet".
        let mut pending: Option<(Box<ClaimView>, Box<Move>, DbErr)> = None;
        loop {
            let mut asked = None;
            match self.judge_once(ask, &mut asked).await {
                Ok(judged @ Judged::Made { .. }) => return Ok(judged),
                Ok(judged) => {
                    let Some((before, made, source)) = pending.take() else { return Ok(judged) };
                    if self.is_written(what, ask, &before, &made).await? {
                        return Ok(Judged::Made { before, made });
                    }
                    // The server may be committing it still, and holds the row's lock meanwhile.
                    let Judged::Missing = judged else { return Ok(judged) };
                    tries.again(what, source.clone(), Fault::Unclear).await?;
                    pending = Some((before, made, source));
                }
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Before(e)) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(what, e, fault).await?;
                }
                Err(Failed::AtCommit(e)) => {
                    let fault = self.pools.dialect.fault(&e);
                    if fault == Fault::Unclear
                        && let Some((before, made)) = asked
                    {
                        if self.is_written(what, ask, &before, &made).await? {
                            return Ok(Judged::Made { before, made });
                        }
                        pending = made.set.taking.then(|| (before, made, e.clone()));
                    }
                    tries.again(what, e, fault).await?;
                }
            }
        }
    }

    /// Whether a move whose commit nobody acknowledged is there: a taking by its token; any other move by its event, since
    /// somebody else may have left the row in the very same state.
    async fn is_written(
        &self,
        what: &'static str,
        ask: &Ask,
        before: &ClaimView,
        made: &Move,
    ) -> Result<bool, Error> {
        if made.set.taking {
            let view = self.row_patiently(what, &ask.key).await?;
            return Ok(view.is_some_and(|view| view.facts.token == ask.token));
        }
        let dialect = self.pools.dialect;
        let history = self.read(what, bind::by_key(dialect, dialect.sql().history, &ask.key)).await;
        let revision = before.facts.revision + u64::from(made.new_fact);
        let written = reopening(before, made, &ask.note);
        for row in history.map_err(still_unclear)? {
            let event = EventView::read(&ask.key, &row)?;
            if event.name == made.verb.as_str()
                && (event.fence, event.revision) == (before.facts.fence, revision)
                && (&event.actor, &event.detail) == (&written.actor, &written.detail)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn judge_once(
        &self,
        ask: &Ask,
        asked: &mut Option<(Box<ClaimView>, Box<Move>)>,
    ) -> Result<Judged, Failed> {
        let (dialect, sql) = (self.pools.dialect, self.pools.dialect.sql());
        let lock = if ask.skip_locked { sql.lock_or_skip } else { sql.lock };
        let tx = self.begin().await.map_err(Failed::Before)?;
        let rows = tx.query_all_raw(bind::by_key(dialect, lock, &ask.key)).await.map_err(Failed::Before)?;
        let Some(row) = rows.first() else {
            tx.rollback().await.map_err(Failed::Before)?;
            return Ok(Judged::Missing);
        };
        let before = Box::new(ClaimView::read(row).map_err(Failed::Final)?);
        let mut facts = before.facts.clone();
        if let Some(registered) = &ask.registered {
            facts.declared = facts.declared.stricter(registered);
        }
        let event = self.with_known(&tx, ask).await.map_err(Failed::Before)?;
        let seen = ask.seen.map_or(Ok(()), |seen| seen.holds(&facts));
        let made = match seen.and_then(|()| next(&facts, &event)) {
            Ok(made) => Box::new(made),
            Err(why) => {
                tx.rollback().await.map_err(Failed::Before)?;
                return Ok(Judged::Refused(why));
            }
        };
        if made.verb == Verb::Contradict && before.answer.is_some() && before.purged_at.is_none() {
            tx.execute_raw(bind::keep_receipt(dialect, &ask.key)).await.map_err(|e| {
                // A mismatch is numbered without the row's lock, and may have taken the number.
                Failed::Before(if dialect.is_unique_violation(&e) { outnumbered() } else { e })
            })?;
        }
        let confirms = made.moves() && made.to == State::Confirmed;
        let apply = Apply {
            key: &ask.key,
            facts: &facts,
            made: &made,
            token: ask.token,
            receipt: ask.receipt.as_ref().filter(|_| confirms),
            same_revision: true,
        };
        let updated = tx.execute_raw(bind::apply(dialect, &apply)).await.map_err(Failed::Before)?;
        if updated.rows_affected() != 1 {
            // Time passed since the row was read: its lease was over then and is not now, or nothing is left to send in.
            tx.rollback().await.map_err(Failed::Before)?;
            let why = Refused::NothingLeft { why: "it was over when the statement ran" };
            return Ok(Judged::Refused(why));
        }
        let fence = facts.fence + u64::from(made.set.taking);
        let note = reopening(&before, &made, &ask.note);
        let event = bind::event(dialect, &ask.key, made.verb, fence, (made.from, made.to), &note);
        match tx.execute_raw(event).await {
            Ok(appended) if appended.rows_affected() == 1 => {}
            Ok(_) => return Err(Failed::Before(outnumbered())),
            Err(e) if dialect.is_unique_violation(&e) => return Err(Failed::Before(outnumbered())),
            Err(e) => return Err(Failed::Before(e)),
        }
        *asked = Some((before.clone(), made.clone()));
        tx.commit().await.map_err(Failed::AtCommit)?;
        Ok(Judged::Made { before, made })
    }

    /// A fact that is on file already is no new fact: the same source said the same before.
    async fn with_known(&self, tx: &Tx, ask: &Ask) -> Result<Event, DbErr> {
        let mut event = ask.event.clone();
        if let (Event::Evidence { known, .. }, Some(actor)) = (&mut event, &ask.note.actor) {
            let dialect = self.pools.dialect;
            let mut values = bind::key_values(dialect, &ask.key);
            values.extend([actor.clone().into(), ask.note.detail.clone().into()]);
            let rows = tx.query_all_raw(bind::statement(dialect, dialect.sql().fact_known, values)).await?;
            *known = !rows.is_empty();
        }
        Ok(event)
    }

    /// Keeps an event where nothing moves, unless the very same is on file: a mismatch.
    pub(crate) async fn append_once(
        &self,
        what: &'static str,
        key: &ClaimKey,
        verb: Verb,
        note: &Note,
    ) -> Result<(), Error> {
        let mut tries = Tries::new(self.contention_retries);
        loop {
            match self.append_once_inner(key, verb, note).await {
                Ok(()) => return Ok(()),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Before(e) | Failed::AtCommit(e)) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(what, e, fault).await?;
                }
            }
        }
    }

    async fn append_once_inner(&self, key: &ClaimKey, verb: Verb, note: &Note) -> Result<(), Failed> {
        let tx = self.begin().await.map_err(Failed::Before)?;
        let dialect = self.pools.dialect;
        append_once_in(&tx, dialect, dialect.sql().row, key, verb, note).await.map_err(Failed::Before)?;
        tx.commit().await.map_err(Failed::AtCommit)
    }

    /// Any other single write: retried while the server rolls it back, never where nobody knows.
    pub(crate) async fn execute(&self, what: &'static str, statement: Statement) -> Result<u64, Error> {
        let mut tries = Tries::new(self.contention_retries);
        loop {
            let done = async {
                let tx = self.begin().await?;
                let done = tx.execute_raw(statement.clone()).await?;
                tx.commit().await?;
                Ok::<_, DbErr>(done.rows_affected())
            };
            match done.await {
                Ok(rows) => return Ok(rows),
                Err(e) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(what, e, fault).await?;
                }
            }
        }
    }

    async fn begin(&self) -> Result<Tx, DbErr> {
        self.pools.begin().await
    }

    /// The frozen request; `None` when it was purged.
    pub(crate) async fn request(&self, key: &ClaimKey) -> Result<Option<Vec<u8>>, Error> {
        let dialect = self.pools.dialect;
        let rows = self.read("request", bind::by_key(dialect, dialect.sql().request, key)).await?;
        match rows.first() {
            Some(row) => row
                .try_get_by_index::<Option<Vec<u8>>>(0)
                .map_err(|e| Error::Malformed { key: key.to_string(), what: e.to_string() }),
            None => Ok(None),
        }
    }

    /// Any read, tried again while connections are lost.
    pub(crate) async fn read(
        &self,
        what: &'static str,
        statement: Statement,
    ) -> Result<Vec<QueryResult>, Error> {
        let mut tries = Tries::new(self.contention_retries);
        loop {
            match self.pools.read_rows(statement.clone()).await {
                Ok(rows) => return Ok(rows),
                Err(e) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(what, e, fault).await?;
                }
            }
        }
    }

    // ---- reading back ------------------------------------------------------------------------------------

    /// The row under a key, on a connection that wrote nothing.
    async fn row(&self, key: &ClaimKey) -> Result<Option<ClaimView>, Failed> {
        let dialect = self.pools.dialect;
        let statement = bind::by_key(dialect, dialect.sql().row, key);
        let rows = self.pools.read_rows(statement).await.map_err(Failed::Before)?;
        rows.first().map(ClaimView::read).transpose().map_err(Failed::Final)
    }

    /// The same, tried again while connections are lost. An error only when the database stays away.
    pub(crate) async fn row_patiently(
        &self,
        what: &'static str,
        key: &ClaimKey,
    ) -> Result<Option<ClaimView>, Error> {
        let mut tries = Tries::new(self.contention_retries);
        loop {
            match self.row(key).await {
                Ok(view) => return Ok(view),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Before(e) | Failed::AtCommit(e)) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(what, e, fault).await.map_err(still_unclear)?;
                }
            }
        }
    }
}

/// Keeps an event where nothing moves, unless the very same is on file, in any transaction, and without the row's lock: a mismatch
/// found inside a caller's transaction must neither wait for the claim's holder nor hold it up. `row`: how the row is read, which
/// an old snapshot of the caller's would not show.
pub(crate) async fn append_once_in(
    tx: &impl ConnectionTrait,
    dialect: Dialect,
    row: &'static str,
    key: &ClaimKey,
    verb: Verb,
    note: &Note,
) -> Result<(), DbErr> {
    let sql = dialect.sql();
    let mut known = bind::key_values(dialect, key);
    known.extend([note.actor.clone().unwrap_or_default().into(), note.detail.clone().into()]);
    let mut numbered = 0;
    while tx.query_all_raw(bind::statement(dialect, sql.fact_known, known.clone())).await?.is_empty() {
        let rows = tx.query_all_raw(bind::by_key(dialect, row, key)).await?;
        // The claim's own transaction is not committed yet, or it is gone: there is nothing to keep the event beside.
        let Some(row) = rows.first() else { return Ok(()) };
        let facts = ClaimView::read(row).map_err(|e| DbErr::Custom(e.to_string()))?.facts;
        let event = bind::event(dialect, key, verb, facts.fence, (facts.state, facts.state), note);
        match tx.execute_raw(event).await {
            Ok(appended) if appended.rows_affected() == 1 => return Ok(()),
            Ok(_) => {}
            Err(e) if dialect.is_unique_violation(&e) => {}
            Err(e) => return Err(e),
        }
        numbered += 1;
        if numbered > NUMBERING_RETRIES {
            return Err(outnumbered());
        }
    }
    Ok(())
}

/// A closing that is undone leaves no trace in the columns: the event that reopens the claim says when it was closed, and how.
fn reopening(before: &ClaimView, made: &Move, note: &Note) -> Note {
    let mut note = note.clone();
    if made.set.closed == Closed::Reopen
        && let Ok(serde_json::Value::Object(mut detail)) = serde_json::from_str(&note.detail)
    {
        detail.insert("closed_at".into(), before.closed_at.map(Timestamp::as_micros).into());
        detail.insert("closed_by".into(), before.closed_by.map(ClosedBy::as_str).into());
        note.detail = serde_json::Value::Object(detail).to_string();
    }
    note
}

/// What was being read back is still not known.
pub(super) fn still_unclear(error: Error) -> Error {
    match error {
        Error::Unavailable { what, source } | Error::Contention { what, source } => {
            Error::Unclear { what, source }
        }
        Error::Busy { what, .. } => {
            let source = DbErr::Custom("its turn to be tried again did not come in time".into());
            Error::Unclear { what, source }
        }
        other => other,
    }
}

/// How often an event is numbered anew because another one took its number.
const NUMBERING_RETRIES: u32 = 20;
