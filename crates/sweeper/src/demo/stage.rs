//! The demo from start to end: one run under claims, one with the naive check, and the count.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use earmark_effects::claim::{ClaimStore, ClaimView, Snapshot, State, Timestamp};
use earmark_sweeper::report::input::{Scope, Window};
use earmark_sweeper::report::{self, Untrusted, render};

use super::broker::{Broker, Delivered};
use super::count::{Count, count};
use super::messages::Messages;
use super::plan::Plan;
use super::processes::{Child, Voice};
use super::progress::Progress;
use super::provider::Provider;
use super::wire::{Account, Said, Setup, Tally};
use super::{database, effects, ledger};

/// Longest wait for the sweeper to clear up. A lease and some tries are some seconds; what is open then is shown as open.
const CLEAR_MAX: Duration = Duration::from_secs(90);
const CLEAR_LOOKED_EVERY: Duration = Duration::from_millis(200);

/// What is to be played.
pub(super) struct Stage {
    pub(super) messages: Messages,
    pub(super) seed: u64,
    pub(super) folder: PathBuf,
    /// Of a database that is prepared.
    pub(super) url: String,
    pub(super) server: &'static str,
}

/// What was seen.
pub(super) struct Played {
    pub(super) messages: Messages,
    pub(super) seed: u64,
    pub(super) took: Duration,
    pub(super) folder: PathBuf,
    /// With its password: for the command to run next, which is on the user's own terminal.
    pub(super) database: String,
    pub(super) server: &'static str,
    pub(super) earmark: Run,
    pub(super) control: Run,
    pub(super) tally: Tally,
    /// Claims that were in doubt or tried again on the way.
    pub(super) cleared: usize,
    /// A claim with a history, worth a look.
    pub(super) example: Option<String>,
    pub(super) report: PathBuf,
}

/// One of the two runs.
pub(super) struct Run {
    pub(super) count: Count,
    pub(super) delivered: Delivered,
    pub(super) kills_in_call: usize,
}

impl Stage {
    pub(super) async fn play(self, progress: &mut Progress) -> anyhow::Result<Played> {
        let Self { messages, seed, folder, url, .. } = &self;
        self.announce(progress);
        let store = effects::store(url).await?;
        let begun_at = store.now().await?;
        let plan = Plan::new(*seed, messages);
        let mut provider = Provider::start(folder, *seed).await?;
        let setup = |account, process: &str| Setup {
            process: process.to_owned(),
            account,
            database: url.clone(),
            // Another one for each run, so that a database may be used again.
            consumer: format!("{}{:08x}", database::CONSUMER_PREFIX, begun_at.as_micros() & 0xffff_ffff),
            origin: provider.origin.clone(),
        };
        let (ours, theirs) = (setup(Account::Earmark, "sweeper"), setup(Account::Control, ""));

        let deliveries = plan.deliveries.len() + plan.last.len();
        let what = format!("{deliveries} deliveries to two services, with kills");
        progress.phase("under claims", &what);
        let sweeper = Sweeper::start(&ours, folder).await?;
        let of_earmark =
            Broker::new(&mut provider, ours.clone(), folder.clone(), &plan).run(progress).await?;
        progress.phase("sweep", "what the kills and the lost answers left open is settled by rule");
        let snapshot = clear(&store, &ours.consumer, begun_at, progress).await?;
        sweeper.end().await?;

        progress.phase("control", "the same traffic and the same kills with SELECT, call, INSERT");
        let of_control = Broker::new(&mut provider, theirs, folder.clone(), &plan).run(progress).await?;

        progress.phase("count", "the provider's ledger against the messages");
        let tally = provider.tally().await?;
        let path = provider.ledger.clone();
        provider.end().await;
        let claims = of_consumer(&snapshot, &ours.consumer);
        let distinct = &messages.distinct;
        let run = |delivered: Delivered, count| {
            let in_call = delivered.killed.iter().filter(|p| tally.cut.contains(p)).count();
            Run { count, delivered, kills_in_call: in_call }
        };
        let earmark = count(distinct, &ledger::read(&path, Account::Earmark)?, Some(&claims));
        let control = count(distinct, &ledger::read(&path, Account::Control)?, None);
        let report = write_report(&store, &snapshot, &ours.consumer, begun_at, url, folder)?;
        store.close().await;
        let restless = || claims.iter().filter(|view| view.facts.fence > 1 || view.facts.looks > 0);
        let example = restless().max_by_key(|view| (view.facts.fence, view.amount.is_some()));
        Ok(Played {
            cleared: restless().count(),
            example: example.or(claims.first()).map(|view| view.reference.to_string()),
            earmark: run(of_earmark, earmark),
            control: run(of_control, control),
            took: progress.elapsed(),
            seed: *seed,
            folder: folder.clone(),
            database: self.url,
            server: self.server,
            tally,
            report,
            messages: self.messages,
        })
    }

