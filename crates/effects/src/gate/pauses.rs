//! What this process knows of the pauses: rows, read at most once in an interval, whatever the traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use earmark_claim::{ClaimStore, failure};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Gates;
use crate::error::Error;

pub(super) struct Pauses {
    every: Duration,
    began: Instant,
    /// Nanoseconds since it began at which the newest reading did; what it saw is not older.
    read_at: AtomicU64,
    /// Whether any reading has succeeded.
    known: AtomicBool,
    reading: Arc<Mutex<()>>,
}

impl Pauses {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            began: Instant::now(),
            read_at: AtomicU64::new(0),
            known: AtomicBool::new(false),
            reading: Arc::default(),
        }
    }

    fn age(&self) -> Option<Duration> {
        let read_at = Duration::from_nanos(self.read_at.load(Ordering::Acquire));
        self.known.load(Ordering::Acquire).then(|| self.began.elapsed().saturating_sub(read_at))
    }
}

impl Gates {
    /// What is known of the pauses is not older than twice the interval. After one interval they are read in the background; only after two
    /// (nobody has asked for a while) does the caller wait. Where they cannot be read, what was known goes on to hold.
    ///
    /// # Errors
    /// [`Error::Store`] where they have never been read: nobody knows whether a person has paused what is about to be called.
    pub(crate) async fn know_pauses(self: &Arc<Self>, store: &ClaimStore) -> Result<(), Error> {
        match self.pauses.age() {
            Some(age) if age < self.pauses.every => Ok(()),
            // Apart, since a future is moved about with all that it may ever hold.
            age => Box::pin(self.catch_up(age, store)).await,
        }
    }

    async fn catch_up(self: &Arc<Self>, age: Option<Duration>, store: &ClaimStore) -> Result<(), Error> {
        let every = self.pauses.every;
        match age {
            Some(age) if age < every * 2 => {
                if let Ok(reading) = self.pauses.reading.clone().try_lock_owned() {
                    let (this, store) = (self.clone(), store.clone());
                    tokio::spawn(async move {
                        let _ = this.read_pauses(&store).await;
                        drop(reading);
                    });
                }
                Ok(())
            }
            _ => {
                let _reading = self.pauses.reading.lock().await;
                // Somebody else may have read them meanwhile.
                if self.pauses.age().is_none_or(|age| age >= every) {
                    self.read_pauses(store).await?;
                }
                Ok(())
            }
        }
    }

    async fn read_pauses(&self, store: &ClaimStore) -> Result<(), Error> {
        let began = u64::try_from(self.pauses.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let read = store.pauses().await;
        self.pauses.read_at.store(began, Ordering::Release);
        match read {
            Ok(pauses) => {
                self.set_paused(pauses.into_iter().map(|pause| pause.downstream).collect());
                self.pauses.known.store(true, Ordering::Release);
                Ok(())
            }
            Err(error) if !self.pauses.known.load(Ordering::Acquire) => Err(error.into()),
            Err(earmark_claim::Error::Closed) => Ok(()),
            Err(error) => {
                let error = failure::chain(&error);
                tracing::warn!(error, "the pauses cannot be read: what was known of them goes on to hold");
                Ok(())
            }
        }
    }
}
