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

mod alone;
mod queue;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sea_orm::DbErr;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use super::bind::Insert;
use super::ordinary::{Confirm, First, Inserted};
use super::write::Db;
use super::writer::Writer;
use crate::error::Error;
use crate::key::ClaimKey;
pub(super) use queue::{Batch, Claiming, Lanes};
use queue::{Hold, Queue, Waiting, id_of};

/// So many claims lost in a row, with none won between them, make the next one a likely duplicate.
const LOST_IN_A_ROW: u32 = 4;

/// How often a batch is written again that the server rolled back because of others. Then each row is tried alone.
const CONTENTION_RETRIES: u32 = 2;

/// What somebody waits for.
type Answered<A> = oneshot::Receiver<Result<A, Error>>;

/// The queue and those who empty it.
pub(crate) struct Group {
    db: Arc<Db>,
    /// Whatever answers somebody is counted here: `close` waits for it.
    tasks: TaskTracker,
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
    pub(super) fn new(
        db: Arc<Db>,
        tasks: TaskTracker,
        lanes: Lanes,
        capacity: usize,
        patience: Duration,
    ) -> Self {
        Self {
            db,
            tasks,
            lanes,
            patience,
            capacity,
            queue: Mutex::default(),
            claims_room: Semaphore::new(capacity),
            confirms_room: Semaphore::new(capacity),
            lost_in_a_row: AtomicU32::new(0),
        }
    }

