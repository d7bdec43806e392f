//! The broker, in the parent: delivers at least once, keeps what is not acknowledged, kills by plan, starts again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use anyhow::{Context, bail};
use tokio::sync::mpsc;

use super::messages::MessageId;
use super::plan::{Kill, Plan, Planned, SERVICES};
use super::processes::{Child, Voice};
use super::progress::Progress;
use super::provider::Provider;
use super::wire::{Delivery, Said, Setup, Told};

/// Deliveries that a service may hold unacknowledged.
const PREFETCH: usize = 8;
/// A message that was handed back this often goes to the dead letters.
const DELIVERIES_MAX: u32 = 12;
/// A message that is handed back comes again after so many others.
const AGAIN_AFTER: usize = 20;
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
    kills: VecDeque<Kill>,
    /// The service that is about to be killed, once the downstream has taken note.
    doomed: Option<(usize, Kill)>,
    services: Vec<Service>,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    handed_out: usize,
    crashes: u32,
    done: Delivered,
}

struct Job {
    planned: Planned,
    deliveries: u32,
}

struct Service {
    child: Option<Child>,
    incarnation: u32,
    ready: bool,
    unacknowledged: HashMap<u64, Job>,
    /// Unacknowledged when it was killed: first in line.
    again: VecDeque<Job>,
}

/// `None`: it has ended, and everything that it said was heard.
struct Event {
    service: usize,
    said: Option<Said>,
}

impl<'a> Broker<'a> {
    pub(super) fn new(provider: &'a mut Provider, setup: Setup, folder: PathBuf, plan: &Plan) -> Self {
        let jobs = |planned: &[Planned]| -> VecDeque<Job> {
            planned.iter().map(|planned| Job { planned: planned.clone(), deliveries: 0 }).collect()
        };
        let service = |_| Service {
            child: None,
            incarnation: 0,
            ready: false,
            unacknowledged: HashMap::new(),
            again: VecDeque::new(),
        };
        Self {
            provider,
            setup,
            folder,
            queue: jobs(&plan.deliveries),
            last: jobs(&plan.last),
            kills: plan.kills.iter().copied().collect(),
            doomed: None,
            services: (0..SERVICES).map(service).collect(),
            events: mpsc::unbounded_channel(),
            handed_out: 0,
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

    /// In order, so that both services meet the same message at about the same time.
    async fn hand_out(&mut self) {
        loop {
            let at = |s: &Service| s.ready && s.unacknowledged.len() < PREFETCH;
            if let Some(n) = self.services.iter().position(|s| at(s) && !s.again.is_empty()) {
                if let Some(job) = self.services[n].again.pop_front() {
                    self.deliver(n, job).await;
                }
                continue;
            }
            if self.queue.is_empty() && self.held() == 0 {
                self.queue = std::mem::take(&mut self.last);
            }
            let Some(n) = self.queue.front().map(|job| job.planned.service) else { return };
            // A kill that is due has its moment with the message that was handed out last: later ones wait for it.
            let waits = self.due().is_some() && self.held() > 0;
            if waits || !at(&self.services[n]) {
                return;
            }
            if let Some(job) = self.queue.pop_front() {
                self.handed_out += 1;
                self.deliver(n, job).await;
            }
        }
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
        self.kills.front().copied().filter(|kill| idle || kill.after <= self.handed_out)
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
            self.kills.pop_front();
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
            self.kills.push_front(kill);
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

async fn listen(mut voice: Voice, service: usize, to: mpsc::UnboundedSender<Event>) {
    loop {
        let said = voice.next().await;
        let over = said.is_none();
        if to.send(Event { service, said }).is_err() || over {
            return;
        }
    }
}
