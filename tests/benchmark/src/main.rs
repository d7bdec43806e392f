//! Earmark beside the hand-written pattern and its neighbours. Started by `tests/bench`, which starts the databases;
//! `docs/performance.md` says what is measured, and how.

mod args;
mod databases;
mod disk;
mod load;
mod loads;
mod payload;
mod pgbench;
mod report;
mod results;
mod rounds;
mod systems;
mod workers;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Cli, Command, Flags};
use databases::Server;
use rounds::Run;

/// A measurement whose commits could be lost would flatter everybody.
const EXIT_NOT_DURABLE: u8 = 5;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Some(Command::Worker { round }) => {
            load::round(Some(round.clone())).and_then(|round| loads::work(&round)).map(|()| ExitCode::SUCCESS)
        }
        None if cli.flags.check => Ok(ExitCode::SUCCESS),
        None => run(&cli.flags),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(flags: &Flags) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let plan = flags.plan();
        let mut servers = BTreeMap::new();
        let mut head = report::machine(&flags.folder)?;
        let mut weak = Vec::new();
        for database in &plan.databases {
            let server = Server::open(*database, flags).await?;
            let facts = server.facts().await?;
            head.push(facts.settings);
            weak.extend(facts.weak.into_iter().map(|w| format!("{}: {w}", database.name())));
            servers.insert(*database, server);
        }
        for line in &head {
            eprintln!("{line}");
        }
        if !weak.is_empty() {
            for line in &weak {
                eprintln!("not durable: {line}");
            }
            return Ok(ExitCode::from(EXIT_NOT_DURABLE));
        }
        let mut run = Run::new(flags, &plan, servers);
        let ran = match run.main().await {
            Ok(()) => run.extras().await,
            failed => failed,
        };
        for server in run.servers.values_mut() {
            server.clean().await?;
        }
        ran?;
        report::tell(&run, &head)?;
        Ok(ExitCode::SUCCESS)
    })
}
