//! Phase one inside the caller's own transaction, and the begin that can only follow its commit.

use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};

use crate::acquire::{Claimed, held_facts, mismatch};
use crate::claim::{Claim, Held};
use crate::error::Error;
use crate::key::{ClaimKey, Fingerprint};
use crate::new_claim::NewClaim;
use crate::state::{Refused, State, Taking, Verb};
use crate::store::ClaimStore;
use crate::store::bind;
use crate::store::row::ClaimView;
use crate::store::write::append_once_in;
use crate::take::{Started, Taken};
use crate::time::Timestamp;

/// What `claim_in` and `claim_held` answer: a held claim, or what it lost to.
#[derive(Debug)]
#[must_use = "a duplicate is a value here, not an error"]
pub enum Joined {
    /// By `claim_in`: written in your transaction. It can begin only after that has been committed; if the process dies after the
    /// commit, the sweep performs it; if the transaction is rolled back, it never was. By `claim_held`: committed.
    Held(Claim<Held>),
    /// The key exists; your transaction goes on.
    Lost(Claimed),
}

/// What `begin` answers.
#[derive(Debug)]
#[must_use = "only a begun claim may be performed"]
pub enum Begun {
    /// In flight: perform the effect, then settle.
    Started(Started),
    /// The transaction in which the claim was made has not been committed (or was rolled back).
    NotCommitted(Claim<Held>),
    /// Not to be sent yet; the sweep begins it, not before then.
    NotYet {
        /// From when.
        from: Timestamp,
    },
    /// The sweep, or another process, was faster; or the claim was called off.
    Gone(Claimed),
}

impl ClaimStore {
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
        let (written, clash) = if dialect.insert_returns() {
            let rows = tx.query_all_raw(statement).await.map_err(|e| self.in_transaction(e))?;
            (!rows.is_empty(), None)
        } else {
            match tx.execute_raw(statement).await {
                Ok(_) => (true, None),
                Err(e) if dialect.is_unique_violation(&e) => (false, Some(e)),
                Err(e) => return Err(self.in_transaction(e)),
            }
        };
        if written {
            let held = self.claim_of(&insert, held_facts(&insert), Instant::now(), Duration::ZERO);
            return Ok(Joined::Held(held));
        }
        // A duplicate only if there is a claim under the very key; else another constraint was violated.
        match (self.find_in(tx, key).await?, clash) {
            (Some(view), _) => self.lost_in(tx, key, &view, &insert.claim.fingerprint).await,
            (None, Some(e)) => Err(self.in_transaction(e)),
            (None, None) => Err(Error::NotFound(key.to_string())),
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
            Taken::Started(started) => Ok(Begun::Started(started)),
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
            Some(view) => Ok(Begun::Gone(Claimed::of(&view, &held.fingerprint))),
            None => Err(Error::NotFound(held.key.to_string())),
        }
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
        Ok(Joined::Lost(Claimed::of(view, asked)))
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
}
