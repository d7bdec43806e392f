//! Reading claims: by key, by reference, by the provider's id; their history; and what is due.

use std::collections::HashSet;

use crate::error::Error;
use crate::key::{ClaimKey, Reference};
use crate::receipt::{cut, provider_id};
use crate::store::bind;
use crate::store::row::{ClaimView, EventView, key_bytes, key_of};
use crate::store::{ClaimStore, write::Db};

/// How a claim is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// By its key.
    Key(ClaimKey),
    /// By its short handle.
    Reference(Reference),
    /// By the provider's id on file.
    ProviderRef(String),
}

impl From<&ClaimKey> for Handle {
    fn from(key: &ClaimKey) -> Self {
        Self::Key(key.clone())
    }
}

impl ClaimStore {
    /// The claim under a key.
    ///
    /// # Errors
    /// When the database cannot be read, or the row cannot.
    pub async fn find(&self, key: &ClaimKey) -> Result<Option<ClaimView>, Error> {
        let (db, key) = (self.inner.db.clone(), key.clone());
        self.inner.writer.run(async move { db.row_patiently("find", &key).await }).await
    }

    /// Every claim that a handle names: several may bear one provider's id, and, once in 10^14, one reference.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn find_all(&self, handle: &Handle) -> Result<Vec<ClaimView>, Error> {
        let (dialect, sql) = (self.dialect(), self.dialect().sql());
        let statement = match handle {
            Handle::Key(key) => return Ok(self.find(key).await?.into_iter().collect()),
            Handle::Reference(r) => bind::statement(dialect, sql.by_reference, vec![r.as_str().into()]),
            Handle::ProviderRef(id) => bind::statement(
                dialect,
                sql.by_provider_ref,
                vec![dialect.key_value(&provider_id(id.clone()))],
            ),
        };
        let db = self.inner.db.clone();
        self.inner
            .writer
            .run(async move { db.read("find", statement).await?.iter().map(ClaimView::read).collect() })
            .await
    }

    /// What happened to a claim, oldest first. The ordinary path writes no event: its timeline is in the claim's own times.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn history(&self, key: &ClaimKey) -> Result<Vec<EventView>, Error> {
        let statement = bind::by_key(self.dialect(), self.dialect().sql().history, key);
        let (db, key) = (self.inner.db.clone(), key.clone());
        self.inner
            .writer
            .run(async move {
                db.read("history", statement).await?.iter().map(|r| EventView::read(&key, r)).collect()
            })
            .await
    }

    /// The history of every claim that a handle names.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn history_of(&self, handle: &Handle) -> Result<Vec<(ClaimView, Vec<EventView>)>, Error> {
        let mut all = Vec::new();
        for claim in self.find_all(handle).await? {
            let events = self.history(&claim.key).await?;
            all.push((claim, events));
        }
        Ok(all)
    }

    /// The frozen request; `None` when there is no such claim or its request was purged.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn request(&self, key: &ClaimKey) -> Result<Option<Vec<u8>>, Error> {
        let (db, key) = (self.inner.db.clone(), key.clone());
        self.inner.writer.run(async move { db.request(&key).await }).await
    }

    /// Keys of claims that are due: at most `share` of each pair of tenant and consumer, at most `most` in all, pair after pair in turn,
    /// so that a flood of one pair does not starve the rest. Those `aside` are passed over, and take no place of their pair.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn due(
        &self,
        share: u32,
        most: usize,
        aside: HashSet<ClaimKey>,
    ) -> Result<Vec<ClaimKey>, Error> {
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { due(&db, share, most, &aside).await }).await
    }

    /// Notes that a sweeper has finished a pass: for health checks and the report.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn heartbeat(&self, sweeper: &str, version: &str, passes: u64) -> Result<(), Error> {
        let name = cut(sweeper.to_owned(), 128);
        let passes = i64::try_from(passes).unwrap_or(i64::MAX);
        let values = vec![name.into(), cut(version.to_owned(), 64).into(), passes.into()];
        let statement = bind::statement(self.dialect(), self.dialect().sql().heartbeat, values);
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.execute("heartbeat", statement).await }).await.map(|_| ())
    }

    /// The database's clock.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn now(&self) -> Result<crate::time::Timestamp, Error> {
        let statement = bind::statement(self.dialect(), self.dialect().sql().now, Vec::new());
        let db = self.inner.db.clone();
        let read = async move { crate::snapshot::clock(&db.read("now", statement).await?) };
        self.inner.writer.run(read).await
    }
}

async fn due(db: &Db, share: u32, most: usize, aside: &HashSet<ClaimKey>) -> Result<Vec<ClaimKey>, Error> {
    let (dialect, sql) = (db.pools.dialect, db.pools.dialect.sql());
    let mut pairs: Vec<Vec<ClaimKey>> = Vec::new();
    // The first pair may have the empty tenant; consumers are never empty, so ("", "") stands before every pair.
    let (mut tenant, mut consumer) = (dialect.walked_key(Vec::new()), dialect.walked_key(Vec::new()));
    loop {
        let after = vec![tenant.clone(), tenant, consumer];
        let rows = db.read("due", bind::statement(dialect, sql.next_pair, after)).await?;
        let Some(row) = rows.first() else { break };
        // As bytes: a key that was typed by hand and is no text must not stop the walk over the others.
        let part = |column| {
            key_bytes(row, column)
                .map_err(|e| Error::Malformed { key: "of a due row".into(), what: e.to_string() })
        };
        let pair = (part("tenant")?, part("consumer")?);
        (tenant, consumer) = (dialect.walked_key(pair.0.clone()), dialect.walked_key(pair.1.clone()));
        let mut of_pair = vec![tenant.clone(), consumer.clone()];
        let of_this = |k: &&ClaimKey| k.tenant().as_bytes() == pair.0 && k.consumer().as_bytes() == pair.1;
        let passed_over = aside.iter().filter(of_this).count();
        let limit = i64::from(share).saturating_add(i64::try_from(passed_over).unwrap_or(i64::MAX));
        of_pair.push(limit.into());
        let rows = db.read("due", bind::statement(dialect, sql.due_of_pair, of_pair)).await?;
        // A key that no constructor of ours would have made was typed by hand: it is passed over, and a snapshot names it.
        let keys = rows.iter().filter_map(|row| key_of(row).ok());
        pairs.push(keys.filter(|k| !aside.contains(k)).take(share as usize).collect());
    }
    Ok(in_turn(pairs, most))
}

/// One of each, then the second of each, and so on.
fn in_turn<T>(pairs: Vec<Vec<T>>, most: usize) -> Vec<T> {
    let mut rest: Vec<_> = pairs.into_iter().map(Vec::into_iter).collect();
    let mut out = Vec::new();
    while out.len() < most && !rest.is_empty() {
        rest.retain_mut(|pair| match pair.next() {
            Some(item) if out.len() < most => {
                out.push(item);
                true
            }
            _ => false,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn every_pair_gets_its_turn_before_a_flood_gets_its_second() {
        assert_eq!(in_turn(vec![vec![1, 2, 3], vec![10], vec![20, 21]], 5), [1, 10, 20, 2, 21]);
        assert!(in_turn(Vec::<Vec<u8>>::new(), 5).is_empty());
    }
}
