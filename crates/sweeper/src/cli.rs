//! The command line: one file per command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demo;

/// Sweeps claims that nobody settled, and reports what a person must decide.
#[derive(Parser)]
#[command(name = "earmark", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows the whole path on this machine: services that are killed, a provider that loses answers, and a naive control beside it.
    Demo(demo::Args),
    /// A process of the demo.
    #[command(hide = true)]
    DemoProcess(demo::ProcessArgs),
}

/// Runs a command and answers the exit code of the process.
pub(crate) async fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Demo(args) => demo::run(args).await,
        Command::DemoProcess(args) => demo::process(args).await,
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("earmark: {error:#}");
            ExitCode::FAILURE
        }
    }
}
