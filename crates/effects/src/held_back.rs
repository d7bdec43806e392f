//! What becomes of claims whose downstream is not to be called now: they are left to the sweep.

use std::sync::Arc;
use std::time::Duration;

use earmark_claim::{Claim, ClaimKey, Claimed, Held, Joined, NewClaim};
use serde_json::Value;

use crate::error::Error;
use crate::gate::{Gate, Halt, Pass};
use crate::outcome::Outcome;
use crate::registry::Entry;
use crate::run::{Earmark, count_created, count_mismatch, on_file};
use crate::telemetry;

impl Earmark {
    /// Why a downstream is not to be called now; `None`: it may be, as far as this process knows. Limits are not asked.
    ///
    /// # Errors
    /// [`Error::Store`] where the pauses have never been read.
    pub async fn halted(&self, downstream: &str) -> Result<Option<Halt>, Error> {
        self.parts.gates.know_pauses(&self.parts.store).await?;
        Ok(self.parts.gates.of(downstream).halted())
    }

    /// Whether calls to a downstream fail in a row, so that they are only sampled. Of this process.
    pub fn is_failing(&self, downstream: &str) -> bool {
        self.parts.gates.of(downstream).is_failing()
    }

    /// Lets one call through, or says why not.
    pub(crate) async fn admit(
        &self,
        gate: &Arc<Gate>,
        patience: Duration,
    ) -> Result<Result<Pass, Halt>, Error> {
        self.parts.gates.know_pauses(&self.parts.store).await?;
        let admitted = gate.admit(patience).await;
        match &admitted {
            // It may have been closed meanwhile; nothing is written yet.
            Ok(pass) if pass.waited() => self.open()?,
            Ok(_) => {}
            Err(halt) => count(gate.downstream(), *halt),
        }
        Ok(admitted)
    }

    /// The same for a look.
    pub(crate) async fn admit_look(&self, downstream: &str) -> Result<Pass, Error> {
        self.parts.gates.know_pauses(&self.parts.store).await?;
        self.parts.gates.of(downstream).admit_look().await.map_err(|halt| {
            count(downstream, halt);
            Error::HeldBack { downstream: downstream.to_owned(), halt }
        })
    }

    /// Claims the message without a call: it can be acknowledged, and the sweep performs the effect. A duplicate is answered as ever.
    pub(crate) async fn claim_and_leave(
        &self,
        key: &ClaimKey,
        entry: &Entry,
        new: NewClaim,
        halt: Halt,
    ) -> Result<Outcome<Value>, Error> {
        match self.parts.store.claim_held(key, new, halt.due_in()).await? {
            Joined::Held(held) => {
                count_created(key, entry);
                self.leave(held).await
            }
            Joined::Lost(Claimed::Mismatch) => {
                count_mismatch(key, entry);
                Ok(Outcome::Mismatch)
            }
            Joined::Lost(claimed) => on_file(claimed),
        }
    }

    /// Leaves a held claim to the sweep.
    pub(crate) async fn leave(&self, held: Claim<Held>) -> Result<Outcome<Value>, Error> {
        match self.parts.store.left(&held).await? {
            Some(claimed) => on_file(claimed),
            None => Err(Error::NotCommitted(Box::new(held))),
        }
    }

    /// The gate of a held claim: its kind is registered where it was made, as a rule.
    pub(crate) async fn gate_of(&self, held: &Claim<Held>) -> Result<Option<Arc<Gate>>, Error> {
        if let Some(entry) = self.parts.entries.get(held.kind()) {
            return Ok(Some(entry.gate.clone()));
        }
        let view = self.parts.store.find(held.key()).await?;
        Ok(view.map(|view| self.parts.gates.of(&view.downstream)))
    }
}

fn count(downstream: &str, halt: Halt) {
    metrics::counter!(telemetry::HELD_BACK, "downstream" => downstream.to_owned(), "result" => halt.as_str())
        .increment(1);
}
