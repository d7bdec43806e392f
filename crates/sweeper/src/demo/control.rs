//! The control: what is written most often. Look whether it was done; if not, call; then note that it was done.

use anyhow::Context;
use sea_orm::{ConnectionTrait, DatabaseConnection};

use super::database::{self, sql};
use super::effects::{CALL_TIMEOUT, CONNECT_TIMEOUT, body, url};
use super::messages::Message;
use super::wire::{Account, Setup};

/// The naive handler.
pub(super) struct Control {
    db: DatabaseConnection,
    client: reqwest::Client,
    run: String,
    origin: String,
}

impl Control {
    pub(super) async fn open(setup: &Setup) -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(&setup.process)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .no_proxy()
            .build()?;
        let db = database::connect(&setup.database).await?;
        Ok(Self { db, client, run: setup.consumer.clone(), origin: setup.origin.clone() })
    }

    pub(super) async fn handle(&self, message: &Message) -> anyhow::Result<()> {
        if self.is_done(message).await? {
            return Ok(());
        }
        let response = self
            .client
            .post(url(&self.origin, Account::Control, message.kind))
            .header("content-type", "application/json")
            .body(body(message).to_string())
            .send()
            .await
            .context("the call")?;
        // Not a success: let the broker deliver it again, as its manual says.
        response.error_for_status().context("the call")?;
        self.note_done(message).await
    }

    async fn is_done(&self, message: &Message) -> anyhow::Result<bool> {
        let select = "SELECT 1 FROM earmark_demo_control WHERE run = ? AND tenant = ? AND id = ?";
        Ok(self.db.query_one_raw(sql(&self.db, select, self.key(message))).await?.is_some())
    }

    async fn note_done(&self, message: &Message) -> anyhow::Result<()> {
        let insert = "INSERT INTO earmark_demo_control (run, tenant, id) VALUES (?, ?, ?)";
        match self.db.execute_raw(sql(&self.db, insert, self.key(message))).await {
            Ok(_) => Ok(()),
            // The other instance was there first. Both have called.
            Err(_) if self.is_done(message).await? => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn key(&self, message: &Message) -> Vec<String> {
        vec![self.run.clone(), message.tenant.clone(), message.id.clone()]
    }
}
