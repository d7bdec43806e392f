//! How a sweeper works, and what a pass did.

use std::time::Duration;

/// How a sweeper works. Several may sweep one database side by side: rows are taken by an update that repeats state, fence and token, and there
/// is no leader.
#[derive(Clone, Debug)]
pub struct SweeperOptions {
    /// Its name in heartbeats; several sweepers of one name overwrite each other's. Default: `sweeper`.
    pub name: String,
    /// Most claims of one pass. Default 500: some seconds of calls, so that a stop is soon.
    pub batch_max: usize,
    /// Most claims of one pair of tenant and consumer in one pass. Default 100: no pair fills a pass alone while others wait.
    pub share_max: u32,
    /// Calls under way at once. Default 16.
    pub concurrency: usize,
    /// For how long a claim that this sweeper cannot handle, or that keeps failing, steps aside. Default 60 s.
    pub aside_for: Duration,
}

impl Default for SweeperOptions {
    fn default() -> Self {
        Self {
            name: "sweeper".into(),
            batch_max: 500,
            share_max: 100,
            concurrency: 16,
            aside_for: Duration::from_secs(60),
        }
    }
}

impl SweeperOptions {
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: &str| {
            if !ok {
                faults.push(fault.to_owned());
            }
        };
        check(!self.name.is_empty() && self.name.len() <= 128, "the sweeper's name must have 1 to 128 bytes");
        check(self.batch_max > 0, "batch_max is zero: nothing would ever be swept");
        check(self.share_max > 0, "share_max is zero: nothing would ever be swept");
        check(self.concurrency > 0, "concurrency is zero: nothing would ever be swept");
        check(!self.aside_for.is_zero(), "aside_for is zero: a poisonous row would be tried in every pass");
        faults
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pass {
    /// Due claims that were read.
    pub due: u64,
    /// Leases over: into doubt.
    pub doubted: u64,
    /// Send-by passed.
    pub expired: u64,
    /// Begun, tried again or redriven.
    pub performed: u64,
    /// Looks of probes.
    pub looked: u64,
    /// Handed to a person.
    pub escalated: u64,
    /// Confirmed in this pass, by a call or a look.
    pub confirmed: u64,
    /// Left to a process that has their code.
    pub left: u64,
    /// Left alone because their downstream fails in a row.
    pub rested: u64,
    /// Left alone because a person has paused their downstream. Claims for which nothing has been sent yet are not even read then.
    pub paused: u64,
    /// Left alone because this process calls their downstream as often as it may.
    pub limited: u64,
    /// Failed: they step aside and are tried again.
    pub failed: u64,
}

impl Pass {
    pub(super) fn add(&mut self, other: Self) {
        self.due += other.due;
        self.doubted += other.doubted;
        self.expired += other.expired;
        self.performed += other.performed;
        self.looked += other.looked;
        self.escalated += other.escalated;
        self.confirmed += other.confirmed;
        self.left += other.left;
        self.rested += other.rested;
        self.paused += other.paused;
        self.limited += other.limited;
        self.failed += other.failed;
    }
}
