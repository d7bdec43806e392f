//! The demo.

use std::process::ExitCode;

/// Arguments of `earmark demo`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Arguments of a process of the demo.
#[derive(clap::Args)]
pub(crate) struct ProcessArgs {}

/// Runs the demo.
pub(crate) async fn run(_: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}

/// Runs one of its processes.
pub(crate) async fn process(_: ProcessArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
