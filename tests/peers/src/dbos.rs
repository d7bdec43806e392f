//! DBOS Transact: `run` of a workflow with one step, which does nothing.

use std::sync::Arc;
use std::time::Instant;

use ::dbos::{Config, DBOS, RunOptions, WorkflowRef};
use anyhow::{Result, ensure};

use crate::load::{Load, Round, Slots, Timing};
use crate::payload::{Receipt, Request, receipt, request};

/// As the hand-written pattern; its default is ten.
const CONNECTIONS: u32 = 16;

pub struct Dbos {
    dbos: DBOS,
    workflow: WorkflowRef<Request, Receipt>,
    slots: Arc<Slots>,
    name: String,
}

impl Dbos {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let slots = Arc::new(Slots::new(round.tasks));
        let dbos = DBOS::new(Config {
            max_connections: CONNECTIONS,
            app_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..Config::new("benchmark", url)
        });
        let reached = slots.clone();
        let workflow = dbos.register_workflow("no-op", move |request: Request| {
            let slots = reached.clone();
            async move {
                let step = ::dbos::step("no-op", move || {
                    let slots = slots.clone();
                    async move {
                        slots.reach(request.slot);
                        ::dbos::Result::Ok(receipt())
                    }
                });
                step.await
            }
        })?;
        dbos.launch().await?;
        Ok(Self { dbos, workflow, slots, name: round.name.clone() })
    }
}

impl Load for Dbos {
    async fn one(&self, task: usize, id: String) -> Result<Timing> {
        let id = format!("{}/{id}", self.name);
        let begun = Instant::now();
        let options = RunOptions { workflow_id: Some(&id), ..RunOptions::default() };
        let receipt = self.workflow.run_with(request(task), options).await?;
        let ended = Instant::now();
        ensure!(!receipt.body.is_empty(), "a workflow answered with nothing");
        Ok(self.slots.timing(task, begun, ended))
    }

    fn effects(&self, _done: u64) -> u64 {
        self.slots.count()
    }

    async fn close(&self) -> Result<()> {
        self.dbos.shutdown().await;
        Ok(())
    }
}
