//! What a service author writes: the two calls, what their answers mean, how to ask whether they happened, and what they declare.

use std::time::Duration;

use anyhow::Context;
use earmark_effects::claim::{
    Backoff, ClaimStore, Currency, Declared, Money, ProbeTerms, RepeatSafety, StoreOptions,
};
use earmark_effects::credentials::Credentials;
use earmark_effects::http::{Answers, HttpCall, HttpEffect, HttpOptions, HttpProbe, Items, On};
use earmark_effects::{Description, Earmark, HttpKind};
use serde_json::json;

use super::messages::{Kind, Message};
use super::wire::Account;

/// Short, so that the demo is; real, so that nothing is faked. A production service waits longer on all of them.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(1);
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(3);
const MARGIN: Duration = Duration::from_millis(250);
/// Of our own downstream, which never forgets a key; a day is what the strictest real providers remember.
const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);
const BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(2) };

impl Kind {
    /// The stored name of the operation.
    pub(super) const fn operation(self) -> &'static str {
        match self {
            Self::Email => "mail.order",
            Self::Charge => "billing.charge",
        }
    }

    const fn downstream(self) -> &'static str {
        match self {
            Self::Email => "demo-mail",
            Self::Charge => "demo-pay",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Email => "emails",
            Self::Charge => "charges",
        }
    }
}

pub(super) async fn store(database: &str) -> anyhow::Result<ClaimStore> {
    // A shared server may be set up less durably than a payment needs; the report says so.
    let options = StoreOptions { margin: MARGIN, allow_non_durable: true, ..StoreOptions::new(LEASE) };
    ClaimStore::connect(database, options).await.context("the claims")
}

/// Both kinds of calls, for services and the sweeper alike.
pub(super) async fn earmark(database: &str, origin: &str, process: &str) -> anyhow::Result<Earmark> {
    // Calls of the demo are plain HTTP on the loopback; the client wants its TLS all the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options =
        HttpOptions::new().connect_timeout(CONNECT_TIMEOUT).look_timeout(CALL_TIMEOUT).user_agent(process);
    let credentials = Credentials::new([], [origin])?;
    let declared = declared();
    let earmark = Earmark::builder(store(database).await?)
        .http(HttpEffect::new(options, credentials)?)
        .http_kind(HttpKind::new(Kind::Email.operation(), Kind::Email.downstream(), declared.clone()))
        .http_kind(HttpKind::new(Kind::Charge.operation(), Kind::Charge.downstream(), declared))
        .backoff(BACKOFF)
        .build()?;
    Ok(earmark)
}

fn declared() -> Declared {
    Declared {
        repeat: RepeatSafety::Keyed { window: KEY_WINDOW },
        landing_horizon: Some(Duration::from_secs(3)),
        probe: Some(ProbeTerms { lag: Duration::ZERO, not_found_is_proof: true, looks_max: 10 }),
        call_timeout: CALL_TIMEOUT,
        attempts_max: 20,
        age_max: Duration::from_secs(3600),
    }
}

/// The call for a message.
pub(super) fn call(origin: &str, message: &Message) -> HttpCall {
    let ours = || Items::at("/data").with("/reference", "{reference}").id("/id");
    HttpCall::post(&url(origin, Account::Earmark, message.kind))
        .json(&body(message))
        .reference_at("/metadata/reference")
        .key_header("Idempotency-Key")
        .answers(Answers::new().provider_id("/id"))
        .probe(
            HttpProbe::get(&format!("{origin}/earmark/effects?reference={{reference}}"))
                .done_items(On::status(200), ours())
                .not_done(On::status(200).json("/has_more", false)),
        )
}

pub(super) fn url(origin: &str, account: Account, kind: Kind) -> String {
    format!("{origin}/{}/{}", account.as_str(), kind.path())
}

/// What both runs send. `metadata.message` is how the downstream knows which message an effect was for: for the count, not to deduplicate.
pub(super) fn body(message: &Message) -> serde_json::Value {
    json!({
        "to": message.to,
        "subject": message.subject,
        "amount_minor": message.amount_minor,
        "currency": message.currency,
        "metadata": {"message": message.id, "tenant": message.tenant, "kind": message.kind},
    })
}

/// What a person sees of it.
pub(super) fn describe(message: &Message) -> Description {
    let currency = message.currency.as_deref().and_then(Currency::new);
    let amount = message.amount_minor.zip(currency).map(|(minor, currency)| Money { minor, currency });
    let subject = message.subject.as_deref().unwrap_or_default();
    let summary = match message.kind {
        Kind::Email => format!("mail {subject}"),
        Kind::Charge => format!("charge {subject}"),
    };
    Description { summary: Some(summary.trim_end().to_owned()), business_ref: None, amount }
}
