//! What a report is made of, read in one snapshot: totals that foot need rows that belong together.

use sea_orm::{ConnectionTrait, DbErr, QueryResult, Value};

use crate::error::Error;
use crate::key::ClaimKey;
use crate::list::readable;
use crate::pause::Pause;
use crate::store::ClaimStore;
use crate::store::bind;
use crate::store::row::{ClaimView, EventView, OrphanView, SweeperView, key_of};
use crate::store::write::Db;
use crate::time::Timestamp;

/// Rows of one moment.
#[derive(Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The database's clock in it.
    pub as_of: Timestamp,
    /// Every open claim, and every one closed since the moment asked for: with them all that were made since. Without receipts.
    pub claims: Vec<ClaimView>,
    /// Rows of claims and events that cannot be read, each with its key and why: they are missing here.
    pub unreadable: Vec<String>,
    /// Every event since that moment, and every mismatch of an open claim. Without bytes.
    pub events: Vec<(ClaimKey, EventView)>,
    /// Every orphan since that moment.
    pub orphans: Vec<OrphanView>,
    /// Every sweeper's last sign of life.
    pub sweepers: Vec<SweeperView>,
    /// Every pause that stands, and every one that began or ended since that moment.
    pub pauses: Vec<Pause>,
}

impl ClaimStore {
    /// Reads what a report about the time since `from` needs, in one read-only transaction at one snapshot.
    ///
    /// # Errors
    /// When the database cannot be read, or a row that is no claim's cannot.
    pub async fn snapshot(&self, from: Timestamp) -> Result<Snapshot, Error> {
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { snapshot(&db, from).await }).await
    }
}

async fn snapshot(db: &Db, from: Timestamp) -> Result<Snapshot, Error> {
    let (dialect, sql) = (db.pools.dialect, db.pools.dialect.sql());
    let unavailable = |source: DbErr| Error::Unavailable { what: "report", source };
    let tx = db.pools.begin_snapshot().await.map_err(unavailable)?;
    let read = async |sql: &'static str, values: Vec<Value>| {
        tx.query_all_raw(bind::statement(dialect, sql, values)).await.map_err(unavailable)
    };
    let pauses = read(sql.pauses, crate::pause::since(from)).await?;
    let from: Value = from.as_micros().into();
    let now = read(sql.now, Vec::new()).await?;
    let claims = read(sql.report_claims, vec![from.clone(), from.clone()]).await?;
    let events = read(sql.report_events, vec![from.clone(), from.clone()]).await?;
    let orphans = read(sql.report_orphans, vec![from]).await?;
    let sweepers = read(sql.sweepers, Vec::new()).await?;
    tx.commit().await.map_err(unavailable)?;
    let (claims, mut unreadable) = readable(&claims);
    let events = events.iter().filter_map(|row| {
        let read = key_of(row).and_then(|key| EventView::read(&key, row).map(|event| (key, event)));
        read.map_err(|error| unreadable.push(format!("an event: {error}"))).ok()
    });
    let events = events.collect();
    Ok(Snapshot {
        as_of: clock(&now)?,
        claims,
        unreadable,
        events,
        orphans: orphans.iter().map(OrphanView::read).collect::<Result<_, _>>()?,
        sweepers: sweepers.iter().map(SweeperView::read).collect::<Result<_, _>>()?,
        pauses: pauses.iter().map(Pause::read).collect::<Result<_, _>>()?,
    })
}

/// The one row of `SELECT <clock>`.
pub(crate) fn clock(rows: &[QueryResult]) -> Result<Timestamp, Error> {
    let unreadable = |what: String| Error::Malformed { key: "of the clock".into(), what };
    let row = rows.first().ok_or_else(|| unreadable("no row".into()))?;
    row.try_get_by_index(0).map(Timestamp::from_micros).map_err(|e| unreadable(e.to_string()))
}
