//! `earmark sweep`.

use std::process::ExitCode;

use earmark_sweeper::Pass;

use super::common::{Common, until_interrupted};
use super::exit::Exit;
use super::{out, setup};

/// One pass over what is due: for cron, or by hand. It is safe beside running sidecars.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark sweep --config /etc/earmark.toml\n  earmark sweep --json | jq .escalated"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (config, store) = args.common.open().await?;
    let sweeper = setup::sweeper(&config, &setup::earmark(&config, store)?)?;
    let stop = until_interrupted("what is under way is settled, nothing new is begun")?;
    let pass = sweeper.try_run_once(&stop).await?.unwrap_or_default();
    if args.json {
        out::json(&pass)?;
    } else {
        out::text(&text(&pass))?;
    }
    sweeper.earmark().store().close().await;
    Ok(if stop.is_cancelled() {
        Exit::Interrupted.into()
    } else if pass.failed > 0 {
        Exit::Failed.into()
    } else {
        ExitCode::SUCCESS
    })
}

fn text(pass: &Pass) -> String {
    let rows = [
        ("due", pass.due, "claims whose time had come"),
        ("doubted", pass.doubted, "leases over: into doubt"),
        ("expired", pass.expired, "must not be sent any more"),
        ("performed", pass.performed, "begun, tried again or redriven"),
        ("looked", pass.looked, "asked of their provider"),
        ("confirmed", pass.confirmed, "known to have happened now"),
        ("escalated", pass.escalated, "handed to a person"),
        ("left", pass.left, "left to a process that has their code"),
        ("rested", pass.rested, "left alone, since their downstream fails"),
        ("paused", pass.paused, "left alone, since their downstream is paused"),
        ("limited", pass.limited, "left alone, since their downstream is called as often as it may be"),
        ("failed", pass.failed, "could not be handled; tried again later"),
    ];
    out::table(&rows.map(|(name, n, words)| vec![name.to_owned(), n.to_string(), words.to_owned()]))
}
