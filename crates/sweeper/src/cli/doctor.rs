//! `earmark doctor`.

mod checks;

use std::process::ExitCode;

use earmark_claim::failure::chain;
use earmark_sweeper::config::Faults;
use serde::Serialize;
use serde_json::json;

use super::common::{Common, open};
use super::exit::{self, Exit};
use super::out;

/// Checks configuration, database, sweepers and claims, and says how to mend what is wrong. It changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark doctor --config /etc/earmark.toml\n  earmark doctor --json | jq '.findings[] | select(.level == \"fault\")'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad it is.
    level: Level,
    /// A stable word.
    code: &'static str,
    /// What is.
    what: String,
    /// What to do; empty where nothing is to be done.
    fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// To be mended: exit code 5.
    Fault,
    /// Worth a look.
    Warning,
    /// How things are.
    Note,
}

impl Finding {
    fn new(level: Level, code: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level, code, what: what.into(), fix: fix.into() }
    }

    fn fault(code: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Level::Fault, code, what, fix)
    }

    fn note(code: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Note, code, what, "")
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (mut findings, unreachable) = examine(&args.common).await;
    findings.sort_by_key(|finding| finding.level);
    let faults = findings.iter().filter(|finding| finding.level == Level::Fault).count();
    if args.json {
        out::json(&json!({ "faults": faults, "findings": findings }))?;
    } else {
        for Finding { level, code, what, fix } in &findings {
            let level = match level {
                Level::Fault => "FAULT",
                Level::Warning => "warning",
                Level::Note => "note",
            };
            out::line(&format!("{level:7}  {code}: {what}"))?;
            if !fix.is_empty() {
                out::line(&format!("         -> {fix}"))?;
            }
        }
        out::line(&match faults {
            0 => "no faults".to_owned(),
            1 => "1 fault".to_owned(),
            n => format!("{n} faults"),
        })?;
    }
    Ok(if unreachable {
        Exit::Unreachable.into()
    } else if faults > 0 {
        Exit::Faults.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// Every finding, and whether the database could not be reached, so that the rest is not known.
async fn examine(common: &Common) -> (Vec<Finding>, bool) {
    let config = match common.load() {
        Ok(config) => config,
        Err(error) => return (of_config(&error), false),
    };
    let mut findings = vec![Finding::note("database", config.database.url.redacted())];
    findings.extend(checks::credentials(&config).await);
    match checks::schema(&config).await {
        Ok(of_schema) => findings.extend(of_schema),
        Err(error) => {
            let fix = "start it, or mend database.url; user and password included";
            findings.push(Finding::fault("unreachable", chain(error.as_ref()), fix));
            return (findings, true);
        }
    }
    match open(&config).await {
        Ok(store) => {
            findings.extend(checks::claims(&config, &store).await);
            store.close().await;
        }
        Err(error) => {
            let unreachable = exit::of(&error) == Exit::Unreachable;
            findings.extend(of_store(&error));
            return (findings, unreachable);
        }
    }
    (findings, false)
}

fn of_config(error: &anyhow::Error) -> Vec<Finding> {
    match error.downcast_ref::<Faults>() {
        Some(faults) => faults
            .each()
            .iter()
            .map(|f| {
                let key = if f.key.is_empty() { String::new() } else { format!("{}: ", f.key) };
                Finding::fault("config", format!("{}: {key}{}", f.place, f.wrong), f.fix.clone())
            })
            .collect(),
        None => vec![Finding::fault("config", chain(error.as_ref()), "")],
    }
}

fn of_store(error: &anyhow::Error) -> Vec<Finding> {
    match error.downcast_ref::<earmark_claim::Error>() {
        Some(earmark_claim::Error::Config(faults)) => {
            faults.iter().map(|fault| Finding::fault("store", fault.clone(), "")).collect()
        }
        _ => vec![Finding::fault("store", chain(error.as_ref()), "")],
    }
}
