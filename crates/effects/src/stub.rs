//! A scripted effect and probe, always compiled, for users' own tests: no network, no timing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use earmark_claim::state::Finding;
use earmark_claim::{Declared, Failure, IdempotencyKey, Look, Permit};
use serde_json::{Value, json};

use crate::effect::Effect;
use crate::probe::{Probe, Subject};

/// What the scripted provider does with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Acts and answers.
    Done,
    /// Refuses for good.
    Refuse(&'static str),
    /// Nothing happens, and that is provable.
    NotSent(&'static str),
    /// Acts, but the answer is lost.
    ActThenLose,
    /// Does not act, and nobody can tell.
    Lose,
    /// Acts and never answers: the call is cut at its timeout.
    ActThenHang,
    /// The effect's own code panics, before anything is sent.
    Panic,
}

/// A provider with a script: each call takes the next step, and [`Step::Done`] when the script is over. Clones share it.
#[derive(Clone)]
pub struct Stub {
    kind: String,
    downstream: String,
    declared: Declared,
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    script: VecDeque<Step>,
    findings: VecDeque<Finding>,
    calls: Vec<IdempotencyKey>,
    effects: Vec<IdempotencyKey>,
    looks: u32,
    deduplicates: bool,
}

impl Stub {
    /// A stub of one kind. It deduplicates by key exactly when `declared` says [`Keyed`](earmark_claim::RepeatSafety::Keyed).
    pub fn new(kind: &str, declared: Declared) -> Self {
        let deduplicates = matches!(declared.repeat, earmark_claim::RepeatSafety::Keyed { .. });
        let world = World { deduplicates, ..World::default() };
        Self { kind: kind.into(), downstream: "stub".into(), declared, world: Arc::new(Mutex::new(world)) }
    }

    /// What it does, call by call.
    #[must_use]
    pub fn script(self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.with(|world| world.script.extend(steps));
        self
    }

    /// What its probe finds, look by look; when this is over it tells the truth.
    #[must_use]
    pub fn findings(self, findings: impl IntoIterator<Item = Finding>) -> Self {
        self.with(|world| world.findings.extend(findings));
        self
    }

    /// The keys of all calls that arrived, in order.
    pub fn calls(&self) -> Vec<IdempotencyKey> {
        self.with(|world| world.calls.clone())
    }

    /// The keys under which it acted, in order: one key twice is a doubled effect.
    pub fn effects(&self) -> Vec<IdempotencyKey> {
        self.with(|world| world.effects.clone())
    }

    /// How often its probe was asked.
    pub fn looks(&self) -> u32 {
        self.with(|world| world.looks)
    }

    fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn id_of(key: &IdempotencyKey) -> String {
        format!("stub_{}", key.as_str())
    }
}

impl World {
    fn act(&mut self, key: &IdempotencyKey) {
        if !self.deduplicates || !self.effects.contains(key) {
            self.effects.push(key.clone());
        }
    }
}

impl Effect for Stub {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        &self.kind
    }

    fn downstream(&self) -> &str {
        &self.downstream
    }

    fn declared(&self) -> Declared {
        self.declared.clone()
    }

    async fn perform(&self, permit: Permit<'_>, _request: &Value) -> Result<Value, Failure> {
        let key = permit.idempotency_key().clone();
        let step = self.with(|world| world.script.pop_front()).unwrap_or(Step::Done);
        if step == Step::Panic {
            #[allow(clippy::panic)] // scripted
            {
                panic!("scripted");
            }
        }
        permit.last_look()?;
        if matches!(step, Step::NotSent(_)) {
            return Err(Failure::not_sent("stub_not_sent"));
        }
        self.with(|world| {
            world.calls.push(key.clone());
            if matches!(step, Step::Done | Step::ActThenLose | Step::ActThenHang) {
                world.act(&key);
            }
        });
        match step {
            Step::Done => Ok(json!({ "id": Self::id_of(&key) })),
            Step::Refuse(class) => Err(Failure::refused(class)),
            Step::ActThenHang => std::future::pending().await,
            Step::ActThenLose | Step::Lose | Step::NotSent(_) | Step::Panic => {
                Err(Failure::unknown("stub_lost"))
            }
        }
    }

    fn provider_ref(&self, receipt: &Value) -> Option<String> {
        receipt.get("id")?.as_str().map(str::to_owned)
    }
}

impl Probe for Stub {
    async fn look(&self, about: &Subject<'_>) -> Look {
        let finding = self.with(|world| {
            world.looks += 1;
            world.findings.pop_front().unwrap_or_else(|| {
                if world.effects.contains(about.idempotency_key) {
                    Finding::Done { ids: vec![Self::id_of(about.idempotency_key)] }
                } else {
                    Finding::NotDone
                }
            })
        });
        Look { note: "scripted".into(), ..finding.into() }
    }
}
