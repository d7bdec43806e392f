//! PostgreSQL by hand: what a careful programmer writes on plain sqlx.

use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Row};

use super::duplicates::finished_ids;
use crate::load::{Load, Round, Timing};
use crate::payload::{receipt, request};

/// More were no faster on two cores.
const CONNECTIONS: u32 = 16;

/// The table of the pattern: an identity, the key, what is due.
pub const SCHEMA: &str = "
CREATE TABLE effect (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer   text NOT NULL,
    message_id text NOT NULL,
    status     smallint NOT NULL,
    due_at     timestamptz NOT NULL,
    payload    bytea NOT NULL,
    outcome    bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (consumer, message_id)
);
CREATE INDEX effect_due ON effect (due_at) WHERE status IN (0, 1)";

const CLAIM: &str = "
INSERT INTO effect (consumer, message_id, status, due_at, payload)
VALUES ($1, $2, 1, now() + interval '60 s', $3)
ON CONFLICT (consumer, message_id) DO NOTHING
RETURNING id";

const SETTLE: &str =
    "UPDATE effect SET status = 2, outcome = $2, updated_at = now() WHERE id = $1 AND status = 1";

const KEY_READ: &str = "
SELECT state, fingerprint, provider_ref, receipt, receipt_type, receipt_len
FROM earmark_claim WHERE tenant = '' AND consumer = $1 AND message_id = $2";

async fn pool(url: &str) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
    // All of them at once: a pool that grows in the middle of a round measures connecting.
    let pool = PgPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    Ok(pool.test_before_acquire(false).connect_with(options).await?)
}

pub struct HandWritten {
    pool: PgPool,
    consumer: String,
}

impl HandWritten {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        Ok(Self { pool: pool(url).await?, consumer: round.name.clone() })
    }
}

impl Load for HandWritten {
    async fn one(&self, task: usize, id: String) -> Result<Timing> {
        let begun = Instant::now();
        let payload = serde_json::to_vec(&request(task))?;
        let claim = sqlx::query(CLAIM).bind(&self.consumer).bind(&id).bind(payload);
        let rows = claim.fetch_all(&self.pool).await?;
        let Some(row) = rows.first() else { bail!("a new message was there before") };
        let row_id: i64 = row.try_get(0)?;
        let claimed = Instant::now();
        let outcome = serde_json::to_vec(&receipt())?;
        let done = sqlx::query(SETTLE).bind(row_id).bind(outcome).execute(&self.pool).await?;
        ensure!(done.rows_affected() == 1, "the outcome found no row");
        Ok(Timing { claim: claimed - begun, settle: Some(claimed.elapsed()) })
    }

    async fn close(&self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}

/// One read of a claim by its primary key: the least that answering a duplicate can cost.
pub struct KeyRead {
    pool: PgPool,
    consumer: String,
    ids: Vec<String>,
}

impl KeyRead {
    pub async fn open(url: &str, round: &Round) -> Result<Self> {
        let ids = finished_ids(url, &round.name).await?;
        Ok(Self { pool: pool(url).await?, consumer: round.name.clone(), ids })
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
