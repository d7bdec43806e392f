//! The documents say what the code does.

use std::collections::BTreeSet;

use crate::kit::Place;

const TELEMETRY: &str = include_str!("../../../../docs/telemetry.md");
const RUNBOOK: &str = include_str!("../../../../docs/runbook.md");

#[test]
fn every_metric_is_in_the_table_and_no_other() {
    let sources = [include_str!("../../src/telemetry.rs"), include_str!("../../../effects/src/telemetry.rs")];
    let constants = |source: &'static str| source.lines().filter(|line| line.starts_with("pub const"));
    let in_code: BTreeSet<&str> =
        sources.into_iter().flat_map(constants).filter_map(|line| line.split('"').nth(1)).collect();
    let rows = TELEMETRY.lines().filter_map(|line| line.strip_prefix("| `earmark_"));
    let in_table: BTreeSet<String> =
        rows.map(|row| format!("earmark_{}", row.split('`').next().unwrap())).collect();
    assert!(in_code.len() > 10);
    assert_eq!(in_code, in_table.iter().map(String::as_str).collect());
}

#[test]
fn every_alert_has_its_page() {
    let anchors: BTreeSet<String> = RUNBOOK
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    let links: Vec<&str> =
        TELEMETRY.split("runbook.md#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 5);
    for link in links {
        assert!(anchors.contains(link), "{link} in {anchors:?}");
    }
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help = Place::empty().run(&["--help"]).out;
    let table = help.split("Exit codes:").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut lines = 0;
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (code, words) = line.split_once("  ").unwrap();
        assert!(RUNBOOK.contains(&format!("| {code} | {} |", words.trim())), "{line}");
        lines += 1;
    }
    assert_eq!(lines, 7);
}
