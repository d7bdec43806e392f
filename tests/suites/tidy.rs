//! The law of the house, as tests: sizes, words, arrows between crates, clocks, links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// No file is longer; one that would be has a seam somewhere.
const LINES_MAX: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every file that belongs to the project, by its path from the root; what git ignores does not.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let found: Vec<_> = names
        .lines()
        .filter(|name| endings.iter().any(|e| name.ends_with(e)))
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    assert!(!found.is_empty(), "no file ends with {endings:?}");
    found
}

#[test]
fn files_stay_small_enough_to_be_read_top_down() {
    let long: Vec<_> = files(&[".rs"])
        .into_iter()
        .filter_map(|(name, text)| Some((text.lines().count(), name)).filter(|(n, _)| *n > LINES_MAX))
        .collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:?}");
}

#[test]
fn the_projects_words_are_used_and_no_promise_is_made_that_nobody_can_keep() {
    // Written apart, so that this file does not find itself.
    let exactly_once = ["exactly", "once"].join(" ");
    let two_phase_commit = ["two-phase", "commit"].join(" ");
    for (name, text) in files(&[".rs", ".md", ".toml", ".sql"]) {
        for (n, line) in text.lines().enumerate() {
            let lower = line.to_lowercase().replace('-', " ");
            let at = format!("{name}:{}: {line}", n + 1);
            assert!(!lower.contains(&exactly_once), "at most one start per claim is what is promised: {at}");
            assert!(!lower.contains(&two_phase_commit.replace('-', " ")), "claim and settle: {at}");
        }
    }
}

/// Which crate may use which of ours: everything else is refused.
#[test]
fn arrows_between_crates_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("crates/claim/Cargo.toml", &[][..]),
        ("migrations/Cargo.toml", &[]),
        ("crates/effects/Cargo.toml", &["earmark-claim"]),
        ("crates/sweeper/Cargo.toml", &["earmark-claim", "earmark-effects", "earmark-migrations"]),
    ]);
    for (manifest, allowed) in allowed {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        let after = text.split("\n[dependencies]").nth(1).expect("it has dependencies");
        let section = after.split("\n[").next().expect("a section");
        for line in section.lines() {
            if let Some(name) = line.split(['.', ' ', '=']).next().filter(|n| n.starts_with("earmark-")) {
                assert!(allowed.contains(&name), "{manifest} may not use {name}");
            }
        }
    }
}

/// Only the places that must show or compare wall-clock time read the host's: deadlines use the database's clock or a monotonic one.
#[test]
fn no_deadline_reads_the_hosts_wall_clock() {
    // Retry-After dates of answers without a Date header, when cron should strike, a Prometheus timestamp, and the commands that
    // people run.
    let may = [
        "crates/effects/src/http/seen.rs",
        "crates/sweeper/src/schedule.rs",
        "crates/sweeper/src/telemetry.rs",
        "crates/sweeper/src/cli",
        "crates/sweeper/src/demo",
    ];
    for (name, text) in files(&[".rs"]) {
        let production = (name.starts_with("crates/") || name.starts_with("migrations/"))
            && name.contains("/src/")
            && !may.iter().any(|m| name.starts_with(m));
        if production {
            for call in ["SystemTime::now", "Utc::now", "Local::now"] {
                assert!(!text.contains(call), "{name} reads the host's clock: {call}");
            }
        }
    }
}

#[test]
fn only_the_stores_modules_know_sql() {
    for (name, text) in files(&[".rs"]) {
        let knows = name.starts_with("crates/claim/src/store/") || name.starts_with("migrations/src/");
        let production = name.starts_with("crates/") && name.contains("/src/") && !name.contains("/demo");
        if production && !knows {
            for word in ["INSERT INTO", "UPDATE earmark", "DELETE FROM", "SELECT tenant"] {
                assert!(!text.contains(word), "{name} holds SQL: {word}");
            }
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for (name, text) in files(&[".md"]) {
        let folder = root().join(&name).parent().expect("a folder").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty()
                || target.contains("://")
                || target.starts_with("mailto:")
                || target.contains(' ')
            {
                continue;
            }
            assert!(folder.join(target).exists(), "{name} links to {target}, which is not there");
        }
    }
}
