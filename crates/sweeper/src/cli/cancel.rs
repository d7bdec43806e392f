//! `earmark cancel`.

use std::process::ExitCode;

use earmark_claim::State;

use super::common::{Common, handle, the_one};
use super::out;

/// Calls a claim off, where provably nothing was sent (held or retryable). One that carries doubt goes to a person instead.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  earmark cancel 7F3K8Q2M4T6V8X0Z --by 'K. Lang' --reason 'order 88123 was withdrawn'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The claim: its reference, or its key as consumer/message-id or tenant/consumer/message-id.
    claim: String,
    /// Who decides.
    #[arg(long, value_name = "NAME")]
    by: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let handle = handle(&args.claim)?;
    let (_, store) = args.common.open().await?;
    let view = the_one(&store, &handle).await?;
    let state = store.cancel(&view.key, &args.by, &args.reason).await?;
    store.close().await;
    if args.json {
        out::json(&serde_json::json!({
            "reference": view.reference, "key": view.key.to_string(), "before": view.facts.state, "state": state,
        }))?;
    } else {
        let words = match state {
            State::Abandoned => "abandoned: it will not be sent",
            _ => "goes to a person: an earlier attempt may have acted",
        };
        out::line(&format!("{} {}: {words}", view.reference, view.key))?;
    }
    Ok(ExitCode::SUCCESS)
}
