//! The command line: one file per command.

mod cancel;
mod common;
mod doctor;
mod exit;
mod list;
mod migrate;
mod out;
mod pause;
mod purge;
mod report;
mod resolve;
mod run;
mod setup;
mod show;
mod sweep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demo;

/// Sweeps claims that nobody settled, and reports what a person must decide.
#[derive(Parser)]
#[command(name = "earmark", version, arg_required_else_help = true, after_help = exit::TABLE, after_long_help = exit::long_help())]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The sidecar: sweeps on schedule, serves metrics and health.
    Run(run::Args),
    /// One pass, now.
    Sweep(sweep::Args),
    /// Drops what is finished and old, or says what it would drop.
    Purge(purge::Args),
    /// Makes or upgrades the tables, or prints their SQL.
    Migrate(migrate::Args),
    /// Lists claims, by deadline.
    List(list::Args),
    /// Everything on file about one claim.
    Show(show::Args),
    /// The reconciliation report.
    Report(report::Args),
    /// A person's ruling on escalated claims.
    Resolve(resolve::Args),
    /// Calls a claim off where nothing was sent.
    Cancel(cancel::Args),
    /// Stops all calls to a downstream.
    Pause(pause::PauseArgs),
    /// Ends the pause of a downstream.
    Resume(pause::ResumeArgs),
    /// Checks configuration, database, sweepers and claims.
    Doctor(doctor::Args),
    /// Shows the whole path on this machine: services that are killed, a provider that loses answers, and a naive control beside it.
    Demo(demo::Args),
    /// A process of the demo.
    #[command(hide = true)]
    DemoProcess(demo::ProcessArgs),
}

/// Runs a command and answers the exit code of the process.
pub(crate) async fn run(cli: Cli) -> ExitCode {
    out::log(matches!(cli.command, Command::Run(_)));
    let done = match cli.command {
        Command::Run(args) => run::run(args).await,
        Command::Sweep(args) => sweep::run(args).await,
        Command::Purge(args) => purge::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::List(args) => list::run(args).await,
        Command::Show(args) => show::run(args).await,
        Command::Report(args) => report::run(args).await,
        Command::Resolve(args) => resolve::run(args).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Pause(args) => pause::pause(args).await,
        Command::Resume(args) => pause::resume(args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::DemoProcess(args) => demo::process(args).await,
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("earmark: {}", earmark_claim::failure::chain(error.as_ref()));
            exit::of(&error).into()
        }
    }
}