    /// Inserts claims, together with whatever else waits: those of one call in one batch, as far as it holds them. An answer for each, in
    /// order. More than the queue holds enter it one part after the other; an error means that nothing entered.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        writer: &Writer,
        inserts: impl ExactSizeIterator<Item = Arc<Insert>>,
    ) -> Result<Vec<Answered<Inserted>>, Error> {
        let bytes = |insert: &Insert| (id_of(&insert.key), insert.claim.request.len());
        self.queue_up(writer, &self.claims_room, "claim", inserts, bytes, |queue, waiting| {
            let mut blocked = Vec::new();
            for claim in waiting {
                if queue.blocked.contains_key(&claim.id) {
                    self.claims_room.add_permits(1);
                    if queue.held_up() + blocked.len() < self.capacity {
                        blocked.push(claim);
                    } else {
                        // So many wait for strangers already as may wait for us.
                        claim.answer(Err(Error::Busy { what: "claim", waited: Duration::ZERO }));
                    }
                } else {
                    queue.claims.push_back(claim);
                }
            }
            blocked
        })
        .await
    }

    /// Records ordinary outcomes, together with whatever else waits. `false`: the row is not as its holder left it.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        writer: &Writer,
        confirms: impl ExactSizeIterator<Item = Arc<Confirm>>,
    ) -> Result<Vec<Answered<bool>>, Error> {
        let bytes =
            |confirm: &Confirm| (id_of(&confirm.key), confirm.receipt.as_ref().map_or(0, |r| r.bytes.len()));
        self.queue_up(writer, &self.confirms_room, "settle", confirms, bytes, |queue, waiting| {
            queue.confirms.extend(waiting);
            Vec::new()
        })
        .await
    }

    /// Queues rows part by part, each part once there is room for it. `push` hands back those of blocked keys.
    async fn queue_up<J, A>(
        self: &Arc<Self>,
        writer: &Writer,
        room: &Semaphore,
        what: &'static str,
        mut jobs: impl ExactSizeIterator<Item = Arc<J>>,
        id_and_bytes: impl Fn(&J) -> (u64, usize),
        push: impl Fn(&mut Queue, Vec<Waiting<Arc<J>, A>>) -> Vec<Claiming>,
    ) -> Result<Vec<Answered<A>>, Error> {
        let mut answers = Vec::with_capacity(jobs.len());
        while jobs.len() > 0 {
            let part = jobs.len().min(self.capacity);
            let deadline = Instant::now() + self.patience;
            let entered = self.enter(room, part, what).await;
            let entered = entered.and_then(|()| {
                // Made inside, so that of a closed store nothing has entered.
                self.submit(writer, |queue| {
                    let waiting = jobs.by_ref().take(part).map(|job| {
                        let (answer, answered) = oneshot::channel();
                        answers.push(answered);
                        let (id, bytes) = id_and_bytes(&job);
                        Waiting { job, id, bytes, deadline, answer }
                    });
                    let waiting = waiting.collect();
                    push(queue, waiting)
                })
            });
            if let Err(error) = entered {
                return refuse_the_rest(answers, jobs.len(), error);
            }
        }
        Ok(answers)
    }

    /// How many claims wait to be written: what is not urgent steps aside for them.
    pub(crate) fn claims_waiting(&self) -> usize {
        self.lock().claims.len()
    }

    /// Takes places in the queue, all at once and no more than it has; they are given back when the rows leave it.
    async fn enter(&self, room: &Semaphore, places: usize, what: &'static str) -> Result<(), Error> {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        if let Ok(places) = room.try_acquire_many(places) {
            places.forget();
            return Ok(());
        }
        match Box::pin(tokio::time::timeout(self.patience, room.acquire_many(places))).await {
            Ok(Ok(places)) => places.forget(),
            Ok(Err(_)) => return Err(Error::Closed),
            Err(_) => return Err(Error::Busy { what, waited: self.patience }),
        }
        Ok(())
    }

    /// Queues by `push`, and sees to it that somebody empties the queue. What `push` hands back goes to the lane of blocked keys.
    fn submit(
        self: &Arc<Self>,
        writer: &Writer,
        push: impl FnOnce(&mut Queue) -> Vec<Claiming>,
    ) -> Result<(), Error> {
        // Held until the tasks are counted, so that `close` waits for them.
        let _open = writer.open()?;
        let (blocked, flush, patrol) = {
            let mut queue = self.lock();
            let blocked = push(&mut queue);
            let queued = !(queue.claims.is_empty() && queue.confirms.is_empty());
            let flush = queued && queue.flushers < self.lanes.flushers_max();
            queue.flushers += usize::from(flush);
            let patrol = queued && !std::mem::replace(&mut queue.patrolled, true);
            (blocked, flush, patrol)
        };
        for claim in blocked {
            let hold = self.block(claim.id);
            writer.spawn(self.clone().insert_blocked(claim, hold));
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
        let taken = {
            let mut queue = self.lock();
            let taken = queue.take(self.lanes);
            queue.flushers -= usize::from(taken.batch.is_empty());
            let claims = taken.batch.claims.len() + taken.held_up.len() + taken.abandoned;
            self.claims_room.add_permits(claims);
            self.confirms_room.add_permits(taken.batch.confirms.len());
            taken
        };
        debug_assert!(self.claims_room.available_permits() <= self.capacity, "more places than there are");
        debug_assert!(self.confirms_room.available_permits() <= self.capacity, "more places than there are");
        for claim in taken.held_up {
            let hold = self.block(claim.id);
            self.tasks.spawn(self.clone().insert_blocked(claim, hold));
        }
        (!taken.batch.is_empty()).then(|| Flight {
            group: self.clone(),
            hold: taken.batch.hold(),
            batch: taken.batch,
        })
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
        let (mut handed_over, mut again) = (Instant::now(), 0);
        let written = loop {
            match super::batch::write(&self.db, &batch).await {
                // Rolled back because of others, whichever row it was: all of it once more, and together.
                Err(error) if again < CONTENTION_RETRIES && self.db.is_worth_another_try(&error) => {
                    again += 1
                }
                written => break written,
            }
            handed_over = Instant::now();
        };
        // Whoever is answered may come back with the same key at once.
        drop(flight);
        match written {
            Ok(written) => {
                let mut lost = Vec::new();
                for claim in batch.claims {
                    if written.claims.knows(&claim.job.token) == Some(true) {
                        claim.answer(Ok(Inserted::New { at: written.at, handed_over }));
                    } else {
                        lost.push(claim);
                    }
                }
                let mut untold = Vec::new();
                for confirm in batch.confirms {
                    match written.confirms.knows(&confirm.job.facts.token) {
                        Some(is_written) => confirm.answer(Ok(is_written)),
                        None => untold.push(confirm),
                    }
                }
                if !untold.is_empty() {
                    self.tasks.spawn(self.clone().read_outcomes(untold, handed_over));
                }
                self.count_lost(lost.len(), written.claims.is_any());
                if !lost.is_empty() {
                    self.tasks.spawn(self.clone().read_for_all(lost, handed_over));
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
                    self.confirm_alone(confirm, first.clone());
                }
                for claim in batch.claims {
                    self.tasks.spawn(self.clone().insert_alone(claim, first.clone()));
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

    /// Keeps a key out of the batches for as long as the answer lives. Whoever comes first has the key's turn.
    fn block(self: &Arc<Self>, id: u64) -> Blocked {
        let key_turn = {
            let mut queue = self.lock();
            let held = queue.blocked.entry(id).or_insert_with(|| (0, Arc::new(Semaphore::new(1))));
            held.0 += 1;
            held.1.clone()
        };
        let turn = key_turn.clone().try_acquire_owned().ok();
        Blocked { group: self.clone(), id, key_turn, turn }
    }

    /// Answers those whose patience has ended while they queued: nothing of theirs was handed over.
    async fn patrol(self: Arc<Self>) {
        loop {
            let (late, next) = {
                let mut queue = self.lock();
                let now = Instant::now();
                let late = queue.take_late(now, now + self.patience);
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

/// What some of a call's rows get that did not enter; the call itself, where none did.
fn refuse_the_rest<A>(
    mut answers: Vec<Answered<A>>,
    rest: usize,
    error: Error,
) -> Result<Vec<Answered<A>>, Error> {
    if answers.is_empty() {
        return Err(error);
    }
    for _ in 0..rest {
        let (answer, answered) = oneshot::channel();
        let _ = answer.send(Err(match error {
            Error::Busy { what, waited } => Error::Busy { what, waited },
            _ => Error::Closed,
        }));
        answers.push(answered);
    }
    Ok(answers)
}

/// Waits for an answer. `close` waits for them all: without one the task has panicked that wrote it, and nobody knows how far it came.
pub(crate) async fn answered<A>(what: &'static str, answer: Option<Answered<A>>) -> Result<A, Error> {
    match answer {
        Some(answer) => answer.await.unwrap_or_else(|_| {
            let source = DbErr::Custom("the task that was to write it has ended without a word".into());
            Err(Error::Unclear { what, source })
        }),
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
    /// After a panic, another goes on with what is queued; else `take` has signed it off, under the very lock under which it saw that
    /// nothing is left.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if std::thread::panicking() {
            let successor = Self { group: self.group.clone(), ended: false };
            self.group.tasks.spawn(successor.flush());
        } else {
            // The store's thread has ended.
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

/// One that waits for a key which a stranger's transaction holds. Of those of one key, one at a time asks the database.
struct Blocked {
    group: Arc<Group>,
    id: u64,
    key_turn: Arc<Semaphore>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let mut queue = self.group.lock();
        if let Some((waiting, _)) = queue.blocked.get_mut(&self.id) {
            *waiting -= 1;
            if *waiting == 0 {
                queue.blocked.remove(&self.id);
            }
        }
    }
}
