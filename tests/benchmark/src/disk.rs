//! The disk under the databases: what a commit has to wait for.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// One page of a database's log.
const PAGE_BYTES: usize = 8192;
const MEASURE: Duration = Duration::from_secs(1);

/// How often a second a page can be written and synced, one after the other.
pub fn fsyncs_per_s(folder: &Path) -> Result<f64> {
    let path = folder.join(format!("earmark-bench-fsync-{}", std::process::id()));
    let measured = File::create(&path).map_err(Into::into).and_then(measure);
    let _ = fs::remove_file(&path);
    measured.with_context(|| format!("fsync in {}", folder.display()))
}

fn measure(mut file: File) -> Result<f64> {
    let page = [0x5a; PAGE_BYTES];
    // Written over, as a log that is there already: a growing file would sync its length too.
    file.write_all(&page)?;
    file.sync_all()?;
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < MEASURE {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&page)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

/// The kind of file system that holds a path of this machine.
pub fn file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        Some((left.split(' ').nth(4)?, right.split(' ').next()?))
    });
    // A later mount on the same place lies over the earlier one.
    let (_, kind) = mounts.filter(|(at, _)| path.starts_with(at)).max_by_key(|(at, _)| at.len())?;
    Some(kind.to_owned())
}

/// Why data at that path would never reach a disk. A path that cannot be looked at from here says nothing.
pub fn in_memory(path: &str) -> Option<String> {
    let kind = file_system(Path::new(path))?;
    matches!(kind.as_str(), "tmpfs" | "ramfs").then(|| {
        format!("{path} is in memory ({kind}), where an fsync costs nothing: choose a folder on a disk")
    })
}
