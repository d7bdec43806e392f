//! Group commit: what concurrent callers want written is taken together, written with one statement and committed once.
//!
//! Nothing waits for company: whoever comes to an idle store is written at once, alone, and what queues up meanwhile is the next
//! batch. Every caller waits for the commit of its own row. Outcomes go before claims, since a provider has answered already.
//!
//! ```text
//!  claim ──► room? ──► queue ──┐                     ┌─ all written: answered together
//!  settle ─► room? ──► queue ──┴► take ─► one commit ┼─ lost to somebody: one read for all of them
//!                                  ▲                 └─ failed: each alone, by its own token
//!                                  └── at most `Lanes` batches at once; a key is in one of them only
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};

use super::bind::Insert;
use super::ordinary::{Confirm, First, Inserted};
use super::write::Db;
use super::writer::Writer;
use crate::error::Error;
use crate::key::ClaimKey;

/// Most rows of one batch. A statement's fixed cost is spread thin long before that, and whoever waits for it waits longer.
const ROWS_MAX: usize = 500;
/// Most bytes of requests and answers in one batch: below every server's limit of a statement (16 MiB on MariaDB), encoded.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most that is looked at for one batch: behind it, rows wait whose keys are being written.
const LOOKED_AT_MAX: usize = 4 * ROWS_MAX;

/// Which batches may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    /// That many, each of claims and outcomes together.
    Mixed(usize),
    /// One of claims beside one of outcomes: where no statement can write both.
    Apart,
}

impl Lanes {
    const fn flushers_max(self) -> usize {
        match self {
            Self::Mixed(n) => n,
            Self::Apart => 2,
        }
    }
}

/// One row that somebody waits for.
pub(super) struct Waiting<J, A> {
    pub(super) job: J,
    id: u64,
    bytes: usize,
    deadline: Instant,
    answer: oneshot::Sender<Result<A, Error>>,
}

impl<J, A> Waiting<J, A> {
    pub(super) fn answer(self, answer: Result<A, Error>) {
        // Whoever waited may have gone; what is written stays written.
        let _ = self.answer.send(answer);
    }
}

pub(super) type Claiming = Waiting<Arc<Insert>, Inserted>;
pub(super) type Confirming = Waiting<Arc<Confirm>, bool>;

/// Rows that are written together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) claims: Vec<Claiming>,
    pub(super) confirms: Vec<Confirming>,
}

/// The queue and those who empty it.
pub(crate) struct Group {
    db: Arc<Db>,
    lanes: Lanes,
    patience: Duration,
    queue: Mutex<Queue>,
    /// Free places for claims, and for outcomes: a flood of the one leaves the other its own.
    claims_room: Semaphore,
    confirms_room: Semaphore,
}

#[derive(Default)]
struct Queue {
    claims: VecDeque<Claiming>,
    confirms: VecDeque<Confirming>,
    /// Keys in the batches under way.
    writing: HashSet<u64>,
    /// Keys that a stranger's transaction holds, and how many wait for each: never part of a batch.
    blocked: HashMap<u64, usize>,
    flushers: usize,
    claims_under_way: bool,
    confirms_under_way: bool,
    patrolled: bool,
}

impl Group {
    pub(super) fn new(db: Arc<Db>, lanes: Lanes, capacity: usize, patience: Duration) -> Self {
        Self {
            db,
            lanes,
            patience,
            queue: Mutex::default(),
            claims_room: Semaphore::new(capacity),
            confirms_room: Semaphore::new(capacity),
        }
    }

