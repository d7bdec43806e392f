//! The purge's batches, on a connection of its own.

use std::time::Instant;

use sea_orm::{ConnectionTrait, DbErr, QueryResult, Value};

use super::bind;
use super::row::text;
use super::tries::Tries;
use super::write::Db;
use crate::error::Error;
use crate::purge::{PurgeBatch, PurgePlan, PurgeTally};
use crate::time::Timestamp;

/// The statements of one kind of batch.
struct Batch {
    what: &'static str,
    pick: &'static str,
    rows: &'static str,
    from: Timestamp,
    /// Microseconds since the closing.
    age: i64,
    most: u32,
}

impl Db {
    pub(crate) async fn purge_batch(
        &self,
        from: Timestamp,
        age: i64,
        most: u32,
    ) -> Result<PurgeBatch, Error> {
        let sql = self.pools.dialect.sql();
        self.batch(Batch { what: "purge", pick: sql.purge_pick, rows: sql.purge_rows, from, age, most }).await
    }

    pub(crate) async fn delete_tombstones(
        &self,
        from: Timestamp,
        age: i64,
        most: u32,
    ) -> Result<PurgeBatch, Error> {
        let sql = self.pools.dialect.sql();
        let (pick, rows) = (sql.tombstone_pick, sql.tombstone_rows);
        self.batch(Batch { what: "delete tombstones", pick, rows, from, age, most }).await
    }

    /// Tried again whatever became of the last try: what it did is not found again.
    async fn batch(&self, batch: Batch) -> Result<PurgeBatch, Error> {
        let mut tries = Tries::new(self.contention_retries);
        loop {
            match self.batch_once(&batch).await {
                Ok(done) => return Ok(done),
                Err(e) => {
                    let fault = self.pools.dialect.fault(&e);
                    tries.again(batch.what, e, fault).await?;
                }
            }
        }
    }

    /// Events first, then the rows, in one transaction that holds the rows' locks.
    async fn batch_once(&self, batch: &Batch) -> Result<PurgeBatch, DbErr> {
        let (dialect, sql) = (self.pools.dialect, self.pools.dialect.sql());
        let tx = self.pools.begin_purge().await?;
        let begun = Instant::now();
        let values: Vec<Value> =
            vec![batch.from.as_micros().into(), batch.age.into(), i64::from(batch.most).into()];
        let picked = tx.query_all_raw(bind::statement(dialect, batch.pick, values)).await?;
        let Some(last) = picked.last() else {
            tx.rollback().await?;
            return Ok(PurgeBatch::default());
        };
        let last: i64 = last.try_get_by("closed_at")?;
        // One that was typed by hand and is no text is passed over: it must not stop the purge of all others.
        let part = |row, column| text(row, column).ok();
        let keys: Vec<_> = picked
            .iter()
            .filter_map(|row| Some([part(row, "tenant")?, part(row, "consumer")?, part(row, "message_id")?]))
            .collect();
        let keys: Value = serde_json::to_string(&keys).map_err(|e| DbErr::Json(e.to_string()))?.into();
        let written = async |sql| {
            let done = tx.execute_raw(bind::statement(dialect, sql, vec![keys.clone()])).await;
            done.map(|done| done.rows_affected())
        };
        let events = written(sql.purge_events).await?;
        let claims = written(batch.rows).await?;
        tx.commit().await?;
        // What is left of that very moment comes with the next batch; unless all of this one was passed over.
        let next = if claims == 0 { last.saturating_add(1) } else { last };
        let full = picked.len() >= batch.most as usize;
        let held = begun.elapsed();
        Ok(PurgeBatch { claims, events, held, next: full.then(|| Timestamp::from_micros(next)) })
    }

    pub(crate) async fn purge_plan(&self, age: i64, tombstones: Option<i64>) -> Result<PurgePlan, Error> {
        const WHAT: &str = "plan a purge";
        let (dialect, sql) = (self.pools.dialect, self.pools.dialect.sql());
        let counted =
            async |sql, age: i64| self.read(WHAT, bind::statement(dialect, sql, vec![age.into()])).await;
        let tallied = |rows: &[QueryResult]| -> Result<Vec<PurgeTally>, Error> {
            rows.iter().map(|row| tally(row).map_err(unreadable)).collect()
        };
        let claims = tallied(&counted(sql.purge_plan, age).await?)?;
        let tombstones = match tombstones {
            Some(age) => tallied(&counted(sql.tombstone_plan, age).await?)?,
            None => Vec::new(),
        };
        let kept = counted(sql.purge_kept, age).await?;
        let kept = kept.first().map_or(Ok(0), |row| number(row, "claims")).map_err(unreadable)?;
        Ok(PurgePlan { claims, tombstones, kept })
    }

    pub(crate) async fn forget_sweepers(&self, silent_for: i64) -> Result<u64, Error> {
        let dialect = self.pools.dialect;
        let statement = bind::statement(dialect, dialect.sql().forget_sweepers, vec![silent_for.into()]);
        self.execute("forget sweepers", statement).await
    }
}

fn tally(row: &QueryResult) -> Result<PurgeTally, DbErr> {
    Ok(PurgeTally {
        tenant: text(row, "tenant")?,
        consumer: text(row, "consumer")?,
        state: text(row, "state")?,
        claims: number(row, "claims")?,
        bytes: number(row, "bytes")?,
        events: number(row, "events")?,
        event_bytes: number(row, "event_bytes")?,
    })
}

fn number(row: &QueryResult, column: &str) -> Result<u64, DbErr> {
    let number: i64 = row.try_get_by(column)?;
    u64::try_from(number).map_err(|_| DbErr::Type(format!("{column} is negative")))
}

fn unreadable(error: DbErr) -> Error {
    Error::Malformed { key: "of a purge's plan".into(), what: crate::failure::chain(&error) }
}
