//! `agent-effects`: an effect with its input, whose action does nothing.

use std::sync::Arc;
use std::time::Instant;

use ::agent_effects::{EffectFailure, EffectKind, EffectOutcome, Runtime};
use agent_effects_postgres::{PostgresOptions, PostgresStore};
use anyhow::{Result, bail};

use crate::load::{Load, Round, Slots, Timing};
use crate::payload::{receipt, request};

/// The pool with which it was fastest.
const CONNECTIONS: u32 = 32;
/// Where its tables are, as its documentation shows.
const SCHEMA: &str = "agent_effects";

pub struct AgentEffects {
    runtime: Runtime<PostgresStore>,
    slots: Arc<Slots>,
    name: String,
}

impl AgentEffects {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let store = PostgresOptions::new().schema(SCHEMA).max_connections(CONNECTIONS).connect(url).await?;
        let slots = Arc::new(Slots::new(round.tasks));
        Ok(Self { runtime: Runtime::new(store), slots, name: round.name.clone() })
    }
}

impl Load for AgentEffects {
    async fn one(&self, task: usize, id: String) -> Result<Timing> {
        let begun = Instant::now();
        let slots = self.slots.clone();
        let outcome = self
            .runtime
            .effect(self.name.as_str(), id)
            .kind(EffectKind::IrreversibleWrite)
            .input(&request(task))
            .run(move |_context| {
                let slots = slots.clone();
                async move {
                    slots.reach(task);
                    Ok::<_, EffectFailure>(receipt())
                }
            })
            .await?;
        match outcome {
            EffectOutcome::Committed(_) => Ok(self.slots.timing(task, begun, Instant::now())),
            other => bail!("a new effect was answered with {other:?}"),
        }
    }

    fn effects(&self, _done: u64) -> u64 {
        self.slots.count()
    }
}
