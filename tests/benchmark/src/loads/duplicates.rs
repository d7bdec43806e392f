//! Earmark's answer to a message that is finished: the receipt on file.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use earmark_effects::claim::ClaimKey;
use earmark_effects::{Earmark, Outcome};

use super::earmark::{NoOp, close, earmark};
use crate::load::{Load, Round, Slots, Timing, new_id};
use crate::payload::request;

/// How many finished claims a round asks for.
const KEYS: usize = 2_000;
/// How many of them are made at once.
const MAKERS: usize = 64;

/// A load of messages that were delivered before.
pub struct Duplicates {
    earmark: Earmark,
    slots: Arc<Slots>,
    keys: Vec<ClaimKey>,
}

impl Duplicates {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let slots = Arc::new(Slots::new(1));
        let earmark = earmark(url, &slots).await?;
        let keys = finished(&earmark, &round.name).await?;
        Ok(Self { earmark, slots, keys })
    }
}

impl Load for Duplicates {
    async fn one(&self, _task: usize, _id: String) -> Result<Timing> {
        let key = &self.keys[fastrand::usize(..self.keys.len())];
        let begun = Instant::now();
        match self.earmark.run::<NoOp>(key, &request(0)).await? {
            Outcome::Confirmed(_) => Ok(Timing { claim: begun.elapsed(), settle: None }),
            other => bail!("a finished message was answered with {other:?}"),
        }
    }

    /// Those of the preparation; a duplicate that performs one shows as a difference to the rows.
    fn effects(&self, _done: u64) -> u64 {
        self.slots.count()
    }

    async fn close(&self) -> Result<()> {
        close(&self.earmark).await
    }
}

/// Makes finished claims for that consumer.
async fn finished(earmark: &Earmark, consumer: &str) -> Result<Vec<ClaimKey>> {
    let keys = (0..KEYS).map(|_| ClaimKey::new(consumer, new_id()));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let makers: Vec<_> = keys
        .chunks(KEYS.div_ceil(MAKERS))
        .map(|chunk| {
            let (earmark, chunk) = (earmark.clone(), chunk.to_vec());
            tokio::spawn(async move {
                for key in chunk {
                    if !earmark.run::<NoOp>(&key, &request(0)).await?.is_confirmed() {
                        bail!("a new message was not confirmed");
                    }
                }
                Ok(())
            })
        })
        .collect();
    for maker in makers {
        maker.await??;
    }
    Ok(keys)
}

/// Makes finished claims for that consumer, and answers their message ids.
pub async fn finished_ids(url: &str, consumer: &str) -> Result<Vec<String>> {
    let earmark = earmark(url, &Arc::new(Slots::new(1))).await?;
    let keys = finished(&earmark, consumer).await?;
    close(&earmark).await?;
    Ok(keys.iter().map(|key| key.message_id().to_owned()).collect())
}
