//! The queue itself, without a database: what is taken together, and in which order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use crate::error::Error;
use crate::key::ClaimKey;
use crate::store::bind::Insert;
use crate::store::ordinary::{Confirm, Inserted};

/// Most rows of one batch. A statement's fixed cost is spread thin long before that, and whoever waits for it waits longer.
const ROWS_MAX: usize = 500;
/// Most bytes of requests and answers in one batch: below every server's limit of a statement (16 MiB on MariaDB), encoded.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most that is looked at for one batch: behind it, rows wait whose keys are being written.
const LOOKED_AT_MAX: usize = 4 * ROWS_MAX;

/// Which batches may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Lanes {
    /// That many, each of claims and outcomes together.
    Mixed(usize),
    /// One of claims beside one of outcomes: where no statement can write both.
    Apart,
}

impl Lanes {
    pub(in crate::store) const fn flushers_max(self) -> usize {
        match self {
            Self::Mixed(n) => n,
            Self::Apart => 2,
        }
    }
}

/// One row that somebody waits for.
pub(in crate::store) struct Waiting<J, A> {
    pub(in crate::store) job: J,
    pub(super) id: u64,
    pub(super) bytes: usize,
    pub(in crate::store) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<A, Error>>,
}

impl<J, A> Waiting<J, A> {
    pub(in crate::store) fn answer(self, answer: Result<A, Error>) {
        // Whoever waited may have gone; what is written stays written.
        let _ = self.answer.send(answer);
    }

    /// Whether nobody waits for it any more.
    pub(in crate::store) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}

pub(in crate::store) type Claiming = Waiting<Arc<Insert>, Inserted>;
pub(in crate::store) type Confirming = Waiting<Arc<Confirm>, bool>;

/// Rows that are written together.
#[derive(Default)]
pub(in crate::store) struct Batch {
    pub(in crate::store) claims: Vec<Claiming>,
    pub(in crate::store) confirms: Vec<Confirming>,
}

impl Batch {
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.confirms.is_empty()
    }

    /// What is kept out of the other batches while this one is under way.
    pub(super) fn hold(&self) -> Hold {
        let ids = self.claims.iter().map(|c| c.id).chain(self.confirms.iter().map(|c| c.id)).collect();
        Hold { ids, claims: !self.claims.is_empty(), confirms: !self.confirms.is_empty() }
    }
}

/// What a batch under way keeps from the others.
pub(super) struct Hold {
    ids: Vec<u64>,
    claims: bool,
    confirms: bool,
}

/// What was taken out of the queue.
pub(super) struct Taken {
    pub(super) batch: Batch,
    /// Claims for which nobody waits any more: nobody would perform them, and nothing of them was written.
    pub(super) abandoned: usize,
    /// Claims whose keys have turned out to be held while they were queued.
    pub(super) held_up: Vec<Claiming>,
}

/// What waits, in the order in which it came.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) claims: VecDeque<Claiming>,
    pub(super) confirms: VecDeque<Confirming>,
    /// Keys in the batches under way.
    writing: HashSet<u64>,
    /// Keys that a stranger's transaction holds, how many wait for each, and whose turn it is: never part of a batch.
    pub(super) blocked: HashMap<u64, (usize, Arc<Semaphore>)>,
    pub(super) flushers: usize,
    claims_under_way: bool,
    confirms_under_way: bool,
    pub(super) patrolled: bool,
}

impl Queue {
    /// The next batch: outcomes first, then claims; each key in one batch only.
    pub(super) fn take(&mut self, lanes: Lanes) -> Taken {
        let apart = lanes == Lanes::Apart;
        let mut room = Room { rows: ROWS_MAX, bytes: BYTES_MAX };
        let mut batch = Batch::default();
        let queued = self.claims.len();
        self.claims.retain(|claim| !claim.is_abandoned());
        let abandoned = queued - self.claims.len();
        let mut held_up = Vec::new();
        if !self.blocked.is_empty() {
            let queued = std::mem::take(&mut self.claims);
            for claim in queued {
                if self.blocked.contains_key(&claim.id) {
                    held_up.push(claim);
                } else {
                    self.claims.push_back(claim);
                }
            }
        }
        if !(apart && self.confirms_under_way) {
            // Whether or not somebody still waits: the provider has answered.
            take_some(&mut self.confirms, &mut batch.confirms, &mut self.writing, &mut room);
        }
        if !(apart && (self.claims_under_way || !batch.confirms.is_empty())) {
            take_some(&mut self.claims, &mut batch.claims, &mut self.writing, &mut room);
        }
        self.claims_under_way |= !batch.claims.is_empty();
        self.confirms_under_way |= !batch.confirms.is_empty();
        Taken { batch, abandoned, held_up }
    }

    /// How many wait for keys that strangers' transactions hold.
    pub(super) fn held_up(&self) -> usize {
        self.blocked.values().map(|(waiting, _)| waiting).sum()
    }

    /// A batch has been written.
    pub(super) fn release(&mut self, hold: &Hold) {
        for id in &hold.ids {
            self.writing.remove(id);
        }
        self.claims_under_way &= !hold.claims;
        self.confirms_under_way &= !hold.confirms;
    }

    /// Everything whose deadline has passed. An outcome for which nobody waits any more stays, with a new deadline: the provider has
    /// answered, and nobody would come back with it.
    pub(super) fn take_late(&mut self, now: Instant, renewed: Instant) -> Batch {
        let mut confirms = Vec::new();
        for mut confirm in drain_late(&mut self.confirms, now) {
            if confirm.is_abandoned() {
                confirm.deadline = renewed;
                self.confirms.push_back(confirm);
            } else {
                confirms.push(confirm);
            }
        }
        Batch { claims: drain_late(&mut self.claims, now), confirms }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let claim = self.claims.front().map(|claim| claim.deadline);
        let confirm = self.confirms.front().map(|confirm| confirm.deadline);
        claim.into_iter().chain(confirm).min()
    }
}

/// What is left of a batch.
struct Room {
    rows: usize,
    bytes: usize,
}

/// Moves rows from a queue to a batch, in their order, as long as there is room; a key that is being written stays.
fn take_some<J, A>(
    from: &mut VecDeque<Waiting<J, A>>,
    to: &mut Vec<Waiting<J, A>>,
    writing: &mut HashSet<u64>,
    room: &mut Room,
) {
    let mut stay = Vec::new();
    for _ in 0..LOOKED_AT_MAX {
        let Some(next) = from.pop_front() else { break };
        let empty = room.rows == ROWS_MAX;
        if room.rows == 0 || (next.bytes > room.bytes && !empty) {
            stay.push(next);
            break;
        }
        if !writing.insert(next.id) {
            stay.push(next);
            continue;
        }
        room.rows -= 1;
        room.bytes = room.bytes.saturating_sub(next.bytes);
        to.push(next);
    }
    for kept in stay.into_iter().rev() {
        from.push_front(kept);
    }
}

/// Takes out what has waited too long. Deadlines are in the order of the queue, but for what was put back.
fn drain_late<J, A>(queue: &mut VecDeque<Waiting<J, A>>, now: Instant) -> Vec<Waiting<J, A>> {
    let late = queue.iter().take_while(|waiting| waiting.deadline <= now).count();
    queue.drain(..late).collect()
}

/// Tells keys apart while they are being written. Two that share a number wait for each other, and nothing worse.
pub(super) fn id_of(key: &ClaimKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
