//! Reading claims: by key, by reference, by the provider's id; and their history.

use crate::error::Error;
use crate::key::{ClaimKey, Reference};
use crate::receipt::{cut, provider_id};
use crate::store::ClaimStore;
use crate::store::bind;
use crate::store::row::{ClaimView, EventView};

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
