//! The broker, in the parent: delivers at least once, keeps what is not acknowledged, kills by plan, starts again.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;

use anyhow::{Context, bail};
use tokio::sync::mpsc;

use super::messages::MessageId;
use super::plan::{Kill, Plan, Planned, SERVICES};
use super::processes::Child;
use super::progress::Progress;
use super::provider::Provider;
use super::subscriber::{Event, Job, Service, listen};
use super::wire::{Delivery, Said, Setup, Told};

/// A message that was handed back this often goes to the dead letters.
const DELIVERIES_MAX: u32 = 12;
/// A message that is handed back comes again after so many others.
const AGAIN_AFTER: usize = 20;
/// How far ahead of one that has to wait others are handed out.
const LOOK_AHEAD: usize = 32;
/// A service that ends by itself so often is broken.
const CRASHES_MAX: u32 = 3;

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    pub(super) deliveries: u64,
    /// Names of the processes that were killed.
    pub(super) killed: Vec<String>,
    /// Messages of which another content came and was told apart.
    pub(super) mismatches: HashSet<MessageId>,
    pub(super) dead_letters: u64,
}

pub(super) struct Broker<'a> {
    provider: &'a mut Provider,
    /// Of the services; the process is named anew for each incarnation.
    setup: Setup,
    folder: PathBuf,
    queue: VecDeque<Job>,
    last: VecDeque<Job>,
    kills: Vec<Kill>,
    /// Deliveries that a kill is due with, and that were handed out.
    due: HashSet<usize>,
    /// The service that is about to be killed, once the downstream has taken note.
    doomed: Option<(usize, Kill)>,
    services: Vec<Service>,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    crashes: u32,
    done: Delivered,
}

impl<'a> Broker<'a> {
    pub(super) fn new(provider: &'a mut Provider, setup: Setup, folder: PathBuf, plan: &Plan) -> Self {
        let jobs = |planned: &[Planned]| -> VecDeque<Job> {
            let job = |(number, planned): (usize, &Planned)| Job {
                number,
                planned: planned.clone(),
                deliveries: 0,
            };
            planned.iter().enumerate().map(job).collect()
        };
        Self {
            provider,
            setup,
            folder,
            queue: jobs(&plan.deliveries),
            last: jobs(&plan.last),
            kills: plan.kills.clone(),
            due: HashSet::new(),
            doomed: None,
            services: (0..SERVICES).map(|_| Service::default()).collect(),
            events: mpsc::unbounded_channel(),
            crashes: 0,
            done: Delivered::default(),
        }
    }

    /// Delivers everything until it is acknowledged.
    pub(super) async fn run(mut self, progress: &mut Progress) -> anyhow::Result<Delivered> {
        let total = self.queue.len() + self.last.len();
        for at in 0..SERVICES {
            self.start(at).await?;
        }
        loop {
            self.hand_out().await;
            self.doom().await;
            if self.is_over() {
                break;
            }
            tokio::select! {
                Some(event) = self.events.1.recv() => self.heard(event).await?,
                told = self.provider.next() => self.told(told?),
            }
            progress.bar(total - self.queue.len() - self.last.len() - self.held(), total);
        }
        for service in &mut self.services {
            if let Some(child) = service.child.take() {
                child.end().await?;
            }
        }
        Ok(self.done)
    }

    fn held(&self) -> usize {
        self.services.iter().map(|s| s.unacknowledged.len() + s.again.len()).sum()
    }

    /// Everything is acknowledged, and whoever was killed is up again.
    fn is_over(&self) -> bool {
        let idle = self.queue.is_empty() && self.last.is_empty() && self.held() == 0;
        idle && self.kills.is_empty() && self.doomed.is_none() && self.services.iter().all(|s| s.ready)
    }

    fn name(&self, at: usize) -> String {
        let letter = ["a", "b"][at];
        let account = self.setup.account.as_str();
        format!("{account}-service-{letter}/{}", self.services[at].incarnation)
    }

    async fn start(&mut self, at: usize) -> anyhow::Result<()> {
        self.services[at].incarnation += 1;
        let process = self.name(at);
        let setup = Setup { process: process.clone(), ..self.setup.clone() };
        let file = process.split('/').next().unwrap_or_default();
        let (child, voice) =
            Child::start("service", &setup, &self.folder.join(format!("{file}.log"))).await?;
        self.services[at].child = Some(child);
        tokio::spawn(listen(voice, at, self.events.0.clone()));
        Ok(())
    }

