//! Claims that are made without a call: their effect is performed later, by the sweep.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Claimed, held_facts};
use crate::claim::{Claim, Held};
use crate::error::Error;
use crate::join::Joined;
use crate::key::ClaimKey;
use crate::new_claim::NewClaim;
use crate::state::State;
use crate::store::ClaimStore;
use crate::store::group::answered;
use crate::store::ordinary::Inserted;

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
        let once = std::iter::once(insert.clone());
        let answer = self.inner.group.claim(&self.inner.writer, once).await?.pop();
        match answered("claim", answer).await? {
            Inserted::New { handed_over, .. } => {
                let held = self.claim_of(&insert, held_facts(&insert), handed_over, Duration::ZERO);
                Ok(Joined::Held(held))
            }
            Inserted::Exists(view) if view.fingerprint == insert.claim.fingerprint => {
                Ok(Joined::Lost(Claimed::of_same(&view)))
            }
            Inserted::Exists(view) => {
                self.mismatched(key, &view, &insert.claim.fingerprint).await.map(Joined::Lost)
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
