//! What is printed in the end: side by side, in words, and what to run next.

use std::fmt::Write;

use serde::Serialize;

use super::database;
use super::stage::{Played, Run};

/// One object for machines, in this order.
#[derive(Serialize)]
struct Json {
    messages: usize,
    effects: u64,
    duplicates: u64,
    lost: u64,
    in_doubt: u64,
    escalated: u64,
    kills: usize,
    kills_in_call: usize,
    control: Control,
    report: String,
    mismatches: usize,
    skipped: usize,
    seed: u64,
}

#[derive(Serialize)]
struct Control {
    effects: u64,
    duplicates: u64,
    lost: u64,
    kills: usize,
    kills_in_call: usize,
}

pub(super) fn json(played: &Played) -> anyhow::Result<String> {
    let Run { count, delivered, kills_in_call } = &played.earmark;
    let control = &played.control;
    let object = Json {
        messages: played.messages.distinct.len(),
        effects: count.effects,
        duplicates: count.duplicates,
        lost: count.lost,
        in_doubt: count.in_doubt,
        escalated: count.escalated,
        kills: delivered.killed.len(),
        kills_in_call: *kills_in_call,
        control: Control {
            effects: control.count.effects,
            duplicates: control.count.duplicates,
            lost: control.count.lost,
            kills: control.delivered.killed.len(),
            kills_in_call: control.kills_in_call,
        },
        report: played.report.display().to_string(),
        mismatches: delivered.mismatches.len(),
        skipped: played.messages.bad.len(),
        seed: played.seed,
    };
    Ok(serde_json::to_string(&object)?)
}

/// For people: at most 100 columns, no colour, since it is most often piped or kept.
pub(super) fn text(played: &Played) -> String {
    let mut out = String::new();
    table(&mut out, played);
    words(&mut out, played);
    next(&mut out, played);
    out
}

fn table(out: &mut String, played: &Played) {
    let (ours, theirs) = (&played.earmark, &played.control);
    out.push('\n');
    let kills = |run: &Run| format!("{} ({} in a call)", run.delivered.killed.len(), run.kills_in_call);
    let mut row = |name: &str, ours: String, theirs: String| {
        let _ = writeln!(out, "  {name:<26}{ours:>20}{theirs:>24}");
    };
    row("", "under claims".into(), "naive check".into());
    let messages = played.messages.distinct.len();
    row("messages", messages.to_string(), messages.to_string());
    row("deliveries", ours.delivered.deliveries.to_string(), theirs.delivered.deliveries.to_string());
    row("services killed", kills(ours), kills(theirs));
    row("effects at the provider", ours.count.effects.to_string(), theirs.count.effects.to_string());
    row("duplicates", ours.count.duplicates.to_string(), theirs.count.duplicates.to_string());
    let tally = &played.tally;
    for (why, n) in [
        ("killed in the call", tally.killed),
        ("got no answer", tally.unanswered),
        ("answered, not yet noted", tally.together),
    ] {
        row(&format!("  {why}"), String::new(), n.to_string());
    }
    row("lost", ours.count.lost.to_string(), theirs.count.lost.to_string());
    row("in doubt at the end", ours.count.in_doubt.to_string(), "it cannot say".into());
    row("escalated to a person", ours.count.escalated.to_string(), "-".into());
    if !played.messages.mismatches.is_empty() {
        let found = format!("{} reported", ours.delivered.mismatches.len());
        row("one id, two contents", found, "swallowed".into());
    }
    let sums: Vec<_> = theirs.count.overcharged.each().map(|money| money.text()).collect();
    for (n, sum) in sums.into_iter().enumerate() {
        let name = if n == 0 { "charged too much" } else { "" };
        row(name, if n == 0 { "nothing".into() } else { String::new() }, sum);
    }
}

fn words(out: &mut String, played: &Played) {
    let tally = &played.tally;
    let percent = (tally.dropped * 1000).checked_div(tally.requests).unwrap_or_default();
    let _ = write!(
        out,
        "
What you saw
  Both services got every message one to five times and were killed with SIGKILL, most often while
  the provider held an open request of theirs. In both runs together the provider got {requests} requests:
  it lost the answers of {dropped} after acting ({whole}.{tenth} %), let {hung} hang, and said 500 to {failed}, acting or not.
  Under claims, {cleared} messages were in doubt or had to be tried again on the way: the sweeper asked the
  provider, or repeated the call under the same idempotency key while the provider still knew it.
  The naive check looks, calls, then notes. Whoever is killed or gets no answer between the call and
  the note calls again at the next delivery, and two who look at the same time both call.
  The figures are counted from the provider's own ledger:
    {ledger}

",
        requests = tally.requests,
        dropped = tally.dropped,
        whole = percent / 10,
        tenth = percent % 10,
        hung = tally.hung,
        failed = tally.failed,
        cleared = played.cleared,
        ledger = played.folder.join("downstream-ledger.jsonl").display(),
    );
}

fn next(out: &mut String, played: &Played) {
    let us = if std::env::var_os("CARGO").is_some() {
        if cfg!(debug_assertions) { "cargo run --" } else { "cargo run --release --" }
    } else {
        "earmark"
    };
    let url = quoted(&played.database);
    let _ = writeln!(out, "Where it is\n  report    {}", played.report.display());
    let _ = writeln!(out, "  as text   {}", played.folder.join("report.txt").display());
    let _ = writeln!(out, "  database  {} ({})", database::shown(&played.database), played.server);
    let _ = writeln!(out, "\nNext");
    if let Some(reference) = &played.example {
        let _ = writeln!(out, "  {us} show {reference} --database {url}");
    }
    let _ = writeln!(out, "  {us} list --database {url}");
    let seed = played.seed;
    let _ = writeln!(out, "  {us} demo --seed {seed}\n\n{:.1} s, seed {seed}", played.took.as_secs_f32());
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/:@._-%+=".contains(&b);
    if text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
