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

mod queue;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};

use super::bind::Insert;
use super::ordinary::{Confirm, First, Inserted};
use super::write::Db;
use super::writer::Writer;
use crate::error::Error;
use crate::key::ClaimKey;
pub(super) use queue::{Batch, Lanes};
use queue::{Claiming, Hold, Queue, Waiting, id_of};

/// So many claims lost in a row, with none won between them, make the next one a likely duplicate.
const LOST_IN_A_ROW: u32 = 4;

/// The queue and those who empty it.
pub(crate) struct Group {
    db: Arc<Db>,
    lanes: Lanes,
    patience: Duration,
    capacity: usize,
    queue: Mutex<Queue>,
    /// Free places for claims, and for outcomes: a flood of the one leaves the other its own.
    claims_room: Semaphore,
    confirms_room: Semaphore,
    /// Claims lost in a row: see `expects_duplicates`.
    lost_in_a_row: AtomicU32,
}

impl Group {
    pub(super) fn new(db: Arc<Db>, lanes: Lanes, capacity: usize, patience: Duration) -> Self {
        Self {
            db,
            lanes,
            patience,
            capacity,
            queue: Mutex::default(),
            claims_room: Semaphore::new(capacity),
            confirms_room: Semaphore::new(capacity),
            lost_in_a_row: AtomicU32::new(0),
        }
    }

