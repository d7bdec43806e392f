//! `earmark pause` and `earmark resume`.

use std::process::ExitCode;

use earmark_claim::{ClaimStore, Pause};
use earmark_sweeper::report::{Moment, Untrusted};
use serde_json::{Value, json};

use super::common::Common;
use super::exit::Ended;
use super::out;

/// Stops all calls to a downstream: in every service and sweep on this database, within seconds.
///
/// Messages are claimed as ever and can be acknowledged; their effects wait, and so do looks of probes. A call under way is not cut. What
/// needs no call goes on: leases end, and what must not be sent any more or is too old is given up or handed to a person.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  earmark pause --downstream stripe --by 'K. Lang' --reason 'doubled charges, their ticket 4711'"
)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    about: About,
}

/// Ends the pause of a downstream: what waited is sent by the next passes of the sweeps.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  earmark resume --downstream stripe --by 'K. Lang' --reason 'mended, they say'"
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    about: About,
}

#[derive(clap::Args)]
struct About {
    #[command(flatten)]
    common: Common,
    /// The provider, by the name that its claims bear: see earmark list.
    #[arg(long, value_name = "NAME")]
    downstream: String,
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

pub(crate) async fn pause(PauseArgs { about }: PauseArgs) -> anyhow::Result<ExitCode> {
    let About { common, downstream, by, reason, json } = about;
    let (_, store) = common.open().await?;
    let (pause, ours) = store.pause(&downstream, &by, &reason).await?;
    let stranger = stranger(&store, &downstream).await?;
    store.close().await;
    if !ours {
        return Err(Ended::refused(format!("nothing was changed: {}", words(&pause))));
    }
    if let Some(warning) = stranger {
        eprintln!("earmark: {warning}");
    }
    if json {
        out::json(&as_json(&pause))?;
    } else {
        out::line(&format!("{}; services and sweeps obey within seconds", words(&pause)))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn resume(ResumeArgs { about }: ResumeArgs) -> anyhow::Result<ExitCode> {
    let About { common, downstream, by, reason, json } = about;
    let (_, store) = common.open().await?;
    let resumed = store.resume(&downstream, &by, &reason).await?;
    store.close().await;
    let Some(pause) = resumed else {
        return Err(Ended::refused(format!("{downstream} is not paused: see earmark doctor for what is")));
    };
    if json {
        out::json(&as_json(&pause))?;
    } else {
        out::line(&format!("{downstream} is resumed: what waited is sent by the next passes"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A name that no open claim bears may be a slip of the pen: the pause stands, and it is said.
async fn stranger(store: &ClaimStore, downstream: &str) -> anyhow::Result<Option<String>> {
    let tallies = store.open_tallies().await?;
    let known: std::collections::BTreeSet<&str> = tallies.iter().map(|t| t.downstream.as_str()).collect();
    if known.contains(downstream) {
        return Ok(None);
    }
    let known: Vec<String> = known.into_iter().map(|name| Untrusted::from(name).exact()).collect();
    let known = if known.is_empty() {
        "there are none".to_owned()
    } else {
        format!("they have {}", known.join(", "))
    };
    Ok(Some(format!("no open claim has the downstream {downstream} ({known}); is the name right?")))
}

/// A pause that stands, in one sentence.
pub(super) fn words(pause: &Pause) -> String {
    let text = |text: &str| Untrusted::from(text).prose();
    format!(
        "{} is paused since {} by {}: {}",
        Untrusted::from(pause.downstream.as_str()).exact(),
        Moment(pause.at).text(),
        text(&pause.actor),
        text(&pause.reason)
    )
}

/// As it stands in JSON.
pub(super) fn as_json(pause: &Pause) -> Value {
    let resumed = pause.resumed.as_ref();
    json!({
        "downstream": pause.downstream,
        "at": Moment(pause.at),
        "by": pause.actor,
        "reason": pause.reason,
        "resumed_at": resumed.map(|r| Moment(r.at)),
        "resumed_by": resumed.map(|r| r.actor.as_str()),
        "resume_reason": resumed.map(|r| r.reason.as_str()),
    })
}
