//! Patience: how often a statement is tried again, and how long between.

use std::time::{Duration, Instant};

use sea_orm::DbErr;

use super::dialect::Fault;
use super::write::still_unclear;
use crate::error::Error;

/// Longest wait between two tries of a statement that the server rolled back because of others.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How often a statement is tried again, or read back, after its connection was lost. Beyond that the database is down.
const LOST_RETRIES: u32 = 5;

/// Counts tries and waits between them, with full jitter.
pub(super) struct Tries {
    contended: u32,
    contention_max: u32,
    lost: u32,
    /// A try before this one may have been written, whatever the later ones say.
    unclear: bool,
}

impl Tries {
    pub(super) fn new(contention_max: u32) -> Self {
        Self { contended: 0, contention_max, lost: 0, unclear: false }
    }

    /// Waits before the next try, or says why there is none.
    pub(super) async fn again(
        &mut self,
        what: &'static str,
        source: DbErr,
        fault: Fault,
    ) -> Result<(), Error> {
        let again = self.wait(what, source, fault).await;
        self.unclear |= fault == Fault::Unclear;
        again.map_err(|error| self.given_up(error))
    }

    /// The same for a row that a stranger's open transaction holds: as often as it takes, until the deadline.
    pub(super) async fn again_until(
        &mut self,
        deadline: Instant,
        what: &'static str,
        source: DbErr,
    ) -> Result<(), Error> {
        if Instant::now() < deadline {
            tokio::time::sleep(PAUSE_MAX.mul_f64(fastrand::f64())).await;
            return Ok(());
        }
        let over = Error::Contention { what, source };
        Err(self.given_up(over))
    }

    /// What is said of a write that is not tried again for want of time.
    pub(super) fn given_up(&self, error: Error) -> Error {
        if self.unclear { still_unclear(error) } else { error }
    }

    async fn wait(&mut self, what: &'static str, source: DbErr, fault: Fault) -> Result<(), Error> {
        let tries = match fault {
            Fault::Rejected => return Err(Error::Rejected { what, source }),
            Fault::Unavailable if self.lost >= LOST_RETRIES => {
                return Err(Error::Unavailable { what, source });
            }
            Fault::Unclear if self.lost >= LOST_RETRIES => return Err(Error::Unclear { what, source }),
            Fault::Contention if self.contended >= self.contention_max => {
                return Err(Error::Contention { what, source });
            }
            Fault::Unavailable | Fault::Unclear => {
                self.lost += 1;
                self.lost
            }
            Fault::Contention => {
                self.contended += 1;
                self.contended
            }
        };
        let ceiling = Duration::from_millis(2u64 << tries.min(10)).min(PAUSE_MAX);
        tracing::debug!(what, ?fault, tries, error = %crate::failure::chain(&source), "trying again");
        tokio::time::sleep(ceiling.mul_f64(fastrand::f64())).await;
        Ok(())
    }
}

/// Another event took the number of ours: the write starts over.
pub(super) fn outnumbered() -> DbErr {
    DbErr::RecordNotInserted
}

/// A row that was there a moment ago is gone (purged meanwhile): the write starts over.
pub(super) fn gone() -> DbErr {
    DbErr::RecordNotFound("the row of the claim".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_was_written_is_never_said_after_a_try_of_which_nobody_knows() {
        let away = || DbErr::Custom("the database is away".into());
        let mut tries = Tries::new(0);
        assert!(matches!(tries.again("x", away(), Fault::Contention).await, Err(Error::Contention { .. })));
        let mut tries = Tries::new(0);
        tries.again("x", away(), Fault::Unclear).await.expect("another try");
        assert!(matches!(tries.again("x", away(), Fault::Contention).await, Err(Error::Unclear { .. })));
        let gone = loop {
            if let Err(error) = tries.again("x", away(), Fault::Unavailable).await {
                break error;
            }
        };
        assert!(matches!(gone, Error::Unclear { .. }), "{gone:?}");
    }
}