    async fn hand_out(&mut self) {
        loop {
            let first = |s: &Service| s.has_room() && !s.again.is_empty();
            if let Some(n) = self.services.iter().position(first) {
                if let Some(job) = self.services[n].again.pop_front() {
                    self.deliver(n, job).await;
                }
                continue;
            }
            if self.queue.is_empty() && self.held() == 0 {
                self.queue = std::mem::take(&mut self.last);
            }
            // A kill that is due has its moment with the message that was handed out last: later ones wait for it, and for who was killed.
            if (self.due().is_some() && self.held() > 0) || self.services.iter().any(|s| !s.ready) {
                return;
            }
            let next = self.queue.iter().take(LOOK_AHEAD).position(|job| self.may_go(&job.planned));
            let Some(job) = next.and_then(|at| self.queue.remove(at)) else { return };
            if self.kills.iter().any(|kill| kill.with == job.number) {
                self.due.insert(job.number);
            }
            self.deliver(job.planned.service, job).await;
        }
    }

    /// As brokers do, a message that somebody has is kept back; only where a rebalance or a lock that ran out is played, both have it.
    fn may_go(&self, planned: &Planned) -> bool {
        let has = |s: &Service| s.jobs().any(|job| job.planned.message.id() == planned.message.id());
        self.services[planned.service].has_room() && (planned.overlaps || !self.services.iter().any(has))
    }

    async fn deliver(&mut self, at: usize, mut job: Job) {
        self.done.deliveries += 1;
        job.deliveries += 1;
        let delivery = Delivery { n: self.done.deliveries, message: job.planned.message.clone() };
        let service = &mut self.services[at];
        service.unacknowledged.insert(delivery.n, job);
        if let Some(child) = &mut service.child {
            child.send(&delivery).await;
        }
    }

    fn due(&self) -> Option<Kill> {
        let idle = self.queue.is_empty() && self.held() == 0;
        self.kills.iter().copied().find(|kill| idle || self.due.contains(&kill.with))
    }

    /// Picks who is killed next, if it is time and the condition holds.
    async fn doom(&mut self) {
        if self.queue.is_empty() && self.held() == 0 {
            // Nothing is left to be called: these have missed their moment.
            self.kills.retain(|kill| !kill.in_call);
        }
        let Some(kill) = self.due() else { return };
        if self.doomed.is_some() || self.services.iter().any(|s| !s.ready) {
            return;
        }
        let planned = [kill.service, (kill.service + 1) % SERVICES];
        let victim = if kill.in_call {
            planned.into_iter().find(|at| self.provider.holds(&self.name(*at)))
        } else {
            Some(kill.service)
        };
        if let Some(at) = victim {
            self.kills.retain(|other| *other != kill);
            self.doomed = Some((at, kill));
            let name = self.name(at);
            self.provider.note(&name).await;
        }
    }

    fn told(&mut self, told: Told) {
        let Told::Noted { process, open } = told else { return };
        let Some((at, kill)) = self.doomed.take().filter(|(at, _)| self.name(*at) == process) else { return };
        if kill.in_call && open == 0 {
            // Answered in the meantime: the next call, then.
            self.kills.insert(0, kill);
            return;
        }
        let service = &mut self.services[at];
        service.ready = false;
        if let Some(child) = &mut service.child {
            child.kill();
            self.done.killed.push(process);
        }
    }

    async fn heard(&mut self, Event { service: at, said }: Event) -> anyhow::Result<()> {
        let service = &mut self.services[at];
        match said {
            Some(Said::Ready) => service.ready = true,
            Some(Said::Ack { n, mismatch }) => {
                if let Some(job) = service.unacknowledged.remove(&n)
                    && mismatch
                {
                    self.done.mismatches.insert(job.planned.message.id());
                }
            }
            Some(Said::Nack { n }) => {
                let Some(job) = service.unacknowledged.remove(&n) else { return Ok(()) };
                if job.deliveries < DELIVERIES_MAX {
                    let place = self.queue.len().min(AGAIN_AFTER);
                    self.queue.insert(place, job);
                } else {
                    self.done.dead_letters += 1;
                }
            }
            None => self.ended(at).await?,
        }
        Ok(())
    }

    /// A service is gone: it is started again, and gets what it had not acknowledged.
    async fn ended(&mut self, at: usize) -> anyhow::Result<()> {
        let name = self.name(at);
        let service = &mut self.services[at];
        service.ready = false;
        let child = service.child.take().with_context(|| format!("{name} ended twice"))?;
        let status = child.end().await?;
        if self.done.killed.last() != Some(&name) {
            self.crashes += 1;
            if self.crashes > CRASHES_MAX {
                bail!("{name} ended by itself ({status}): see the logs in {}", self.folder.display());
            }
        }
        self.doomed.take_if(|(doomed, _)| *doomed == at);
        let service = &mut self.services[at];
        let mut left: Vec<_> = service.unacknowledged.drain().collect();
        left.sort_by_key(|(n, _)| *n);
        service.again.extend(left.into_iter().map(|(_, job)| job));
        self.start(at).await
    }
}
