//! `earmark purge`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use earmark_claim::{PurgePlan, PurgeTally};
use earmark_sweeper::Purged;
use earmark_sweeper::config::Purge;
use serde_json::json;

use super::common::{Common, duration, until_interrupted};
use super::exit::{Ended, Exit};
use super::{out, setup};

/// One purge, to its end: request, answer and history of what was closed longer ago than the retention go, and a tombstone stays; tombstones
/// older than their age are deleted. What is open is never purged. It rests between batches, so that claims keep their pace, and
/// is safe beside running sidecars and other purges.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark purge --dry-run --retention 30d\n  earmark purge --config /etc/earmark.toml\n  \
    earmark purge --retention 30d --tombstones 400d --redelivery 30d --json\n\n\
    Interrupted, it ends after the batch under way (130), and the next one goes on where it stopped.\n\
    Orphans are evidence, and are never purged."
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Says what would go, by tenant, consumer and state, and writes nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long after it was closed a claim becomes a tombstone. Instead of purge.retention.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retention: Option<Duration>,
    /// How long after it was closed a tombstone is deleted. Instead of purge.tombstone_age.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tombstones: Option<Duration>,
    /// For how long a message can come again; tombstones must outlive that. Instead of purge.redelivery.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    redelivery: Option<Duration>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = args.common.load()?;
    let Purge { retention, tombstone_age, redelivery, .. } = &mut config.purge;
    *retention = args.retention.or(*retention);
    *tombstone_age = args.tombstones.or(*tombstone_age);
    *redelivery = args.redelivery.or(*redelivery);
    if retention.is_none() {
        return Err(Ended::usage(
            "say how old a finished claim must be: --retention 30d, or retention under [purge]",
        ));
    }
    if tombstone_age.is_some() && redelivery.is_none() {
        return Err(Ended::usage(
            "tombstones are to be deleted, so say for how long a message can come again: --redelivery 30d, or redelivery \
             under [purge]",
        ));
    }
    let store = super::common::open(&config).await?;
    let earmark = setup::earmark(&config, store.clone())?;
    let Some(purger) = setup::purger(&config.purge, &earmark)? else { return Ok(ExitCode::SUCCESS) };
    if args.dry_run {
        let plan = purger.plan().await?;
        if args.json {
            out::json(&json!({ "claims": plan.claims, "tombstones": plan.tombstones, "kept": plan.kept }))?;
        } else {
            out::text(&planned(&plan))?;
        }
        store.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = until_interrupted("the batch under way is finished, no other is begun")?;
    let shown = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let purged = purger.run_once(&stop, |so_far: &Purged| {
        if shown && told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            let Purged { claims, deleted, .. } = so_far;
            // Progress that cannot be shown is no failure.
            let _ =
                writeln!(std::io::stderr(), "{claims} claims purged, {deleted} tombstones deleted so far");
        }
    });
    let purged = purged.await?;
    if args.json {
        out::json(&purged)?;
    } else {
        out::text(&text(&purged))?;
    }
    store.close().await;
    Ok(if purged.stopped { Exit::Interrupted.into() } else { ExitCode::SUCCESS })
}

fn text(purged: &Purged) -> String {
    let rows = [
        ("claims", purged.claims, "became tombstones"),
        ("deleted", purged.deleted, "tombstones that were old enough"),
        ("events", purged.events, "went with them"),
        ("sweepers", purged.sweepers, "gone for a week, and forgotten"),
        ("batches", purged.batches, "transactions"),
    ];
    out::table(&rows.map(|(name, n, words)| vec![name.to_owned(), n.to_string(), words.to_owned()]))
}

fn planned(plan: &PurgePlan) -> String {
    let mut text = String::new();
    for (title, tallies) in [
        ("claims that would become tombstones", &plan.claims),
        ("tombstones that would be deleted", &plan.tombstones),
    ] {
        let total = |of: fn(&PurgeTally) -> u64| tallies.iter().map(of).sum::<u64>();
        let bytes = total(|t| t.bytes) + total(|t| t.event_bytes);
        text.push_str(&format!(
            "{title}: {}, with {} events and {bytes} bytes of payload\n",
            total(|t| t.claims),
            total(|t| t.events)
        ));
        if tallies.is_empty() {
            continue;
        }
        let head = ["tenant", "consumer", "state", "claims", "bytes", "events", "event bytes"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(tallies.iter().map(|t| {
            let shown = |text: &str| earmark_sweeper::report::Untrusted::new(text.to_owned()).prose();
            let numbers = [t.claims, t.bytes, t.events, t.event_bytes].map(|n| n.to_string());
            let mut row = vec![shown(&t.tenant), shown(&t.consumer), t.state.clone()];
            row.extend(numbers);
            row
        }));
        text.push_str(&out::table(&rows));
    }
    if plan.kept > 0 {
        text.push_str(&format!(
            "kept, however old: {} claims that are confirmed, perhaps twice (see the report)\n",
            plan.kept
        ));
    }
    text
}
