//! Patience: how often a statement is tried again, and how long between.

use std::time::Duration;

use sea_orm::DbErr;

use super::dialect::Fault;
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
}

impl Tries {
    pub(super) fn new(contention_max: u32) -> Self {
        Self { contended: 0, contention_max, lost: 0 }
    }

    /// Waits before the next try, or says why there is none.
    pub(super) async fn again(
        &mut self,
        what: &'static str,
        source: DbErr,
        fault: Fault,
    ) -> Result<(), Error> {
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
