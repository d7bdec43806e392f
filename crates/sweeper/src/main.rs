//! `earmark`: the sidecar and its tools. Arguments in, exit code out.

mod cli;
mod demo;
mod health;

use clap::Parser;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    // Before any client: with two providers in the tree rustls picks none by itself. It fails only where one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::run(cli::Cli::parse()).await
}
