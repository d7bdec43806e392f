//! `earmark show`.

mod timeline;

use std::process::ExitCode;

use earmark_claim::{Answer, ClaimStore, ClaimView, EventView, Handle, State};
use earmark_effects::http::{FORM, outline};
use earmark_sweeper::report::input::{Input, Scope, Window};
use earmark_sweeper::report::model::Item;
use earmark_sweeper::report::{Moment, Money, Options, Untrusted, build, read};
use serde_json::{Value, json};

use super::common::{Common, handle, shown};
use super::exit::Ended;
use super::{list, out};

/// Everything on file about one claim: what was tried, what is known and how, and what may be done when.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark show 7F3K8Q2M4T6V8X0Z\n  earmark show acme/billing/order-88123 --reveal\n  earmark show --provider-ref ch_3Pq --json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The claim: its reference, or its key as consumer/message-id or tenant/consumer/message-id.
    #[arg(required_unless_present = "provider_ref")]
    claim: Option<String>,
    /// The provider's id instead; several claims may bear it.
    #[arg(long, value_name = "ID", conflicts_with = "claim")]
    provider_ref: Option<String>,
    /// Also the bodies of request, receipt and evidence, which may hold personal data.
    #[arg(long)]
    reveal: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A claim with all that belongs to it.
struct Whole {
    view: ClaimView,
    request: Option<Vec<u8>>,
    events: Vec<EventView>,
    /// What a person may rule, where it is their turn.
    item: Option<Item>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let handle = match (&args.claim, &args.provider_ref) {
        (Some(claim), _) => handle(claim)?,
        (None, Some(id)) => Handle::ProviderRef(id.clone()),
        (None, None) => return Err(Ended::usage("say which claim")),
    };
    let (config, store) = args.common.open().await?;
    let options = super::report::options(&config);
    let found = store.find_all(&handle).await?;
    anyhow::ensure!(!found.is_empty(), "there is no claim {}", shown(&handle));
    let mut pages = Vec::new();
    for view in found {
        let whole = whole(&store, view, &options).await?;
        if args.json {
            pages.push(whole.as_json(&options, args.reveal));
        } else {
            out::text(&whole.text(&options, args.reveal))?;
        }
    }
    store.close().await;
    if args.json {
        out::json(&json!({ "claims": pages }))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn whole(store: &ClaimStore, view: ClaimView, options: &Options) -> anyhow::Result<Whole> {
    let request = store.request(&view.key).await?;
    let events = store.history(&view.key).await?;
    let now = view.facts.now;
    let input = Input {
        as_of: now,
        window: Window { from: view.facts.created_at, to: now },
        scope: Scope::default(),
        claims: vec![read::claim(&view)],
        events: events.iter().map(|event| read::event(&view.key, event)).collect(),
        pauses: Vec::new(),
        orphans: Vec::new(),
        unreadable: Vec::new(),
    };
    let item = build(&input, options).needs_a_person.into_iter().next();
    Ok(Whole { view, request, events, item })
}

impl Whole {
    fn text(&self, options: &Options, reveal: bool) -> String {
        let view = &self.view;
        let f = &view.facts;
        let exact = |text: &str| Untrusted::from(text).exact();
        let prose = |text: &str| Untrusted::from(text).prose();
        let mut rows: Vec<(&str, String)> = vec![
            ("claim", view.key.to_string()),
            ("reference", exact(view.reference.as_str())),
            ("state", self.state()),
            (
                "effect",
                format!("{} at {}, form {}", exact(&view.kind), exact(&view.downstream), exact(&view.form)),
            ),
        ];
        let mut row =
            |name: &'static str, value: Option<String>| rows.extend(value.map(|value| (name, value)));
        row("summary", view.summary.as_deref().map(prose));
        row("for", view.business_ref.as_deref().map(exact));
        row("amount", view.amount.map(|m| Money::new(m.currency.as_str(), m.minor).text()));
        row("idempotency key", Some(exact(view.idempotency_key.as_str())));
        row("provider's id", f.provider_ref.as_deref().map(exact));
        row("attempts", Some(format!("{} of {}", f.attempts, f.declared.attempts_max)));
        row("error class", f.error_class.as_ref().map(|class| exact(class.as_str())));
        let (repeat, deadline) = read::clock(view, options.margin);
        row("a repeat", (!f.state.is_terminal()).then_some(repeat.words));
        row("deadline", deadline.map(|d| d.at.text()).filter(|_| !f.state.is_terminal()));
        row("page", Some(format!("fence {}, revision {}", f.fence, f.revision)));
        row("supersedes", view.supersedes.as_ref().map(|r| exact(r.as_str())));
        row("request", Some(self.request_words()));
        row(
            "receipt",
            view.answer.as_ref().map(|a| {
                let purged = if view.purged_at.is_some() { ", purged" } else { "" };
                format!("{} bytes of {}{purged}", a.len, prose(&a.content_type))
            }),
        );
        let mut out = out::table(
            &rows.into_iter().map(|(name, value)| vec![format!("{name}:"), value]).collect::<Vec<_>>(),
        );
        out.push_str("\nWhat happened, in UTC:\n");
        out.push_str(&timeline::text(view, &self.events));
        out.push_str("\nWhat comes next:\n");
        for line in self.next() {
            out.push_str(&format!("  {line}\n"));
        }
        if reveal {
            out.push_str(&self.bodies());
        }
        out.push('\n');
        out
    }

    fn state(&self) -> String {
        let f = &self.view.facts;
        let mut words = f.state.to_string();
        if f.contradicted {
            words.push_str(", contradicted: the evidence on file conflicts");
        } else if f.doubt {
            words.push_str(", carrying doubt: an attempt may have acted");
        }
        if let (Some(by), Some(at)) = (self.view.closed_by, self.view.closed_at) {
            words.push_str(&format!(", by {} at {}", by.as_str(), Moment(at).text()));
        }
        words
    }

    /// With its body: not that of a tombstone.
    fn answer_on_file(&self) -> Option<&Answer> {
        self.view.answer.as_ref().filter(|_| self.view.purged_at.is_none())
    }

    /// Without its body.
    fn request_words(&self) -> String {
        let view = &self.view;
        match (&self.request, view.purged_at) {
            (_, Some(at)) => format!("purged at {}", Moment(at).text()),
            (None, None) => "not on file".into(),
            (Some(bytes), None) if view.form == FORM => match outline(bytes) {
                Ok(words) => Untrusted::new(words).prose(),
                Err(faults) => format!("{} bytes that cannot be read: {faults}", bytes.len()),
            },
            (Some(bytes), None) => {
                format!("{} bytes of {}", bytes.len(), Untrusted::from(view.request_type.as_str()).exact())
            }
        }
    }

    fn next(&self) -> Vec<String> {
        let f = &self.view.facts;
        let due = f.due_at.map(|t| Moment(t).text_up()).unwrap_or_default();
        match f.state {
            State::Confirmed | State::Abandoned => {
                vec!["Nothing: it is closed. Evidence is still kept.".into()]
            }
            State::Held => {
                vec![format!("The sweep may start it from {due} on. `earmark cancel` calls it off.")]
            }
            State::InFlight => {
                vec![format!("Its holder is believed until {due}; then the sweep puts it in doubt.")]
            }
            State::Retryable => {
                vec![format!("It is tried again from {due} on. `earmark cancel` calls it off.")]
            }
            State::InDoubt => {
                vec![format!("The sweep decides from {due} on: redrive, look or escalate, by rule.")]
            }
            State::Escalated => self.item.iter().flat_map(person).collect(),
        }
    }

    fn bodies(&self) -> String {
        let mut out = String::new();
        let mut body = |name: String, bytes: &[u8]| {
            out.push_str(&format!("\n{name}:\n{}\n", prose_lines(bytes)));
        };
        if let Some(bytes) = &self.request {
            body("Request".into(), bytes);
        }
        if let Some(answer) = self.answer_on_file() {
            body("Receipt".into(), &answer.bytes);
        }
        for event in &self.events {
            if let Some(bytes) = &event.bytes {
                body(format!("Event {}", event.seq), bytes);
            }
        }
        out
    }

    fn as_json(&self, options: &Options, reveal: bool) -> Value {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut json = list::as_json(&self.view, options.margin);
        json["request"] = json!({ "outline": self.request_words(), "type": self.view.request_type });
        json["receipt"] = match &self.view.answer {
            None => Value::Null,
            Some(a) => json!({
                "type": a.content_type, "bytes": a.len, "sha256": a.digest_hex(), "purged": self.view.purged_at.is_some(),
            }),
        };
        json["events"] = self.events.iter().map(|event| timeline::as_json(event, reveal)).collect();
        json["rulings"] = json!(self.item.as_ref().map(|item| &item.rulings));
        json["next"] = json!(self.next());
        if reveal {
            json["request"]["body"] = json!(self.request.as_deref().map(lossy));
            if let Some(answer) = self.answer_on_file() {
                json["receipt"]["body"] = json!(lossy(&answer.bytes));
            }
        }
        json
    }
}

fn person(item: &Item) -> Vec<String> {
    let mut lines = vec![item.situation.clone()];
    for offer in &item.rulings {
        lines.push(format!("{}: {}. {}", offer.ruling, offer.when, offer.effect).trim_end().to_owned());
        lines.extend(offer.command.as_ref().map(|command| format!("    {command}")));
    }
    lines
}

/// Hostile text, line by line.
fn prose_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(|line| format!("  {}", Untrusted::from(line).prose())).collect::<Vec<_>>().join("\n")
}
