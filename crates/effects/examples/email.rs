//! Mail through a provider's HTTP API, declared and not programmed: the call, what its answers mean, and how to ask whether it went out are frozen on
//! the claim, so that the sidecar can finish what this process leaves behind.
//!
//! `cargo run -p earmark-effects --example email --features sqlite -- http://127.0.0.1:8025`

use std::time::Duration;

use earmark_effects::claim::{ClaimKey, ClaimStore, Declared, ProbeTerms, RepeatSafety, StoreOptions};
use earmark_effects::credentials::Credentials;
use earmark_effects::http::{Answers, HttpCall, HttpEffect, HttpOptions, HttpProbe, On};
use earmark_effects::{Description, Earmark, HttpKind, Outcome};
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error>;

/// The stored name of the operation.
pub const KIND: &str = "mail.welcome";

/// What is declared about the provider, as its documentation has it.
pub fn declared() -> Declared {
    let day = Duration::from_secs(24 * 3600);
    Declared {
        // It remembers an Idempotency-Key for 24 hours.
        repeat: RepeatSafety::Keyed { window: day },
        landing_horizon: Some(Duration::from_secs(120)),
        // Its search lags by a minute and is no proof of absence.
        probe: Some(ProbeTerms { lag: Duration::from_secs(60), not_found_is_proof: false, looks_max: 5 }),
        call_timeout: Duration::from_secs(15),
        attempts_max: 8,
        age_max: day,
    }
}

/// One welcome mail.
pub fn welcome(base: &str, to: &str) -> HttpCall {
    HttpCall::post(&format!("{base}/emails"))
        .json(&json!({ "to": to, "subject": "Welcome", "text": "Good to have you." }))
        .key_header("Idempotency-Key")
        .reference_at("/tags/earmark")
        .answers(
            Answers::new()
                .done_with_id(On::status(200..=202), "/id")
                // Documented as final: the address cannot receive mail.
                .refused(On::status(422).json("/name", "invalid_recipient"), "invalid_recipient")
                // Its limiter runs before anything is executed.
                .not_sent(On::status(429), "rate_limited"),
        )
        .probe(
            HttpProbe::get(&format!("{base}/emails?tag={{reference}}")).done(On::status(200), "/data/*/id"),
        )
}

/// Sends one, once.
///
/// # Errors
/// When the claim cannot be made: let the message be delivered again.
pub async fn send(earmark: &Earmark, base: &str, user: &str, to: &str) -> Result<Outcome<Value>, Failed> {
    let key = ClaimKey::new("mail", format!("welcome:{user}"))?;
    let description = Description { summary: Some("Welcome mail".into()), ..Description::default() };
    Ok(earmark.run_http(KIND, &key, &welcome(base, to), description).await?)
}

/// Effects on a database that has Earmark's tables, allowed to call `base` without a credential.
///
/// # Errors
/// Everything that is wrong with the options, at once.
pub async fn earmark(url: &str, base: &str) -> Result<Earmark, Failed> {
    let store = ClaimStore::connect(url, StoreOptions::new(Duration::from_secs(60))).await?;
    let http = HttpEffect::new(HttpOptions::new(), Credentials::new([], [base])?)?;
    http.check(&welcome(base, "a@example.org"), &declared())?;
    Ok(Earmark::builder(store).http(http).http_kind(HttpKind::new(KIND, "mailer", declared())).build()?)
}

#[tokio::main]
#[allow(dead_code)] // the tests include this file
async fn main() -> Result<(), Failed> {
    let base = std::env::args().nth(1).ok_or("name the mail API's address, such as http://127.0.0.1:8025")?;
    let url = "sqlite://email.sqlite?mode=rwc";
    let db = sea_orm::Database::connect(url).await?;
    earmark_migrations::run(&db, &earmark_migrations::Options::default()).await?;
    let earmark = earmark(url, &base).await?;
    println!("{:?}", send(&earmark, &base, "7", "a@example.org").await?);
    Ok(())
}
