//! A service as the broker sees it: its process, and what it has and has not acknowledged.

use std::collections::{HashMap, VecDeque};

use tokio::sync::mpsc;

use super::plan::Planned;
use super::processes::{Child, Voice};
use super::wire::Said;

/// Deliveries that a service may hold unacknowledged.
const PREFETCH: usize = 8;

/// A delivery to be made.
pub(super) struct Job {
    /// In the plan.
    pub(super) number: usize,
    pub(super) planned: Planned,
    pub(super) deliveries: u32,
}

#[derive(Default)]
pub(super) struct Service {
    pub(super) child: Option<Child>,
    pub(super) incarnation: u32,
    pub(super) ready: bool,
    pub(super) unacknowledged: HashMap<u64, Job>,
    /// Unacknowledged when it was killed: first in line.
    pub(super) again: VecDeque<Job>,
}

impl Service {
    pub(super) fn has_room(&self) -> bool {
        self.ready && self.unacknowledged.len() < PREFETCH
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.unacknowledged.values().chain(&self.again)
    }
}

/// `None`: it has ended, and everything that it said was heard.
pub(super) struct Event {
    pub(super) service: usize,
    pub(super) said: Option<Said>,
}

pub(super) async fn listen(mut voice: Voice, service: usize, to: mpsc::UnboundedSender<Event>) {
    loop {
        let said = voice.next().await;
        let over = said.is_none();
        if to.send(Event { service, said }).is_err() || over {
            return;
        }
    }
}