    /// Inserts claims, together with whatever else waits: those of one call in one batch, as far as it holds them. An answer for each, in order.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        writer: &Writer,
        inserts: impl ExactSizeIterator<Item = Arc<Insert>>,
    ) -> Result<Vec<oneshot::Receiver<Result<Inserted, Error>>>, Error> {
        let deadline = Instant::now() + self.patience;
        self.enter(&self.claims_room, inserts.len(), "claim").await?;
        let mut answers = Vec::with_capacity(inserts.len());
        let waiting = inserts.map(|insert| {
            let (answer, answered) = oneshot::channel();
            answers.push(answered);
            let (id, bytes) = (id_of(&insert.key), insert.claim.request.len());
            Waiting { job: insert, id, bytes, deadline, answer }
        });
        self.submit(writer, |queue, group| {
            let mut blocked = Vec::new();
            for claim in waiting {
                if queue.blocked.contains_key(&claim.id) {
                    group.claims_room.add_permits(1);
                    blocked.push(claim);
                } else {
                    queue.claims.push_back(claim);
                }
            }
            blocked
        })?;
        Ok(answers)
    }

    /// Records ordinary outcomes, together with whatever else waits. `false`: the row is not as its holder left it.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        writer: &Writer,
        confirms: impl ExactSizeIterator<Item = Arc<Confirm>>,
    ) -> Result<Vec<oneshot::Receiver<Result<bool, Error>>>, Error> {
        let deadline = Instant::now() + self.patience;
        self.enter(&self.confirms_room, confirms.len(), "settle").await?;
        let mut answers = Vec::with_capacity(confirms.len());
        let waiting = confirms.map(|confirm| {
            let (answer, answered) = oneshot::channel();
            answers.push(answered);
            let (id, bytes) = (id_of(&confirm.key), confirm.receipt.as_ref().map_or(0, |r| r.bytes.len()));
            Waiting { job: confirm, id, bytes, deadline, answer }
        });
        self.submit(writer, |queue, _| {
            queue.confirms.extend(waiting);
            Vec::new()
        })?;
        Ok(answers)
    }

    /// How many claims wait to be written: what is not urgent steps aside for them.
    pub(crate) fn claims_waiting(&self) -> usize {
        self.lock().claims.len()
    }

    /// Takes places in the queue, which are given back when the rows leave it.
    async fn enter(&self, room: &Semaphore, places: usize, what: &'static str) -> Result<(), Error> {
        let mut left = places;
        while left > 0 {
            // More than the queue holds can never enter together.
            let some = u32::try_from(left.min(self.capacity)).unwrap_or(u32::MAX);
            match room.try_acquire_many(some) {
                Ok(places) => places.forget(),
                Err(_) => {
                    match Box::pin(tokio::time::timeout(self.patience, room.acquire_many(some))).await {
                        Ok(Ok(places)) => places.forget(),
                        Ok(Err(_)) => return Err(Error::Closed),
                        Err(_) => {
                            room.add_permits(places - left);
                            return Err(Error::Busy { what, waited: self.patience });
                        }
                    }
                }
            }
            left -= some as usize;
        }
        Ok(())
    }

    /// Queues by `push`, and sees to it that somebody empties the queue. What `push` hands back goes to the lane of blocked keys.
    fn submit(
        self: &Arc<Self>,
        writer: &Writer,
        push: impl FnOnce(&mut Queue, &Self) -> Vec<Claiming>,
    ) -> Result<(), Error> {
        // Held until the tasks are counted, so that `close` waits for them.
        let _open = writer.open()?;
        let (blocked, flush, patrol) = {
            let mut queue = self.lock();
            let blocked = push(&mut queue, self);
            let queued = !(queue.claims.is_empty() && queue.confirms.is_empty());
            let flush = queued && queue.flushers < self.lanes.flushers_max();
            queue.flushers += usize::from(flush);
            let patrol = queued && !std::mem::replace(&mut queue.patrolled, true);
            (blocked, flush, patrol)
        };
        for claim in blocked {
            let (this, hold) = (self.clone(), self.block(claim.id));
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
        let mut queue = self.lock();
        let taken = queue.take(self.lanes);
        self.claims_room.add_permits(taken.batch.claims.len() + taken.abandoned);
        self.confirms_room.add_permits(taken.batch.confirms.len());
        if taken.batch.is_empty() {
            queue.flushers -= 1;
            return None;
        }
        drop(queue);
        Some(Flight { group: self.clone(), hold: taken.batch.hold(), batch: taken.batch })
    }

    /// Writes a batch and answers everybody in it, or hands them on.
    async fn write(self: &Arc<Self>, mut flight: Flight) {
        let mut batch = std::mem::take(&mut flight.batch);
        if self.expects_duplicates() {
            self.answer_duplicates(&mut batch.claims).await;
            if batch.is_empty() {
                return;
            }
        }
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
                self.count_lost(lost.len(), written.claims.is_any());
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

    /// Whether new claims are likely to be duplicates, as when a broker delivers again what was handled: then the row is looked for
    /// before it is inserted, and a duplicate costs one indexed read.
    fn expects_duplicates(&self) -> bool {
        self.lost_in_a_row.load(Relaxed) >= LOST_IN_A_ROW
    }

    fn count_lost(&self, lost: usize, won: bool) {
        if won {
            self.lost_in_a_row.store(0, Relaxed);
        } else if lost > 0 {
            let lost = u32::try_from(lost).unwrap_or(u32::MAX);
            let _ = self.lost_in_a_row.fetch_update(Relaxed, Relaxed, |n| Some(n.saturating_add(lost)));
        }
    }

    /// Answers the claims whose key exists, in one read, and leaves the others.
    async fn answer_duplicates(&self, claims: &mut Vec<Claiming>) {
        let keys: Vec<&ClaimKey> = claims.iter().map(|claim| &claim.job.key).collect();
        // Where it cannot be read, the insert decides, as it does anyway.
        let Ok(mut found) = self.db.rows(&keys).await else { return };
        for claim in std::mem::take(claims) {
            match found.remove(&claim.job.key) {
                Some(view) => claim.answer(Ok(Inserted::Exists(Box::new(view)))),
                None => claims.push(claim),
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
            let (late, next) = {
                let mut queue = self.lock();
                let late = queue.take_late(Instant::now());
                let next = queue.next_deadline();
                queue.patrolled = next.is_some();
                (late, next)
            };
            self.claims_room.add_permits(late.claims.len());
            self.confirms_room.add_permits(late.confirms.len());
            for claim in late.claims {
                claim.answer(Err(Error::Busy { what: "claim", waited: self.patience }));
            }
            for confirm in late.confirms {
                confirm.answer(Err(Error::Busy { what: "settle", waited: self.patience }));
            }
            let Some(next) = next else { return };
            tokio::time::sleep_until(next.into()).await;
        }
    }
}

/// Waits for an answer. Without one the store has been closed meanwhile.
pub(crate) async fn answered<A>(answer: Option<oneshot::Receiver<Result<A, Error>>>) -> Result<A, Error> {
    match answer {
        Some(answer) => answer.await.map_err(|_| Error::Closed)?,
        None => Err(Error::Closed),
    }
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

/// A batch under way: its keys are kept out of the others until it has been written, however that ends.
struct Flight {
    group: Arc<Group>,
    batch: Batch,
    hold: Hold,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.group.lock().release(&self.hold);
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
