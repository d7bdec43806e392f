//! Earmark through its public `run`, with an effect that does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use earmark_effects::claim::{ClaimKey, ClaimStore, Declared, Failure, Permit, RepeatSafety, StoreOptions};
use earmark_effects::{Earmark, Effect, Outcome};

use crate::load::{Load, Round, Slots, Timing, new_id};
use crate::payload::{Receipt, Request, receipt, request};

/// The lease of a service whose calls take some seconds.
const LEASE: Duration = Duration::from_secs(60);
/// For what is under way at the end of a round.
const CLOSE_GRACE: Duration = Duration::from_secs(60);

/// An effect that does nothing, but writes down when it was reached.
pub struct NoOp {
    pub slots: Arc<Slots>,
}

impl Effect for NoOp {
    type Request = Request;
    type Receipt = Receipt;

    fn kind(&self) -> &str {
        "benchmark.no_op"
    }

    fn downstream(&self) -> &str {
        "nobody"
    }

    fn declared(&self) -> Declared {
        Declared {
            repeat: RepeatSafety::Never,
            landing_horizon: Some(Duration::from_secs(60)),
            probe: None,
            call_timeout: Duration::from_secs(20),
            attempts_max: 5,
            age_max: Duration::from_secs(24 * 3600),
        }
    }

    async fn perform(&self, permit: Permit<'_>, request: &Request) -> Result<Receipt, Failure> {
        permit.last_look()?;
        self.slots.reach(request.slot);
        Ok(receipt())
    }
}

/// Earmark with that effect, on a store with its own defaults.
pub async fn earmark(url: &str, slots: &Arc<Slots>) -> Result<Earmark> {
    let store = ClaimStore::connect(url, StoreOptions::new(LEASE)).await?;
    Ok(Earmark::builder(store).effect(NoOp { slots: slots.clone() }).build()?)
}

/// Everything that is under way is recorded.
pub async fn close(earmark: &Earmark) -> Result<()> {
    match earmark.close(CLOSE_GRACE).await {
        0 => Ok(()),
        left => bail!("{left} effects are still under way after {CLOSE_GRACE:?}"),
    }
}

/// A load of new messages.
pub struct EarmarkRun {
    earmark: Earmark,
    slots: Arc<Slots>,
    consumer: String,
}

impl EarmarkRun {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let slots = Arc::new(Slots::new(round.tasks));
        Ok(Self { earmark: earmark(url, &slots).await?, slots, consumer: round.name.clone() })
    }
}

impl Load for EarmarkRun {
    async fn one(&self, task: usize, id: String) -> Result<Timing> {
        let begun = Instant::now();
        let key = ClaimKey::new(self.consumer.as_str(), id)?;
        match self.earmark.run::<NoOp>(&key, &request(task)).await? {
            Outcome::Confirmed(_) => Ok(self.slots.timing(task, begun, Instant::now())),
            other => bail!("a new message was answered with {other:?}"),
        }
    }

    fn effects(&self, _done: u64) -> u64 {
        self.slots.count()
    }

    async fn close(&self) -> Result<()> {
        close(&self.earmark).await
    }
}

/// Makes one confirmed claim for that consumer.
pub async fn one_claim(url: &str, consumer: &str) -> Result<()> {
    let slots = Arc::new(Slots::new(1));
    let load = EarmarkRun { earmark: earmark(url, &slots).await?, slots, consumer: consumer.to_owned() };
    load.one(0, new_id()).await?;
    load.close().await
}
