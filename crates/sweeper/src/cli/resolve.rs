//! `earmark resolve`.

use std::process::ExitCode;
use std::time::Duration;

use earmark_claim::state::{Ruling, Seen};
use earmark_claim::{ClaimStore, ClaimView, Decision, Error, State};
use serde_json::{Value, json};

use super::common::{Common, duration, handle, the_one};
use super::exit::{Ended, Exit};
use super::list::{Which, state};
use super::out;

/// A person's ruling on escalated claims. Copy the command from the report: it names the page that was read, and loses if the claim has
/// moved since.
///
/// For many claims at once say which, and with --expect how many: another number is refused before anything is written. Each claim gets
/// its own ruling, on the state in which it was just read.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    earmark resolve 7F3K8Q2M4T6V8X0Z --ruling done --state escalated --fence 1 --revision 3 --by 'K. Lang' --reason 'seen in the console'\n  \
    earmark resolve --ruling not-done --downstream mailer --error-class timeout --expect 12 --by 'K. Lang' --reason 'outage notice 4711'")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The claim: its reference, or its key as consumer/message-id or tenant/consumer/message-id.
    #[arg(requires_all = ["state", "fence", "revision"], conflicts_with = "expect")]
    claim: Option<String>,
    /// What is decided: it happened; it did not happen and is given up; once more under the same key.
    #[arg(long, value_enum)]
    ruling: Word,
    /// The state on the page.
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// The fence on the page.
    #[arg(long, value_name = "N", requires = "claim")]
    fence: Option<u64>,
    /// The revision on the page.
    #[arg(long, value_name = "N", requires = "claim")]
    revision: Option<u64>,
    #[command(flatten)]
    which: Which,
    /// Rules on every escalated claim that fits, if they are that many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    expect: Option<u32>,
    /// The provider's id, where one was found (done).
    #[arg(long, value_name = "ID", requires = "claim")]
    provider_ref: Option<String>,
    /// How long a request that was given up may still take effect, where the effect declares none.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    horizon: Option<Duration>,
    /// It rests on what the provider's own search shows, which may lag.
    #[arg(long)]
    looked: bool,
    /// What it rests on: a link, a ticket, a file's digest. May be given several times.
    #[arg(long, value_name = "TEXT")]
    evidence: Vec<String>,
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

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Word {
    Done,
    NotDone,
    Repeat,
}

/// What became of one claim.
struct Ruled {
    view: ClaimView,
    outcome: Result<State, Error>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.provider_ref.is_some() && args.ruling != Word::Done {
        return Err(Ended::usage("--provider-ref goes with --ruling done: what did not happen has no id"));
    }
    let named = args.claim.as_deref().map(handle).transpose()?;
    let (views, store) = match named {
        Some(handle) => {
            let (_, store) = args.common.open().await?;
            (vec![the_one(&store, &handle).await?], store)
        }
        None => {
            let Some(expect) = args.expect else {
                return Err(Ended::usage(
                    "say which claim: its reference, or a filter such as --downstream with --expect and how many it finds",
                ));
            };
            let (_, store) = args.common.open().await?;
            (many(&args, &store, expect).await?, store)
        }
    };
    let mut ruled = Vec::with_capacity(views.len());
    for view in views {
        let decision = decision(&args, &view);
        let outcome = store.resolve(&view.key, decision).await;
        let ends = matches!(&outcome, Err(error) if !matches!(error, Error::Refused(_) | Error::NotFound(_)));
        ruled.push(Ruled { view, outcome });
        if ends {
            break;
        }
    }
    store.close().await;
    finish(&args, ruled)
}

/// The claims that a filter finds, if they are as many as expected.
async fn many(args: &Args, store: &ClaimStore, expect: u32) -> anyhow::Result<Vec<ClaimView>> {
    let filter = args.which.clone().filter(Some(args.state.unwrap_or(State::Escalated)));
    let found = store.list(&filter, expect.saturating_add(1)).await?;
    if let Some(row) = found.unreadable.first() {
        return Err(Ended::refused(format!("nothing was ruled: {row}")));
    }
    let n = found.claims.len();
    if n != expect as usize {
        let n = if n > expect as usize { format!("more than {expect}") } else { n.to_string() };
        return Err(Ended::refused(format!(
            "nothing was ruled: {n} claims fit, and {expect} were expected; look at them with earmark list"
        )));
    }
    Ok(found.claims)
}

/// On the page that was given, or on what was just read.
fn decision(args: &Args, view: &ClaimView) -> Decision {
    let f = &view.facts;
    let ruling = match args.ruling {
        Word::Done => Ruling::Done { provider_ref: args.provider_ref.clone() },
        Word::NotDone => Ruling::NotDone,
        Word::Repeat => Ruling::Repeat,
    };
    Decision {
        seen: Seen {
            state: args.state.filter(|_| args.claim.is_some()).unwrap_or(f.state),
            fence: args.fence.unwrap_or(f.fence),
            revision: args.revision.unwrap_or(f.revision),
        },
        ruling,
        actor: args.by.clone(),
        reason: args.reason.clone(),
        evidence: args.evidence.clone(),
        horizon: args.horizon,
        looked: args.looked,
    }
}

fn finish(args: &Args, ruled: Vec<Ruled>) -> anyhow::Result<ExitCode> {
    if args.json {
        let results: Vec<Value> = ruled.iter().map(Ruled::as_json).collect();
        out::json(&json!({ "rulings": results }))?;
    } else {
        for one in &ruled {
            let words = match &one.outcome {
                Ok(state) => format!("now {state}"),
                Err(error) => format!("not ruled: {error}"),
            };
            out::line(&format!("{} {}: {words}", one.view.reference, one.view.key))?;
        }
    }
    let refused =
        ruled.iter().filter(|one| matches!(one.outcome, Err(Error::Refused(_) | Error::NotFound(_)))).count();
    let tried = ruled.len();
    match ruled.into_iter().next_back() {
        Some(Ruled { outcome: Err(error), .. })
            if !matches!(error, Error::Refused(_) | Error::NotFound(_)) =>
        {
            Err(error.into())
        }
        _ if refused > 0 => {
            eprintln!("earmark: {refused} of {tried} refused");
            Ok(Exit::Refused.into())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Ruled {
    fn as_json(&self) -> Value {
        let mut json = json!({
            "reference": self.view.reference,
            "key": self.view.key.to_string(),
            "before": self.view.facts.state,
        });
        match &self.outcome {
            Ok(state) => json["state"] = json!(state),
            Err(error) => json["refused"] = json!(error.to_string()),
        }
        if let Err(Error::Refused(earmark_claim::state::Refused::NotYet { from, .. })) = &self.outcome {
            json["from"] = json!(from.to_string());
        }
        json
    }
}
