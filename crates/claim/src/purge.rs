//! The purge: what is finished and old becomes a tombstone, and a tombstone that is older still is deleted.
//!
//! Two ages, both counted from when a claim was closed, by the database's clock. At the first one request, answer and history go, and
//! a small row stays: it deduplicates, answers and tells a mismatch as before. At the second one that row goes too, and **the key is
//! free**: the message, should it come again, acts again. Only what is confirmed or abandoned is ever purged.
//!
//! Everything here is one bounded batch; how many, how fast and when is the caller's to say. A batch is one transaction that finds its
//! rows by index, so that whatever stops a purge half-way leaves nothing to repair: the next batch goes on where it stopped.

use std::time::Duration;

use crate::error::Error;
use crate::store::{ClaimStore, Retention};
use crate::time::{Timestamp, micros};

/// When finished claims are purged. Made by [`PurgeRules::new`], which refuses ages under which a key would be free too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeRules {
    retention: Duration,
    tombstone_age: Option<Duration>,
}

/// When tombstones are deleted, and what that age must outlive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstones {
    /// How long after it was closed a claim's tombstone is deleted.
    pub age: Duration,
    /// For how long its message can come again.
    pub redelivery: Retention,
}

impl PurgeRules {
    /// `retention`: how long after it was closed a claim becomes a tombstone. `tombstones`: when those are deleted; `None`: never.
    /// `key_windows`: for how long providers remember the keys of this process's effects, each with its kind.
    ///
    /// The age of tombstones is what is held against redelivery and key windows, not the retention: a tombstone still
    /// deduplicates, and an open claim keeps its request whatever its age.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every fault, each with both numbers and the fix.
    pub fn new<'a>(
        retention: Duration,
        tombstones: Option<Tombstones>,
        key_windows: impl IntoIterator<Item = (&'a str, Duration)>,
    ) -> Result<Self, Error> {
        let mut faults = Vec::new();
        if retention.is_zero() {
            faults.push(
                "the retention is zero: a claim would lose its answer the moment it has one".to_owned(),
            );
        }
        if let Some(Tombstones { age, redelivery }) = tombstones {
            if age <= retention {
                faults.push(format!(
                    "tombstones are deleted after {age:?}, which is not longer than the retention of {retention:?}: nothing \
                     would ever be a tombstone; make the age of tombstones longer"
                ));
            }
            if age < redelivery.floor() {
                faults.push(format!(
                    "tombstones are deleted after {age:?}, but a message can come again for {:?}: it would act again; make \
                     the age of tombstones at least that long",
                    redelivery.floor()
                ));
            }
            for (kind, window) in key_windows {
                if age < window {
                    faults.push(format!(
                        "tombstones are deleted after {age:?}, but the provider of {kind} remembers a key for {window:?}: a \
                         claim must be known for as long as its key is; make the age of tombstones at least that long"
                    ));
                }
            }
        }
        if !faults.is_empty() {
            return Err(Error::Invalid { what: "the purge", faults });
        }
        Ok(Self { retention, tombstone_age: tombstones.map(|t| t.age) })
    }

    /// How long after it was closed a claim becomes a tombstone.
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// How long after it was closed a claim's tombstone is deleted; `None`: never.
    pub const fn tombstone_age(&self) -> Option<Duration> {
        self.tombstone_age
    }
}

/// What one batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeBatch {
    /// Rows: made a tombstone, or deleted.
    pub claims: u64,
    /// Events that went before them.
    pub events: u64,
    /// For how long it held its locks, from the beginning of its transaction to the end of its commit: without the wait before it.
    pub held: Duration,
    /// Where the next batch begins; `None`: nothing is left that is old enough and not held by somebody else.
    pub next: Option<Timestamp>,
}

/// What a purge would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgePlan {
    /// Claims that would become tombstones.
    pub claims: Vec<PurgeTally>,
    /// Tombstones that would be deleted.
    pub tombstones: Vec<PurgeTally>,
    /// Claims that are old enough and kept all the same: confirmed, perhaps twice.
    pub kept: u64,
}

