//! What is told of a run: a table, JSON, a picture.

mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::args::{Flags, Plan};
use crate::disk;
use crate::results::{Object, Results};
use crate::systems::System;

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

/// Prints the table and writes the files that were asked for.
pub fn tell(flags: &Flags, plan: &Plan, head: &[String], results: &Results) -> Result<()> {
    print!("{}", table::main(plan, head, results));
    if let Some(path) = &flags.json {
        let objects: Vec<Object> = plan
            .databases
            .iter()
            .flat_map(|d| results.lines(*d, System::HandWritten).into_iter().map(|line| line.object(*d)))
            .collect();
        write(path, &(serde_json::to_string_pretty(&objects)? + "\n"))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
