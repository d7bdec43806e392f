//! The neighbours of Earmark under the benchmark's load: one round of one of them. Started by the benchmark; see
//! `docs/performance.md`.

#[path = "../../benchmark/src/load.rs"]
mod load;
#[path = "../../benchmark/src/payload.rs"]
mod payload;

mod agent_effects;
mod dbos;

use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<()> {
    let round = load::round(std::env::args().nth(1))?;
    let url = load::url()?;
    match round.system.as_str() {
        "agent-effects" => load::serve(&round, agent_effects::AgentEffects::open(&url, &round)),
        "dbos" => load::serve(&round, dbos::Dbos::open(&url, &round)),
        other => bail!("{other} is not one of the peers"),
    }
}
