//! How a store is opened.

use std::time::Duration;

use crate::key::Namespace;

/// How a store is opened. The lease has no default: it decides how long a call may take and how soon a crash is noticed.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// For how long a holder is believed. Must be longer than the call timeout of every effect plus the margin.
    pub lease: Duration,
    /// Kept free before the end of a key window, for clocks and wires. Default 1 s: a DNS look-up and a TLS handshake on a bad
    /// day.
    pub margin: Duration,
    /// For how long after its creation a held claim is left to its maker before the sweep starts it. Default: the lease.
    pub held_grace: Option<Duration>,
    /// Connections on which the store writes claims and outcomes in batches, and as many again on which it does its other writes. Two more are for
    /// rows that are tried alone, and for those that a stranger's transaction holds up. Default 2 (MySQL: always 2 for batches; SQLite: always 1
    /// for everything). Two in flight keep two cores busy; more only make each batch smaller.
    pub write_connections: u32,
    /// Connections on which the store reads, and reads back what became of a lost commit. Default 2.
    pub read_connections: u32,
    /// How long to wait for a connection. Default 10 s.
    pub acquire_timeout: Duration,
    /// How long a claim or an outcome waits for its turn in the queue, and a claim for a stranger's open transaction that has made the same one,
    /// before the caller gets an error and makes no call. Default 10 s.
    pub patience: Duration,
    /// How many claims, and as many outcomes again, may wait to be written together. Whoever comes later waits outside, with the same
    /// patience. Default 10,000: some MiB.
    pub queue_capacity: usize,
    /// How often a statement that the server rolled back because of others is tried again. Default 20, with
    /// jittered waits of up to 250 ms: some seconds of a hot key.
    pub contention_retries: u32,
    /// How long a write in a transaction of the store's waits for a lock of somebody else's session, each time it is tried: MySQL
    /// counts in whole seconds, and SQLite has a wait of its own (5 s). After the last of
    /// [`contention_retries`](StoreOptions::contention_retries) it is [`Error::Contention`](crate::Error::Contention). Default 2 s.
    pub lock_timeout: Duration,
    /// Opens a database whose commits may be lost at a power cut. Stands on every report.
    pub allow_non_durable: bool,
    /// A pooler (PgBouncer, ProxySQL) stands between the store and the server, and lends it transaction by transaction or for whole
    /// sessions. Then every statement, reads included, runs in a transaction of its own, under no name, and nothing depends on the
    /// session: on PostgreSQL four round trips instead of one for a claim, settle or read by itself. On SQLite it is refused; on
    /// PostgreSQL its absence is, where a pooler is found. What the pooler has to be told stands in `docs/poolers.md`. Default `false`.
    pub pooler: bool,
    /// Must equal the namespace that the first migration wrote, if given.
    pub namespace: Option<Namespace>,
}

impl StoreOptions {
    /// Options with a lease; see [`StoreOptions::lease`].
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            margin: Duration::from_secs(1),
            held_grace: None,
            write_connections: 2,
            read_connections: 2,
            acquire_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            queue_capacity: 10_000,
            contention_retries: 20,
            lock_timeout: Duration::from_secs(2),
            allow_non_durable: false,
            pooler: false,
            namespace: None,
        }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: &str| {
            if !ok {
                faults.push(fault.to_owned());
            }
        };
        check(!self.lease.is_zero(), "lease is zero: a claim would be swept while its call is under way");
        check(self.lease > self.margin, "lease is not longer than margin");
        check(self.lease <= LEASE_MAX, "lease is longer than 24 h: a crash would go unnoticed for a day");
        check(self.write_connections > 0, "write_connections is zero");
        check(self.read_connections > 0, "read_connections is zero");
        check(!self.acquire_timeout.is_zero(), "acquire_timeout is zero");
        // Zero is what PostgreSQL takes for "never".
        check(self.lock_timeout >= Duration::from_millis(1), "lock_timeout is shorter than 1 ms");
        check(!self.patience.is_zero(), "patience is zero: nothing could ever wait for its turn");
        check(
            (1..=QUEUE_CAPACITY_MAX).contains(&self.queue_capacity),
            "queue_capacity is not between 1 and 1,000,000",
        );
        faults
    }
}

/// Beyond that a queue is a place to lose memory in.
const QUEUE_CAPACITY_MAX: usize = 1_000_000;

/// A lease longer than a day hides crashes from the people who would look at them.
const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a finished claim or its tombstone must be there, so that no late redelivery or replay finds the key free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention(Duration);

impl Retention {
    /// The floor for a broker: every delivery may hold the message for `lock`, up to `max_deliveries` times; an undelivered
    /// message lives for `ttl`; and a person may replay a dead-lettered one up to `operator_slack` later.
    ///
    /// `lock * max_deliveries + ttl + operator_slack`, cut at the longest representable duration.
    pub fn for_broker(lock: Duration, max_deliveries: u32, ttl: Duration, operator_slack: Duration) -> Self {
        Self(lock.saturating_mul(max_deliveries).saturating_add(ttl).saturating_add(operator_slack))
    }

    /// As the operator of the broker states it.
    pub const fn of(floor: Duration) -> Self {
        Self(floor)
    }

    /// The shortest time to keep a finished claim or its tombstone.
    pub const fn floor(self) -> Duration {
        self.0
    }
}