    fn announce(&self, progress: &mut Progress) {
        let Messages { distinct, mismatches, bad, .. } = &self.messages;
        for (line, what) in bad {
            progress.say(&format!("line {line}: {what}; skipped"));
        }
        let mut text = format!("{} messages; seed {}; {}", distinct.len(), self.seed, self.server);
        if !mismatches.is_empty() {
            text.push_str(&format!("; {} with an id that was used for something else", mismatches.len()));
        }
        if !bad.is_empty() {
            text.push_str(&format!("; {} bad lines skipped", bad.len()));
        }
        progress.phase("prepare", &text);
    }
}

/// The sweeper's process.
struct Sweeper {
    child: Child,
    _voice: Voice,
}

impl Sweeper {
    async fn start(setup: &Setup, folder: &Path) -> anyhow::Result<Self> {
        let log = folder.join("sweeper.log");
        let (child, mut voice) = Child::start("sweeper", setup, &log).await?;
        let ready: Option<Said> = voice.next().await;
        ready.with_context(|| format!("the sweeper did not start: see {}", log.display()))?;
        Ok(Self { child, _voice: voice })
    }

    async fn end(self) -> anyhow::Result<()> {
        self.child.end().await?;
        Ok(())
    }
}

/// Waits until no claim waits for the machine any more, or for too long.
async fn clear(
    store: &ClaimStore,
    consumer: &str,
    from: Timestamp,
    progress: &mut Progress,
) -> anyhow::Result<Snapshot> {
    let begun = Instant::now();
    let mut most = 0;
    loop {
        let snapshot = store.snapshot(from).await?;
        let open = |view: &&&ClaimView| view.is_open() && view.facts.state != State::Escalated;
        let left = of_consumer(&snapshot, consumer).iter().filter(open).count();
        if left == 0 || begun.elapsed() > CLEAR_MAX {
            return Ok(snapshot);
        }
        most = most.max(left);
        progress.bar(most - left, most);
        tokio::time::sleep(CLEAR_LOOKED_EVERY).await;
    }
}

fn of_consumer<'a>(snapshot: &'a Snapshot, consumer: &str) -> Vec<&'a ClaimView> {
    snapshot.claims.iter().filter(|view| view.key.consumer() == consumer).collect()
}

/// The reconciliation report, as `earmark report` writes it.
fn write_report(
    store: &ClaimStore,
    snapshot: &Snapshot,
    consumer: &str,
    from: Timestamp,
    url: &str,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let scope = Scope {
        database: Untrusted::new(database::shown(url)),
        namespace: store.namespace().as_str().into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        allow_non_durable: store.non_durable().is_some(),
    };
    let window = Window { from, to: snapshot.as_of };
    // The rows of this run: another one may have been on the same database before.
    let mut input = report::read::input(snapshot, window, scope);
    let ours = |of: &Untrusted| *of == Untrusted::new(consumer);
    input.claims.retain(|claim| ours(&claim.consumer));
    input.events.retain(|event| ours(&event.consumer));
    input.orphans.retain(|orphan| orphan.consumer.as_ref().is_some_and(ours));
    let report = report::build(&input, &report::Options::default());
    let html = folder.join("report.html");
    std::fs::write(&html, render::html(&report)).with_context(|| html.display().to_string())?;
    let text = folder.join("report.txt");
    std::fs::write(&text, render::text(&report)).with_context(|| text.display().to_string())?;
    Ok(html)
}
