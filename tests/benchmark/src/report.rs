//! What is told of a run: a table, JSON, a picture.

mod svg;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::args::Plan;
use crate::disk;
use crate::results::{Object, Results, Seen, by_hand, one_process, one_read};
use crate::rounds::Run;

/// The machine, line by line.
pub fn machine(folder: &Path) -> Result<Vec<String>> {
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let file_system = disk::file_system(folder).unwrap_or_else(|| "unknown".to_owned());
    Ok(vec![
        format!(
            "{cores} cores, {}, kernel {}",
            processor.as_deref().unwrap_or("unknown processor"),
            kernel.trim()
        ),
        format!(
            "{} ({file_system}): {:.0} fsyncs of 8 kB a second, one after the other",
            folder.display(),
            disk::fsyncs_per_s(folder)?
        ),
    ])
}

/// Prints the tables and writes the files that were asked for.
pub fn tell(run: &Run<'_>, head: &[String]) -> Result<()> {
    let Run { flags, plan, .. } = run;
    print!("{}{}", table::main(run, head), table::extras(run));
    if let Some(path) = &flags.json {
        write_json(path, objects(plan, &run.results, by_hand))?;
    }
    if let Some(path) = &flags.extra_json {
        let mut extras = objects(plan, &run.duplicates, one_read);
        extras.extend(objects(plan, &run.processes, one_process));
        write_json(path, extras)?;
    }
    if let Some(path) = &flags.svg {
        write(path, &svg::draw(run))?;
    }
    Ok(())
}

fn objects(plan: &Plan, results: &Results, base: fn(Seen) -> Seen) -> Vec<Object> {
    let of = |database| results.lines(database, base).into_iter().map(move |line| line.object(database));
    plan.databases.iter().copied().flat_map(of).collect()
}

fn write_json(path: &Path, objects: Vec<Object>) -> Result<()> {
    write(path, &(serde_json::to_string_pretty(&objects)? + "\n"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