    /// Inserts a claim, together with whatever else waits.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        writer: &Writer,
        insert: Arc<Insert>,
    ) -> Result<Inserted, Error> {
        let deadline = Instant::now() + self.patience;
        self.enter(&self.claims_room, "claim").await?;
        let (id, bytes) = (id_of(&insert.key), insert.claim.request.len());
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { job: insert, id, bytes, deadline, answer };
        self.submit(writer, |queue, group| {
            if queue.blocked.contains_key(&id) {
                group.claims_room.add_permits(1);
                return Some(waiting);
            }
            queue.claims.push_back(waiting);
            None
        })?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Records an ordinary outcome, together with whatever else waits. `false`: the row is not as its holder left it.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        writer: &Writer,
        confirm: Arc<Confirm>,
    ) -> Result<bool, Error> {
        let deadline = Instant::now() + self.patience;
        self.enter(&self.confirms_room, "settle").await?;
        let (id, bytes) = (id_of(&confirm.key), confirm.receipt.as_ref().map_or(0, |r| r.bytes.len()));
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { job: confirm, id, bytes, deadline, answer };
        self.submit(writer, |queue, _| {
            queue.confirms.push_back(waiting);
            None
        })?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// How many claims wait to be written: what is not urgent steps aside for them.
    pub(crate) fn claims_waiting(&self) -> usize {
        self.lock().claims.len()
    }

    /// Takes a place in the queue, which is given back when the row leaves it.
    async fn enter(&self, room: &Semaphore, what: &'static str) -> Result<(), Error> {
        if let Ok(place) = room.try_acquire() {
            place.forget();
            return Ok(());
        }
        match Box::pin(tokio::time::timeout(self.patience, room.acquire())).await {
            Ok(Ok(place)) => place.forget(),
            Ok(Err(_)) => return Err(Error::Closed),
            Err(_) => return Err(Error::Busy { what, waited: self.patience }),
        }
        Ok(())
    }

    /// Queues by `push`, and sees to it that somebody empties the queue. What `push` hands back goes to the lane of blocked keys.
    fn submit(
        self: &Arc<Self>,
        writer: &Writer,
        push: impl FnOnce(&mut Queue, &Self) -> Option<Claiming>,
    ) -> Result<(), Error> {
        // Held until the tasks are counted, so that `close` waits for them.
        let _open = writer.open()?;
        let (blocked, flush, patrol) = {
            let mut queue = self.lock();
            let blocked = push(&mut queue, self);
            let flush = blocked.is_none() && queue.flushers < self.lanes.flushers_max();
            queue.flushers += usize::from(flush);
            let patrol = !std::mem::replace(&mut queue.patrolled, true);
            (blocked, flush, patrol)
        };
        if let Some(claim) = blocked {
            let this = self.clone();
            let hold = this.block(claim.id);
            writer.spawn(async move {
                this.insert_alone(claim, First::Try).await;
                drop(hold);
            });
        }
        if flush {
            let flusher = Flusher { group: self.clone(), ended: false };
            writer.spawn(flusher.flush());
        }
        if patrol {
            writer.spawn_watch(self.clone().patrol());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- on the store's thread ---------------------------------------------------------------------------

    /// The next batch; `None`: nothing may be written now, and the flusher has been signed off.
    fn take(self: &Arc<Self>) -> Option<Flight> {
        let mut guard = self.lock();
        let queue = &mut *guard;
        let apart = self.lanes == Lanes::Apart;
        let mut room = Room { rows: ROWS_MAX, bytes: BYTES_MAX };
        let mut batch = Batch::default();
        if !queue.confirms_under_way {
            // Whether or not somebody still waits: the provider has answered.
            take_some(&mut queue.confirms, &mut batch.confirms, &mut queue.writing, &mut room);
            self.confirms_room.add_permits(batch.confirms.len());
        }
        if !queue.claims_under_way && !(apart && !batch.confirms.is_empty()) {
            let before = queue.claims.len();
            // Nobody would perform it.
            queue.claims.retain(|claim| !claim.answer.is_closed());
            self.claims_room.add_permits(before - queue.claims.len());
            take_some(&mut queue.claims, &mut batch.claims, &mut queue.writing, &mut room);
            self.claims_room.add_permits(batch.claims.len());
        }
        if batch.claims.is_empty() && batch.confirms.is_empty() {
            queue.flushers -= 1;
            return None;
        }
        let (claims, confirms) = (apart && !batch.claims.is_empty(), apart && !batch.confirms.is_empty());
        queue.claims_under_way |= claims;
        queue.confirms_under_way |= confirms;
        drop(guard);
        let ids = batch.claims.iter().map(|c| c.id).chain(batch.confirms.iter().map(|c| c.id)).collect();
        Some(Flight { group: self.clone(), batch, ids, claims, confirms })
    }

    /// Writes a batch and answers everybody in it, or hands them on.
    async fn write(self: &Arc<Self>, mut flight: Flight) {
        let mut batch = std::mem::take(&mut flight.batch);
        // One order for all batches: two that lock the same rows then wait, and do not deadlock.
        batch.claims.sort_unstable_by(|a, b| a.job.key.cmp(&b.job.key));
        batch.confirms.sort_unstable_by(|a, b| a.job.key.cmp(&b.job.key));
        let handed_over = Instant::now();
        let written = super::batch::write(&self.db, &batch).await;
        // Whoever is answered may come back with the same key at once.
        drop(flight);
        match written {
            Ok(written) => {
                let mut lost = Vec::new();
                for claim in batch.claims {
                    if written.claims.has(&claim.job.token) {
                        claim.answer(Ok(Inserted::New { at: written.at, handed_over }));
                    } else {
                        lost.push(claim);
                    }
                }
                for confirm in batch.confirms {
                    let is_written = written.confirms.has(&confirm.job.facts.token);
                    confirm.answer(Ok(is_written));
                }
                if !lost.is_empty() {
                    tokio::spawn(self.clone().read_for_all(lost, handed_over));
                }
            }
            Err(error) => {
                let first = if batch.claims.len() + batch.confirms.len() == 1 {
                    First::Failed { error, handed_over }
                } else {
                    tracing::debug!(
                        error = crate::failure::chain(&error),
                        claims = batch.claims.len(),
                        outcomes = batch.confirms.len(),
                        "a batch failed; each row is tried alone"
                    );
                    self.db.first_of(error, handed_over)
                };
                // Outcomes first here too.
                for confirm in batch.confirms {
                    let (db, first) = (self.db.clone(), first.clone());
                    tokio::spawn(async move {
                        let written = db.confirm(&confirm.job, first).await;
                        confirm.answer(written);
                    });
                }
                for claim in batch.claims {
                    tokio::spawn(self.clone().insert_alone(claim, first.clone()));
                }
            }
        }
    }

    /// What the losers of a batch lost to, in one read.
    async fn read_for_all(self: Arc<Self>, lost: Vec<Claiming>, handed_over: Instant) {
        let keys: Vec<&ClaimKey> = lost.iter().map(|claim| &claim.job.key).collect();
        let mut found = match self.db.rows(&keys).await {
            Ok(found) => found,
            // Each for itself, then.
            Err(_) => HashMap::new(),
        };
        for claim in lost {
            match found.remove(&claim.job.key) {
                // An earlier try of the same insert, of which nobody knew.
                Some(view) if view.facts.token == claim.job.token => {
                    claim.answer(Ok(Inserted::New { at: None, handed_over }));
                }
                Some(view) => claim.answer(Ok(Inserted::Exists(Box::new(view)))),
                None => {
                    tokio::spawn(self.clone().insert_alone(claim, First::Try));
                }
            }
        }
    }

    /// One claim by itself; when it turns out that a stranger's transaction holds its key, in the lane of those.
    async fn insert_alone(self: Arc<Self>, claim: Claiming, first: First) {
        let mut hold = None;
        let blocked = || hold = Some(self.block(claim.id));
        let inserted = self.db.insert(&claim.job, first, claim.deadline, blocked).await;
        claim.answer(inserted);
        drop(hold);
    }

    /// Keeps a key out of the batches for as long as the answer lives.
    fn block(self: &Arc<Self>, id: u64) -> Blocked {
        *self.lock().blocked.entry(id).or_default() += 1;
        Blocked { group: self.clone(), id }
    }

    /// Answers those whose patience has ended while they queued: nothing of theirs was handed over.
    async fn patrol(self: Arc<Self>) {
        loop {
            let next = {
                let mut queue = self.lock();
                let now = Instant::now();
                for claim in drain_late(&mut queue.claims, now, &self.claims_room) {
                    claim.answer(Err(Error::Busy { what: "claim", waited: self.patience }));
                }
                for confirm in drain_late(&mut queue.confirms, now, &self.confirms_room) {
                    confirm.answer(Err(Error::Busy { what: "settle", waited: self.patience }));
                }
                let first = queue.claims.front().map(|c| c.deadline);
                let next = first.into_iter().chain(queue.confirms.front().map(|c| c.deadline)).min();
                queue.patrolled = next.is_some();
                next
            };
            let Some(next) = next else { return };
            tokio::time::sleep_until(next.into()).await;
        }
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
fn drain_late<J, A>(
    queue: &mut VecDeque<Waiting<J, A>>,
    now: Instant,
    room: &Semaphore,
) -> Vec<Waiting<J, A>> {
    let late = queue.iter().take_while(|waiting| waiting.deadline <= now).count();
    room.add_permits(late);
    queue.drain(..late).collect()
}

/// Tells keys apart while they are being written. Two that share a number wait for each other, and nothing worse.
fn id_of(key: &ClaimKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A task that empties the queue.
struct Flusher {
    group: Arc<Group>,
    ended: bool,
}

impl Flusher {
    async fn flush(mut self) {
        while let Some(flight) = self.group.take() {
            self.group.write(flight).await;
        }
        self.ended = true;
    }
}

impl Drop for Flusher {
    /// After a panic; else `take` has signed it off, under the very lock under which it saw that nothing is left.
    fn drop(&mut self) {
        if !self.ended {
            self.group.lock().flushers -= 1;
        }
    }
}

/// A batch under way: its keys are kept out of the others until it has ended, however it ends.
struct Flight {
    group: Arc<Group>,
    batch: Batch,
    ids: Vec<u64>,
    claims: bool,
    confirms: bool,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut queue = self.group.lock();
        for id in &self.ids {
            queue.writing.remove(id);
        }
        queue.claims_under_way &= !self.claims;
        queue.confirms_under_way &= !self.confirms;
    }
}

struct Blocked {
    group: Arc<Group>,
    id: u64,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let mut queue = self.group.lock();
        if let Some(waiting) = queue.blocked.get_mut(&self.id) {
            *waiting -= 1;
            if *waiting == 0 {
                queue.blocked.remove(&self.id);
            }
        }
    }
}
