//! Connections for batches that stay in hand from one to the next.
//!
//! The driver's pool pings each connection that comes back to it, to throw away those that are dead: one round trip more for each
//! statement. Here a dead one shows as an unclear commit, which is read back anyway, and goes back to the pool after any error.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};

/// Longest that one stays in hand: then the pool sees to its age, as to that of any other.
const KEPT_MAX: Duration = Duration::from_secs(600);
/// Longest that one stays unused: a firewall or a server may have dropped it.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Connections in hand, at most as many as batches are under way at once: the pool has others for who is tried alone.
pub(crate) struct Kept<DB: Database> {
    free: Mutex<Vec<InHand<DB>>>,
    most: usize,
}

/// A connection, in use or in hand.
pub(crate) struct InHand<DB: Database> {
    pub(crate) connection: PoolConnection<DB>,
    since: Instant,
    used: Instant,
}

impl<DB: Database> Kept<DB> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { free: Mutex::new(Vec::new()), most }
    }

    /// One in hand, or another one of the pool's. Dropped, it goes back to the pool.
    pub(crate) async fn take(&self, pool: &Pool<DB>) -> Result<InHand<DB>, sqlx::Error> {
        let free = self.lock().pop();
        if let Some(free) = free.filter(|f| f.since.elapsed() < KEPT_MAX && f.used.elapsed() < IDLE_MAX) {
            return Ok(free);
        }
        let connection = pool.acquire().await?;
        let now = Instant::now();
        Ok(InHand { connection, since: now, used: now })
    }

    /// Keeps one after a statement that went well.
    pub(crate) fn keep(&self, mut used: InHand<DB>) {
        used.used = Instant::now();
        let mut free = self.lock();
        if free.len() < self.most {
            free.push(used);
        }
    }

    /// Gives all of them back, so that the pool can be closed.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<InHand<DB>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
