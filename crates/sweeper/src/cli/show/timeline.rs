//! The story of a claim, from its columns and its events: the ordinary path writes no event.

use earmark_claim::{ClaimView, EventView, Timestamp};
use earmark_sweeper::report::{Moment, Untrusted};
use serde_json::{Value, json};

use crate::cli::out;

/// One line for each thing that happened, oldest first.
pub(super) fn text(view: &ClaimView, events: &[EventView]) -> String {
    let f = &view.facts;
    let mut lines: Vec<(Timestamp, u64, String)> = vec![(f.created_at, 0, "claimed".into())];
    let mut told = |at: Option<Timestamp>, seq, words: &str| {
        lines.extend(at.map(|at| (at, seq, words.to_owned())));
    };
    if f.window_from != Some(f.created_at) {
        told(f.window_from, 0, "first attempt that may have reached the provider");
    }
    // An attempt whose end wrote no event is told by the column.
    let on_file = |at: Timestamp| events.iter().any(|event| event.at == at);
    told(f.last_end_at.filter(|at| !on_file(*at)), u64::MAX - 1, "the newest attempt ended");
    let closed =
        view.closed_by.map_or("closed".into(), |by| format!("closed: {} ({})", f.state, by.as_str()));
    told(view.closed_at.filter(|at| !on_file(*at)), u64::MAX, &closed);
    for event in events {
        lines.push((event.at, event.seq, words(event)));
    }
    lines.sort_by_key(|(at, seq, _)| (*at, *seq));
    out::table(
        &lines
            .into_iter()
            .map(|(at, _, words)| vec![format!("  {}", Moment(at).text()), words])
            .collect::<Vec<_>>(),
    )
}

fn words(event: &EventView) -> String {
    let prose = |text: &str| Untrusted::from(text).prose();
    let mut words = prose(&event.name).replace('_', " ");
    if event.from != event.to {
        words.push_str(&format!(": {} -> {}", event.from, event.to));
    }
    if event.fence > 0 {
        words.push_str(&format!(" (fence {})", event.fence));
    }
    if let Some(actor) = &event.actor {
        words.push_str(&format!(", by {}", prose(actor)));
    }
    if let Some(id) = &event.provider_ref {
        words.push_str(&format!(", provider's id {}", Untrusted::from(id.as_str()).exact()));
    }
    let detail = told(&event.detail);
    if !detail.is_empty() {
        words.push_str(&format!(" [{}]", detail.join("; ")));
    }
    words
}

/// What a person wants of the detail: what is null, empty or false says nothing.
fn told(detail: &str) -> Vec<String> {
    let Ok(Value::Object(detail)) = serde_json::from_str(detail) else { return Vec::new() };
    let tells = |value: &Value| match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(list) if list.is_empty() => None,
        Value::String(text) => Some(Untrusted::from(text.as_str()).prose()),
        other => Some(Untrusted::new(other.to_string()).prose()),
    };
    let told = detail.iter().filter_map(|(name, value)| {
        tells(value)
            .map(|value| format!("{}: {value}", Untrusted::from(name.as_str()).prose().replace('_', " ")))
    });
    told.collect()
}

pub(super) fn as_json(event: &EventView, reveal: bool) -> Value {
    let detail: Value = serde_json::from_str(&event.detail).unwrap_or(Value::Null);
    let mut json = json!({
        "seq": event.seq,
        "at": Moment(event.at),
        "fence": event.fence.to_string(),
        "name": event.name,
        "actor": event.actor,
        "from": event.from,
        "to": event.to,
        "provider_ref": event.provider_ref,
        "detail": detail,
        "bytes": event.bytes.as_ref().map(Vec::len),
    });
    if let (true, Some(bytes)) = (reveal, &event.bytes) {
        json["body"] = json!(String::from_utf8_lossy(bytes));
    }
    json
}
