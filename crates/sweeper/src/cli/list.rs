//! `earmark list`.

use std::process::ExitCode;
use std::time::Duration;

use earmark_claim::{ClaimView, Filter, State};
use earmark_sweeper::report::{Moment, Money, Untrusted, read};
use serde_json::{Value, json};

use super::common::{Common, duration};
use super::{out, pause};

/// Lists claims, those first for which soonest less can be done: whose provider is about to forget the key, or that must not be sent much
/// longer.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark list --state escalated\n  earmark list --consumer billing --older-than 1h --json | jq '.claims[].reference'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    which: Which,
    /// Claims in this state alone: held, in_flight, retryable, in_doubt, escalated, confirmed or abandoned. Left out: all open ones.
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Which claims: everything that is given must hold.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Which claims")]
pub(crate) struct Which {
    /// Of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(super) tenant: Option<String>,
    /// Of this handler.
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: Option<String>,
    /// Of this operation.
    #[arg(long, value_name = "NAME")]
    pub(super) kind: Option<String>,
    /// Of this provider.
    #[arg(long, value_name = "NAME")]
    pub(super) downstream: Option<String>,
    /// With this class of the newest failure.
    #[arg(long, value_name = "CLASS")]
    pub(super) error_class: Option<String>,
    /// Made at least that long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) older_than: Option<Duration>,
}

impl Which {
    pub(super) fn filter(self, state: Option<State>) -> Filter {
        let Self { tenant, consumer, kind, downstream, error_class, older_than } = self;
        Filter { state, tenant, consumer, kind, downstream, error_class, older_than }
    }
}

pub(super) fn state(text: &str) -> Result<State, String> {
    text.parse().map_err(|_| {
        let all = State::ALL.map(State::as_str).join(", ");
        format!("{text:?} is no state: write one of {all}")
    })
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (config, store) = args.common.open().await?;
    // One more than shown, to know whether there are more.
    let mut found = store.list(&args.which.filter(args.state), args.limit.saturating_add(1)).await?;
    let pauses = store.pauses().await?;
    store.close().await;
    let more = found.claims.len() > args.limit as usize;
    found.claims.truncate(args.limit as usize);
    for row in &found.unreadable {
        eprintln!("earmark: {}", Untrusted::from(row.as_str()).exact());
    }
    let margin = config.sweep.margin;
    if args.json {
        let claims: Vec<Value> = found.claims.iter().map(|view| as_json(view, margin)).collect();
        let paused: Vec<Value> = pauses.iter().map(pause::as_json).collect();
        out::json(
            &json!({ "claims": claims, "more": more, "unreadable": found.unreadable, "paused": paused }),
        )?;
    } else {
        let head =
            ["REFERENCE", "STATE", "AGE", "DEADLINE", "AMOUNT", "KIND", "DOWNSTREAM", "ERROR", "CLAIM"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(found.claims.iter().map(|view| row(view, margin)));
        out::text(&out::table(&rows))?;
        for pause in &pauses {
            eprintln!("earmark: {}", pause::words(pause));
        }
        if more {
            eprintln!("earmark: there are more than {}: raise --limit, or filter", args.limit);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(view: &ClaimView, margin: Duration) -> Vec<String> {
    let f = &view.facts;
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let exact = |text: &str| Untrusted::from(text).exact();
    let marks = if f.contradicted {
        "!"
    } else if f.doubt {
        "?"
    } else {
        ""
    };
    let (_, deadline) = read::clock(view, margin);
    vec![
        exact(view.reference.as_str()),
        format!("{}{marks}", f.state),
        age(f.now.since(f.window_from.unwrap_or(f.created_at))),
        dash(deadline.map(|d| d.at.text())),
        dash(view.amount.map(|m| Money::new(m.currency.as_str(), m.minor).text())),
        exact(&view.kind),
        exact(&view.downstream),
        dash(f.error_class.as_ref().map(|class| exact(class.as_str()))),
        view.key.to_string(),
    ]
}

/// In whole seconds.
pub(super) fn age(age: Duration) -> String {
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string().replace(' ', "")
}

/// A claim as it stands in `list --json` and `show --json`; amounts and counters that may need more than 53 bits are texts.
pub(super) fn as_json(view: &ClaimView, margin: Duration) -> Value {
    let f = &view.facts;
    let (repeat, deadline) = read::clock(view, margin);
    let moment = |t: Option<earmark_claim::Timestamp>| t.map(Moment);
    json!({
        "reference": view.reference,
        "tenant": view.key.tenant(),
        "consumer": view.key.consumer(),
        "message_id": view.key.message_id(),
        "key": view.key.to_string(),
        "kind": view.kind,
        "form": view.form,
        "downstream": view.downstream,
        "summary": view.summary,
        "business_ref": view.business_ref,
        "amount": view.amount.map(|m| Money::new(m.currency.as_str(), m.minor)),
        "state": f.state,
        "doubt": f.doubt,
        "contradicted": f.contradicted,
        "fence": f.fence.to_string(),
        "revision": f.revision.to_string(),
        "attempts": f.attempts,
        "error_class": f.error_class.as_ref().map(|class| class.as_str()),
        "provider_ref": f.provider_ref,
        "idempotency_key": view.idempotency_key.as_str(),
        "credential": view.credential,
        "created_at": Moment(f.created_at),
        "due_at": moment(f.due_at),
        "send_by": moment(f.send_by),
        "window_from": moment(f.window_from),
        "last_end_at": moment(f.last_end_at),
        "closed_at": moment(view.closed_at),
        "closed_by": view.closed_by.map(|by| by.as_str()),
        "supersedes": view.supersedes,
        "repeat": repeat,
        "deadline": deadline,
    })
}
