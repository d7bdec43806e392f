//! A service process: takes deliveries, handles each under a claim or with the naive check, and acknowledges.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use earmark_effects::claim::ClaimKey;
use earmark_effects::{Earmark, Outcome};
use earmark_sweeper::{Schedule, Sweeper, SweeperOptions};
use tokio_util::sync::CancellationToken;

use super::control::Control;
use super::effects;
use super::messages::Message;
use super::wire::{Account, Delivery, Inbox, Said, Setup, tell};

/// How one message is handled. `Ok(true)`: it was another request under a known key.
enum Handler {
    Claims { earmark: Earmark, consumer: String, origin: String },
    Naive(Control),
}

/// Runs until the parent is gone or kills it.
pub(super) async fn run() -> anyhow::Result<()> {
    let mut inbox = Inbox::open();
    let setup: Setup = inbox.setup().await?;
    let handler = Arc::new(Handler::open(setup).await?);
    tell(&Said::Ready);
    while let Some(Delivery { n, message }) = inbox.next().await? {
        let handler = handler.clone();
        tokio::spawn(async move {
            match handler.handle(&message).await {
                Ok(mismatch) => tell(&Said::Ack { n, mismatch }),
                Err(error) => {
                    eprintln!("delivery {n} of {}: {error:#}", message.id);
                    tell(&Said::Nack { n });
                }
            }
        });
    }
    Ok(())
}

impl Handler {
    async fn open(setup: Setup) -> anyhow::Result<Self> {
        Ok(match setup.account {
            Account::Earmark => Self::Claims {
                earmark: effects::earmark(&setup.database, &setup.origin, &setup.process).await?,
                consumer: setup.consumer,
                origin: setup.origin,
            },
            Account::Control => Self::Naive(Control::open(&setup).await?),
        })
    }

    async fn handle(&self, message: &Message) -> anyhow::Result<bool> {
        match self {
            Self::Claims { earmark, consumer, origin } => {
                let key = ClaimKey::in_tenant(message.tenant.as_str(), consumer, message.id.as_str())?;
                let (kind, call) = (message.kind.operation(), effects::call(origin, message));
                let outcome = earmark.run_http(kind, &key, &call, effects::describe(message)).await?;
                // Whatever the outcome, the claim carries the rest: acknowledge.
                Ok(matches!(outcome, Outcome::Mismatch))
            }
            Self::Naive(control) => control.handle(message).await.map(|()| false),
        }
    }
}

/// The sweeper process: what a crash leaves behind is cleared up by rule.
pub(super) async fn sweep() -> anyhow::Result<()> {
    let mut inbox = Inbox::open();
    let setup: Setup = inbox.setup().await?;
    let earmark = effects::earmark(&setup.database, &setup.origin, &setup.process).await?;
    let options = SweeperOptions {
        name: setup.consumer,
        aside_for: Duration::from_secs(2),
        ..SweeperOptions::default()
    };
    let sweeper = Sweeper::new(&earmark, options)?;
    let schedule = Schedule::every(Duration::from_secs(1))?;
    let stop = CancellationToken::new();
    let sweeping = tokio::spawn({
        let stop = stop.clone();
        async move { sweeper.run(&schedule, stop).await }
    });
    tell(&Said::Ready);
    // The parent says nothing more; its end is the end.
    while inbox.next::<serde_json::Value>().await?.is_some() {}
    stop.cancel();
    sweeping.await.context("the sweeper")??;
    Ok(())
}
