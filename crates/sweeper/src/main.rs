//! `earmark`: the sidecar and its tools. Arguments in, exit code out.

mod cli;
mod demo;

use clap::Parser;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    cli::run(cli::Cli::parse()).await
}
