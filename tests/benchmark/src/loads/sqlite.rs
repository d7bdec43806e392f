//! SQLite by hand: what a careful programmer writes on plain sqlx.

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Row};

use super::duplicates::finished_ids;
use crate::load::{Load, Round, Timing};
use crate::payload::{receipt, request};

/// One writes at a time; a pool of eight was no faster, and its slowest effects took five times as long.
const WRITERS: u32 = 1;
/// Earmark's own default.
const READERS: u32 = 2;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// A thousand tasks wait for one connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(60);

/// The table of the pattern: an identity, the key, what is due.
pub const SCHEMA: &str = "
CREATE TABLE effect (
    id         INTEGER PRIMARY KEY,
    consumer   TEXT NOT NULL,
    message_id TEXT NOT NULL,
    status     INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    payload    BLOB NOT NULL,
    outcome    BLOB,
    created_at INTEGER NOT NULL DEFAULT (unixepoch('subsec')),
    updated_at INTEGER NOT NULL DEFAULT (unixepoch('subsec')),
    UNIQUE (consumer, message_id)
);
CREATE INDEX effect_due ON effect (due_at) WHERE status IN (0, 1)";

const CLAIM: &str = "
INSERT INTO effect (consumer, message_id, status, due_at, payload)
VALUES (?, ?, 1, unixepoch() + 60, ?)
ON CONFLICT (consumer, message_id) DO NOTHING
RETURNING id";

const SETTLE: &str =
    "UPDATE effect SET status = 2, outcome = ?, updated_at = unixepoch('subsec') WHERE id = ? AND status = 1";

const KEY_READ: &str = "
SELECT state, fingerprint, provider_ref, receipt, receipt_type, receipt_len
FROM earmark_claim WHERE tenant = '' AND consumer = ? AND message_id = ?";

async fn pool(url: &str, connections: u32) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::from_str(url)?
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new().min_connections(connections).max_connections(connections);
    let pool = pool.acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}

pub struct HandWritten {
    pool: SqlitePool,
    consumer: String,
}

impl HandWritten {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        Ok(Self { pool: pool(url, WRITERS).await?, consumer: round.name.clone() })
    }
}

impl Load for HandWritten {
    async fn one(&self, task: usize, id: String) -> Result<Timing> {
        let begun = Instant::now();
        let payload = serde_json::to_vec(&request(task))?;
        let claim = sqlx::query(CLAIM).bind(&self.consumer).bind(&id).bind(payload);
        // Read to its end: SQLite commits after the last row, and only then says whether it could.
        let rows = claim.fetch_all(&self.pool).await?;
        let Some(row) = rows.first() else { bail!("a new message was there before") };
        let row_id: i64 = row.try_get(0)?;
        let claimed = Instant::now();
        let outcome = serde_json::to_vec(&receipt())?;
        let done = sqlx::query(SETTLE).bind(outcome).bind(row_id).execute(&self.pool).await?;
        ensure!(done.rows_affected() == 1, "the outcome found no row");
        Ok(Timing { claim: claimed - begun, settle: Some(claimed.elapsed()) })
    }

    async fn close(&self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}

/// One read of a claim by its key: the least that answering a duplicate can cost.
pub struct KeyRead {
    pool: SqlitePool,
    consumer: String,
    ids: Vec<String>,
}

impl KeyRead {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let ids = finished_ids(url, &round.name).await?;
        Ok(Self { pool: pool(url, READERS).await?, consumer: round.name.clone(), ids })
    }
}

impl Load for KeyRead {
    async fn one(&self, _task: usize, _id: String) -> Result<Timing> {
        let id = &self.ids[fastrand::usize(..self.ids.len())];
        let begun = Instant::now();
        let row = sqlx::query(KEY_READ).bind(&self.consumer).bind(id).fetch_one(&self.pool).await?;
        let receipt: Vec<u8> = row.try_get("receipt")?;
        ensure!(!receipt.is_empty(), "a finished claim has no receipt");
        Ok(Timing { claim: begun.elapsed(), settle: None })
    }

    fn effects(&self, _done: u64) -> u64 {
        self.ids.len() as u64
    }

    async fn close(&self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}
