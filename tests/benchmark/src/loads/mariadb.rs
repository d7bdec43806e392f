//! MariaDB by hand: what a careful programmer writes on plain sqlx.

use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, ensure};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{ConnectOptions, Row};

use super::duplicates::finished_ids;
use crate::load::{Load, Round, Timing};
use crate::payload::{receipt, request};

/// The pool with which the pattern was fastest.
const CONNECTIONS: u32 = 32;

/// The table of the pattern. No partial indexes here: what is finished is due at no time.
pub const SCHEMA: &str = "
CREATE TABLE effect (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    consumer   VARBINARY(128) NOT NULL,
    message_id VARBINARY(512) NOT NULL,
    status     TINYINT NOT NULL,
    due_at     DATETIME(6) NULL,
    payload    MEDIUMBLOB NOT NULL,
    outcome    MEDIUMBLOB NULL,
    created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    UNIQUE KEY effect_key (consumer, message_id),
    KEY effect_due (due_at)
) ENGINE = InnoDB";

/// A plain INSERT: INSERT IGNORE would cut what is too long, and a duplicate is error 1062.
const CLAIM: &str = "
INSERT INTO effect (consumer, message_id, status, due_at, payload)
VALUES (?, ?, 1, NOW(6) + INTERVAL 60 SECOND, ?)";

const SETTLE: &str = "UPDATE effect SET status = 2, due_at = NULL, outcome = ?, updated_at = NOW(6) WHERE id = ? AND status = 1";

const KEY_READ: &str = "
SELECT state, fingerprint, provider_ref, receipt, receipt_type, receipt_len
FROM earmark_claim WHERE tenant = '' AND consumer = ? AND message_id = ?";

async fn pool(url: &str) -> Result<MySqlPool> {
    let options = MySqlConnectOptions::from_str(url)?.disable_statement_logging();
    // All of them at once: a pool that grows in the middle of a round measures connecting.
    let pool = MySqlPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    Ok(pool.test_before_acquire(false).connect_with(options).await?)
}

pub struct HandWritten {
    pool: MySqlPool,
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
        let claim = sqlx::query(CLAIM).bind(self.consumer.as_bytes()).bind(id.as_bytes()).bind(payload);
        let row_id = claim.execute(&self.pool).await?.last_insert_id();
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
    pool: MySqlPool,
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
        let read = sqlx::query(KEY_READ).bind(self.consumer.as_bytes()).bind(id.as_bytes());
        let receipt: Vec<u8> = read.fetch_one(&self.pool).await?.try_get("receipt")?;
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
