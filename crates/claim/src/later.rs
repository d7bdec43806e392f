//! Claims that are made without a call: their effect is performed later, by the sweep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::acquire::{Claimed, held_facts};
use crate::claim::{Claim, Held};
use crate::error::Error;
use crate::join::Joined;
use crate::key::ClaimKey;
use crate::new_claim::NewClaim;
use crate::state::State;
use crate::store::ClaimStore;
use crate::store::write::Inserted;

impl ClaimStore {
    /// Claims a message without beginning it, because its downstream is not to be called now: one insert, committed when this returns. The
    /// sweep begins it when it is due, `due_in` from now. So the message may be acknowledged although nothing was sent.
    ///
    /// Not the same as [`not_before`](NewClaim::not_before): that is a promise of the request, which nobody may break; `due_in` is when it
    /// is worth another look, and the holder may [begin](ClaimStore::begin) before.
    ///
    /// # Errors
    /// As [`ClaimStore::claim`].
    pub async fn claim_held(&self, key: &ClaimKey, new: NewClaim, due_in: Duration) -> Result<Joined, Error> {
        let mut insert = self.insert_of(key, new, false)?;
        insert.due_in = due_in;
        let insert = Arc::new(insert);
        let (db, sent) = (self.inner.db.clone(), insert.clone());
        match self.inner.writer.run(async move { db.insert(&sent).await }).await? {
            Inserted::New(_) => {
                let held = self.claim_of(&insert, held_facts(&insert), Instant::now(), Duration::ZERO);
                Ok(Joined::Held(held))
            }
            Inserted::Exists(view) => {
                self.lost(key, &view, &insert.claim.fingerprint).await.map(Joined::Lost)
            }
        }
    }

    /// What is on file of a held claim that is left to the sweep, because its downstream is not to be called now. `None`: the transaction in
    /// which it was made has not been committed, or was rolled back.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn left(&self, held: &Claim<Held>) -> Result<Option<Claimed>, Error> {
        let view = self.find(&held.key).await?;
        // A held claim with another token is another transaction's: ours was rolled back.
        let ours = view.filter(|v| v.facts.state != State::Held || v.facts.token == held.facts.token);
        Ok(ours.map(|view| Claimed::of(&view, &held.fingerprint)))
    }
}
