//! What a batch leaves over: the losers, the rows of which the database does not say whether they are written, and each row of a batch
//! that failed.

use std::sync::Arc;
use std::time::Instant;

use sea_orm::DbErr;

use super::queue::{Claiming, Confirming};
use super::{Blocked, Group};
use crate::key::ClaimKey;
use crate::store::ordinary::{First, Inserted, is_confirmed_by};

impl Group {
    /// What the losers of a batch lost to, in one read.
    pub(super) async fn read_for_all(self: Arc<Self>, lost: Vec<Claiming>, handed_over: Instant) {
        let keys: Vec<&ClaimKey> = lost.iter().map(|claim| &claim.job.key).collect();
        let mut found = match self.db.rows(&keys).await {
            Ok(found) => found,
            // Each for itself, then. It may be ours all the same, and then since the batch: see below.
            Err(_) => {
                for claim in lost {
                    let first = First::Failed { error: not_told(), handed_over };
                    self.tasks.spawn(self.clone().insert_alone(claim, first));
                }
                return;
            }
        };
        for claim in lost {
            match found.remove(&claim.job.key) {
                // Where the database does not say which rows it wrote; or an earlier try of the same insert, of which nobody knew.
                Some(view) if view.facts.token == claim.job.token => {
                    claim.answer(Ok(Inserted::New { at: None, handed_over }));
                }
                Some(view) => claim.answer(Ok(Inserted::Exists(Box::new(view)))),
                None => {
                    self.tasks.spawn(self.clone().insert_alone(claim, First::Try));
                }
            }
        }
    }

    /// Which outcomes of a batch were written, in one read, where the database told only how many.
    pub(super) async fn read_outcomes(self: Arc<Self>, untold: Vec<Confirming>, handed_over: Instant) {
        let keys: Vec<&ClaimKey> = untold.iter().map(|confirm| &confirm.job.key).collect();
        let found = self.db.rows(&keys).await;
        for confirm in untold {
            match &found {
                Ok(found) => {
                    let view = found.get(&confirm.job.key);
                    let is_written = view.is_some_and(|view| is_confirmed_by(view, confirm.job.facts.token));
                    confirm.answer(Ok(is_written));
                }
                Err(_) => self.confirm_alone(confirm, First::Failed { error: not_told(), handed_over }),
            }
        }
    }

    /// One outcome by itself.
    pub(super) fn confirm_alone(&self, confirm: Confirming, first: First) {
        let db = self.db.clone();
        self.tasks.spawn(async move {
            let written = db.confirm(&confirm.job, first).await;
            confirm.answer(written);
        });
    }

    /// One claim by itself; when it turns out that a stranger's transaction holds its key, in the lane of those.
    pub(super) async fn insert_alone(self: Arc<Self>, claim: Claiming, first: First) {
        let mut hold = None;
        let blocked = || hold = Some(self.block(claim.id));
        let inserted = self.db.insert(&claim, first, Some(blocked)).await;
        claim.answer(inserted);
        drop(hold);
    }

    /// One claim whose key a stranger's transaction is known to hold.
    pub(super) async fn insert_blocked(self: Arc<Self>, claim: Claiming, hold: Blocked) {
        let inserted = self.db.insert(&claim, First::Try, None::<fn()>).await;
        claim.answer(inserted);
        drop(hold);
    }
}

/// A row of a committed batch of which nobody said whether it was written: as after a lost acknowledgement, it is read back.
fn not_told() -> DbErr {
    DbErr::Custom("whether this row of a batch was written could not be read".into())
}
