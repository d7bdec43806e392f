//! A business row and a claim in one transaction; the charge after its commit.
//!
//! If the process dies between the two, the sweep makes the charge. If the transaction is rolled back, there is no claim and no charge.
//!
//! `cargo run -p earmark-effects --example charge --features sqlite`

use std::sync::{Arc, Mutex};
use std::time::Duration;

use earmark_effects::claim::{
    ClaimKey, ClaimStore, Currency, Declared, Failure, Joined, Money, Permit, RepeatSafety, StoreOptions,
};
use earmark_effects::{Description, Earmark, Effect, Outcome};
use sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, SqliteTransactionMode, TransactionOptions,
    TransactionTrait,
};
use serde::{Deserialize, Serialize};

type Failed = Box<dyn std::error::Error>;

/// A charge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    /// Whose.
    pub invoice: String,
    /// Minor units.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
}

/// A payment provider's client library, which sends our key.
#[derive(Clone, Default)]
pub struct Payments {
    charged: Arc<Mutex<Vec<String>>>,
}

impl Payments {
    /// What was really charged, by idempotency key.
    pub fn charged(&self) -> Vec<String> {
        self.charged.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

impl Effect for Payments {
    type Request = Charge;
    type Receipt = String;

    fn kind(&self) -> &str {
        "billing.charge"
    }

    fn downstream(&self) -> &str {
        "payments"
    }

    fn declared(&self) -> Declared {
        let day = Duration::from_secs(24 * 3600);
        Declared {
            repeat: RepeatSafety::Keyed { window: day },
            landing_horizon: Some(Duration::from_secs(120)),
            probe: None,
            call_timeout: Duration::from_secs(20),
            attempts_max: 8,
            age_max: 3 * day,
        }
    }

    async fn perform(&self, permit: Permit<'_>, _charge: &Charge) -> Result<String, Failure> {
        let key = permit.idempotency_key().to_string();
        permit.last_look()?;
        self.charged.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(key.clone());
        Ok(format!("ch_{}", &key[..8]))
    }

    fn provider_ref(&self, receipt: &String) -> Option<String> {
        Some(receipt.clone())
    }

    fn describe(&self, charge: &Charge) -> Description {
        Description {
            summary: Some(format!("Charge for invoice {}", charge.invoice)),
            business_ref: Some(charge.invoice.clone()),
            amount: Currency::new(&charge.currency)
                .map(|currency| Money { minor: charge.amount_minor, currency }),
        }
    }
}

/// Issues an invoice and charges it. `Ok(None)`: the invoice was issued before, and nothing is charged again.
///
/// # Errors
/// Whatever the database says; nothing is issued and nothing charged then.
pub async fn issue(
    db: &DatabaseConnection,
    earmark: &Earmark,
    charge: &Charge,
) -> Result<Option<String>, Failed> {
    let key = ClaimKey::new("billing", charge.invoice.as_str())?;
    let options = TransactionOptions {
        // SQLite: take the write lock first. Other databases do not look at it.
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let tx = db.begin_with_options(options).await?;
    let held = match earmark.claim_in::<Payments>(&tx, &key, charge).await? {
        Joined::Held(held) => held,
        // A duplicate is a value, and the transaction goes on; here there is nothing left to do in it.
        Joined::Lost(_) => return Ok(None),
    };
    tx.execute_unprepared(&format!(
        "INSERT INTO invoice (id, amount_minor) VALUES ('{}', {})",
        charge.invoice.replace('\'', "''"),
        charge.amount_minor
    ))
    .await?;
    tx.commit().await?;
    // From here on the claim carries the charge: a crash costs time, not the charge.
    match earmark.perform::<String>(held).await? {
        Outcome::Confirmed(receipt) => Ok(receipt.provider_ref),
        other => Err(format!("the charge is on file as {other:?}").into()),
    }
}

/// The tables of the example and of Earmark.
///
/// # Errors
/// Whatever the database says.
pub async fn tables(db: &DatabaseConnection) -> Result<(), Failed> {
    earmark_migrations::run(db, &earmark_migrations::Options::default()).await?;
    db.execute_unprepared(
        "CREATE TABLE IF NOT EXISTS invoice (id VARCHAR(64) PRIMARY KEY, amount_minor BIGINT NOT NULL)",
    )
    .await?;
    Ok(())
}

#[tokio::main]
#[allow(dead_code)] // the tests include this file
async fn main() -> Result<(), Failed> {
    let url = "sqlite://charge.sqlite?mode=rwc";
    tables(&Database::connect(url).await?).await?;
    let db = Database::connect(url).await?;
    // Beside the host's pool, on connections of its own.
    let store = ClaimStore::on(&db, StoreOptions::new(Duration::from_secs(60))).await?;
    let earmark = Earmark::builder(store).effect(Payments::default()).build()?;
    let charge = Charge { invoice: "INV-1".into(), amount_minor: 1250, currency: "EUR".into() };
    println!("issued: {:?}", issue(&db, &earmark, &charge).await?);
    println!("again:  {:?}", issue(&db, &earmark, &charge).await?);
    Ok(())
}