/// Finished claims of one tenant, consumer and state.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PurgeTally {
    /// The tenant.
    pub tenant: String,
    /// The consumer.
    pub consumer: String,
    /// `confirmed` or `abandoned`.
    pub state: String,
    /// How many.
    pub claims: u64,
    /// Bytes of their requests and answers.
    pub bytes: u64,
    /// Their events.
    pub events: u64,
    /// Bytes of what the events say and brought.
    pub event_bytes: u64,
}

impl ClaimStore {
    /// Makes tombstones of at most `most` claims that were closed longer ago than the retention, the oldest first, beginning with
    /// those closed at `from` (zero: with the oldest). Their events go in the same transaction. Claims that somebody holds at this
    /// moment, and those that are confirmed, perhaps twice, are passed over.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn purge_batch(
        &self,
        rules: &PurgeRules,
        from: Timestamp,
        most: u32,
    ) -> Result<PurgeBatch, Error> {
        let (db, age) = (self.inner.db.clone(), micros(rules.retention));
        self.inner.writer.run(async move { db.purge_batch(from, age, most).await }).await
    }

    /// Deletes at most `most` tombstones that were closed longer ago than the age of tombstones, with the events that came to them,
    /// beginning with those closed at `from` (zero: with the oldest). One whose provider still remembers its key is passed over.
    /// Does nothing where the rules keep tombstones for ever.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete_tombstones(
        &self,
        rules: &PurgeRules,
        from: Timestamp,
        most: u32,
    ) -> Result<PurgeBatch, Error> {
        let Some(age) = rules.tombstone_age else { return Ok(PurgeBatch::default()) };
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.delete_tombstones(from, micros(age), most).await }).await
    }

    /// What a purge would do now, without doing it. Reads every claim that it would take: minutes where there are many millions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn purge_plan(&self, rules: &PurgeRules) -> Result<PurgePlan, Error> {
        let (db, rules) = (self.inner.db.clone(), *rules);
        self.inner
            .writer
            .run(async move { db.purge_plan(micros(rules.retention), rules.tombstone_age.map(micros)).await })
            .await
    }

    /// Drops the signs of life of sweepers that gave none for that long: every host name and container leaves one behind. Answers
    /// how many.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn forget_sweepers(&self, silent_for: Duration) -> Result<u64, Error> {
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.forget_sweepers(micros(silent_for)).await }).await
    }

    /// The statements that find what is old, for a look at their plans; they bind a moment to begin at, an age in microseconds and a number
    /// of rows.
    #[doc(hidden)]
    pub fn purge_picks(&self) -> [&'static str; 2] {
        let sql = self.dialect().sql();
        [sql.purge_pick, sql.tombstone_pick]
    }

    /// Whether claims of this process wait to be written: background work steps aside for them.
    pub fn is_busy(&self) -> bool {
        self.inner.group.claims_waiting() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn rules(
        retention: Duration,
        age: Option<Duration>,
        windows: &[(&str, Duration)],
    ) -> Result<PurgeRules, String> {
        let redelivery = Retention::for_broker(Duration::from_secs(60), 10, DAY * 7, DAY * 7);
        let tombstones = age.map(|age| Tombstones { age, redelivery });
        PurgeRules::new(retention, tombstones, windows.iter().copied()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_key_is_never_free_before_its_message_can_come_no_more_and_its_provider_has_forgotten_it() {
        let floor = Duration::from_secs(600) + DAY * 14;
        assert!(rules(DAY, Some(floor), &[("card.charge", floor)]).is_ok());
        for (retention, age, windows, parts) in [
            (DAY, floor - Duration::from_secs(1), vec![], ["1210199s", "come again for 1210200s"]),
            (
                DAY,
                floor,
                vec![("card.charge", floor * 2)],
                ["1210200s", "card.charge remembers a key for 2420400s"],
            ),
            (floor, floor, vec![], ["1210200s", "retention of 1210200s"]),
        ] {
            let fault = rules(retention, Some(age), &windows).expect_err("refused");
            assert!(parts.iter().all(|part| fault.contains(part)), "{parts:?} in {fault}");
        }
        assert!(rules(Duration::ZERO, None, &[]).expect_err("refused").contains("retention is zero"));
    }

    #[test]
    fn tombstones_that_are_never_deleted_outlive_every_window() {
        let rules = rules(DAY, None, &[("card.charge", DAY * 3650)]).expect("fits");
        assert_eq!((rules.retention(), rules.tombstone_age()), (DAY, None));
    }
}
