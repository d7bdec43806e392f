//! The store: the dozen operations on claims, by name.

mod batch;
pub(crate) mod bind;
mod check;
mod connect;
pub(crate) mod dialect;
pub(crate) mod group;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod kept;
mod options;
pub(crate) mod ordinary;
pub(crate) mod purge;
pub(crate) mod row;
mod sql;
mod tries;
mod tx;
pub(crate) mod write;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use sea_orm::DatabaseConnection;

pub use dialect::Dialect;
pub use options::{Retention, StoreOptions};
pub use row::{ClaimView, EventView, OrphanView, SweeperView};

use crate::error::Error;
use crate::key::{ClaimKey, IdempotencyKey, Namespace, Reference};
use crate::new_claim::KeyChoice;
use crate::state::Room;
use connect::Source;
use group::Group;
use write::Db;
use writer::Writer;

/// Claims in a database. Cheap to clone; all clones share one thread and its connections.
///
/// It adds twice the [`write_connections`](StoreOptions::write_connections), two, and the
/// [`read_connections`](StoreOptions::read_connections) to the database, and one thread to the process. [`close`](ClaimStore::close) drains it.
#[derive(Clone)]
pub struct ClaimStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Arc<Db>,
    pub(crate) group: Arc<Group>,
    pub(crate) writer: Writer,
    pub(crate) options: StoreOptions,
    pub(crate) namespace: Namespace,
    non_durable: Option<String>,
}

impl ClaimStore {
    /// Opens the store on a URL: `postgres://`, `mysql://` or `sqlite://`.
    ///
    /// # Errors
    /// [`Error::Config`] with every fault, [`Error::Connect`] when the database cannot be reached.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self, Error> {
        Self::open(Source::Url(url.to_owned()), options).await
    }

    /// Opens the store beside a host's pool: with its URL, TLS, search path, credentials and hooks, on connections of its
    /// own, so that a connection that somebody else's cancelled future has spoiled is never used. (On SQLite the pool's
    /// `before_acquire` hook is not inherited: the store needs one of its own.)
    ///
    /// # Errors
    /// As [`ClaimStore::connect`]; also for a mock, a proxy, or a disconnected handle.
    pub async fn on(host: &DatabaseConnection, options: StoreOptions) -> Result<Self, Error> {
        Self::open(Source::Host(host.clone()), options).await
    }

    async fn open(source: Source, options: StoreOptions) -> Result<Self, Error> {
        let faults = options.faults();
        if !faults.is_empty() {
            return Err(Error::Config(faults));
        }
        let writer =
            Writer::start().map_err(|e| Error::Config(vec![format!("no thread for the store: {e}")]))?;
        let (wanted, host) = (options.clone(), source.clone());
        let opened = async {
            let pools = writer.run(async move { connect::open(source, &wanted).await }).await?;
            // Here and not on the writer's thread: a connection that the host's pool opened there would die with the store.
            let weak_host = check::host(&host, pools.dialect, pools.pooler).await?;
            let wanted = options.clone();
            let checked = async move {
                let found = check::all(&pools, weak_host, &wanted).await?;
                Ok((pools, found))
            };
            writer.run(checked).await
        }
        .await;
        let (pools, found) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                writer.close(async {}).await;
                return Err(error);
            }
        };
        if let Some(why) = &found.non_durable {
            tracing::warn!(
                why,
                "the database may lose committed claims at a power cut; every report says so"
            );
        }
        let lanes = pools.dialect.lanes(options.write_connections);
        let db = Arc::new(Db::new(pools, options.contention_retries, options.patience));
        let (capacity, patience) = (options.queue_capacity, options.patience);
        let group = Arc::new(Group::new(db.clone(), writer.tasks(), lanes, capacity, patience));
        let inner =
            Inner { db, group, writer, options, namespace: found.namespace, non_durable: found.non_durable };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until every statement under way has ended, closes the connections and stops the thread. Operations begun later
    /// answer [`Error::Closed`].
    pub async fn close(&self) {
        let db = self.inner.db.clone();
        // The pools belong to the writer's runtime, so they are closed there, as its last task: what waits for a connection
        // until then still gets one.
        let last = async move {
            db.pools.give_back();
            let _ = db.pools.claims.close_by_ref().await;
            let _ = db.pools.write.close_by_ref().await;
            let _ = db.pools.purge.close_by_ref().await;
            let _ = db.pools.read.close_by_ref().await;
        };
        self.inner.writer.close(last).await;
    }

    /// How it was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.inner.options
    }

    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        self.inner.db.pools.dialect
    }

    /// What sets apart the keys of two services or environments on one provider account.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.namespace
    }

    /// Why commits may be lost at a power cut; `None` when the database is durable. For every report.
    pub fn non_durable(&self) -> Option<&str> {
        self.inner.non_durable.as_deref()
    }

    /// The key that the provider will see: for effects that put it into the request's body before it is frozen.
    ///
    /// # Errors
    /// [`Error::Key`] when a verbatim key breaks the provider's rule.
    pub fn idempotency_key(&self, key: &ClaimKey, choice: &KeyChoice) -> Result<IdempotencyKey, Error> {
        Ok(match choice {
            KeyChoice::Derived => IdempotencyKey::derive(&self.inner.namespace, key),
            KeyChoice::Verbatim(rule) => IdempotencyKey::verbatim(key, rule)?,
        })
    }

    /// The short handle that the claim will have.
    pub fn reference(&self, key: &ClaimKey) -> Reference {
        Reference::derive(&self.inner.namespace, key)
    }

    /// Lease and margin of a taking for calls of that length: the configured lease, or longer where a stored claim's frozen call
    /// timeout asks for it, so that a sidecar can take what another service made.
    pub fn room(&self, call_timeout: Duration) -> Room {
        let Inner { options, .. } = &*self.inner;
        let needed = call_timeout.saturating_add(options.margin.saturating_mul(2)).saturating_add(SEND_ROOM);
        Room { lease: options.lease.max(needed), margin: options.margin }
    }
}

/// Time to get from the taking to the wire where the frozen call timeout, not the configured lease, sets the lease.
const SEND_ROOM: Duration = Duration::from_secs(5);

impl std::fmt::Debug for ClaimStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClaimStore({:?})", self.dialect())
    }
}
