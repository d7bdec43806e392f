//! `earmark demo`: the whole path on this machine, with real processes, sockets and kills, and a naive control beside it.
//!
//! The parent is the broker; the downstream, the services and the sweeper are processes of their own. What is printed in the end was counted
//! by the downstream's ledger.

mod broker;
mod control;
mod count;
mod database;
mod downstream;
mod effects;
mod faults;
mod http;
mod ledger;
mod messages;
mod plan;
mod processes;
mod progress;
mod provider;
mod service;
mod show;
mod stage;
mod subscriber;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

/// Arguments of `earmark demo`.
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// Fixes every choice: deliveries, faults, kills. Left out, it is drawn and printed. What the machine's own timing decides stays open.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Messages of your own: JSON Lines of {"id","tenant"?,"kind":"email"|"charge","to","amount_minor"?,"currency"?,"subject"?}.
    ///
    /// A charge needs amount_minor > 0 and a currency of three upper-case letters. A bad line is named by its number, skipped and counted. The
    /// same id with other contents is delivered, too, and must be told apart.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Runs on this database instead of a fresh SQLite file: postgres://, mysql:// or sqlite://.
    ///
    /// It must hold no claims but those of earlier demos, since the demo's sweeper sweeps all of it. Made there are Earmark's tables and
    /// earmark_demo_control; all rows are of consumers that begin with earmark-demo-.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Where database, ledger, logs and report go: a new or empty folder. Left out, a new one among the temporary files. It is kept.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints one JSON object on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Shows the whole path on this machine: two service processes that get every message one to five times each and are killed \
with SIGKILL, most often in the middle of a call; a provider process that deduplicates by idempotency key, hangs, says 500 and \
loses answers; a sweeper that clears up. Then the same traffic under the same kills with the check that is written most often \
(SELECT, call, INSERT).

What is counted, by the provider's own ledger:
  messages    distinct valid messages
  effects     what the provider did
  duplicates  effects beyond the first of a message
  lost        messages without an effect whose claim is missing, or closed as if all were well
  in doubt    claims that are still open at the end, other than escalated ones
  escalated   claims that wait for a person's ruling
  kills       SIGKILLs to services; in a call: the provider had an open request of that process, and saw it cut

Exit code: 0 when nothing was doubled or lost under claims, 1 otherwise.";

/// Arguments of a process of the demo.
#[derive(clap::Args)]
pub(crate) struct ProcessArgs {
    role: Role,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Role {
    Downstream,
    Service,
    Sweeper,
}

/// Runs the demo.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Refused whole, before anything is started or made.
    let messages = messages::Messages::load(args.messages.as_deref())?;
    if let Some(url) = &args.database {
        database::check_url(url)?;
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let folder = folder(args.dir)?;
    let url = args.database.unwrap_or_else(|| database::sqlite_url(&folder.join("earmark.sqlite")));
    let server = database::prepare(&url).await.inspect_err(|_| {
        // Only if nothing is in it.
        let _ = std::fs::remove_dir(&folder);
    })?;
    let mut progress = progress::Progress::new();
    let stage = stage::Stage { messages, seed, folder: folder.clone(), url, server };
    let played = tokio::select! {
        played = stage.play(&mut progress) => played,
        _ = tokio::signal::ctrl_c() => {
            // What was played is dropped by now, and with it the children.
            eprintln!("\ninterrupted; no process is left running; {} is kept", folder.display());
            return Ok(ExitCode::from(130));
        }
    };
    let played =
        played.with_context(|| format!("the demo broke off; its logs are in {}", folder.display()))?;
    if args.json {
        println!("{}", show::json(&played)?);
    } else {
        print!("{}", show::text(&played));
    }
    let clean = played.earmark.count.duplicates == 0 && played.earmark.count.lost == 0;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one of its processes, until the parent's pipe ends.
pub(crate) async fn process(args: ProcessArgs) -> anyhow::Result<ExitCode> {
    match args.role {
        Role::Downstream => downstream::run().await?,
        Role::Service => service::run().await?,
        Role::Sweeper => service::sweep().await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder with nothing in it, so that a ledger of another run is never counted.
fn folder(dir: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let Some(dir) = dir else {
        let dir = std::env::temp_dir().join(format!("earmark-demo-{:08x}", fastrand::u32(..)));
        std::fs::create_dir(&dir).with_context(|| {
            format!("the folder {} cannot be made: name another with --dir", dir.display())
        })?;
        return Ok(dir);
    };
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("--dir: {} cannot be made: name another folder", dir.display()))?;
    let mut entries = std::fs::read_dir(&dir)
        .with_context(|| format!("--dir: {} cannot be read: name another folder", dir.display()))?;
    anyhow::ensure!(entries.next().is_none(), "--dir: {} is not empty: name a new folder", dir.display());
    // Children are handed this path.
    std::path::absolute(&dir).with_context(|| format!("--dir: {} has no absolute path", dir.display()))
}
