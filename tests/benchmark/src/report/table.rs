//! The table.

use std::fmt::Write;
use std::io::IsTerminal;

use crate::args::{Database, Plan};
use crate::load::Quantiles;
use crate::pgbench;
use crate::results::{Line, Results, by_hand, one_process, one_read};
use crate::rounds::Run;
use crate::systems::System;

/// The table of the systems, with what it was measured on above it.
pub fn main(run: &Run<'_>, head: &[String]) -> String {
    let Run { plan, results, .. } = run;
    let mut out = String::new();
    for line in head {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(
        out,
        "Medians of {} rounds of {} s in turn, [least to most] of the throughput; latencies in ms. `ratio`: the throughput\n\
         against hand-written, the median over the pairs.",
        plan.pairs, plan.seconds
    );
    for database in &plan.databases {
        section(&mut out, database.name(), "ratio", &results.lines(*database, by_hand));
    }
    against_the_ceiling(&mut out, plan, results);
    for failure in &results.failures {
        let _ = writeln!(out, "not measured: {failure}");
    }
    out
}

/// What is measured beside the table.
pub fn extras(run: &Run<'_>) -> String {
    let mut out = String::new();
    for database in &run.plan.databases {
        let title = format!("{}: duplicates of finished messages, answers/s", database.name());
        section(&mut out, &title, "/ read", &run.duplicates.lines(*database, one_read));
        let title = format!("{}: one load by several processes", database.name());
        section(&mut out, &title, "/ one", &run.processes.lines(*database, one_process));
    }
    out
}

fn section(out: &mut String, title: &str, ratio: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    heading(out, title);
    columns(out, ratio);
    lines.iter().for_each(|line| row(out, line));
}

fn against_the_ceiling(out: &mut String, plan: &Plan, results: &Results) {
    let ceiling = (System::PgbenchBatched, pgbench::CLIENTS);
    for tasks in &plan.tasks {
        if let Some(ratio) = results.ratio(Database::Postgres, (System::Earmark, *tasks), ceiling) {
            let _ = writeln!(out, "earmark at {tasks} tasks against pgbench-batched: {ratio:.2}");
        }
    }
}

fn heading(out: &mut String, text: &str) {
    let (on, off) = if colours() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let _ = writeln!(out, "\n{on}{text}{off}");
}

/// Only for a person, and not against their wish (<https://no-color.org>).
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn columns(out: &mut String, ratio: &str) {
    let _ = writeln!(
        out,
        "{:>5}  {:<17} {:>9} {:>17}  {:>15}  {:>15} {:>8} {:>9} {:>7}",
        "tasks",
        "system",
        "effects/s",
        "[min to max]",
        "claim p50/p99",
        "settle p50/p99",
        "commits",
        "client us",
        ratio
    );
}

fn row(out: &mut String, line: &Line) {
    let m = &line.median;
    let or_dash = |x: Option<f64>, digits: usize| x.map_or("-".to_owned(), |x| format!("{x:.digits$}"));
    let name = match line.processes {
        1 => line.system.name().to_owned(),
        n => format!("{} x {n}", line.system.name()),
    };
    let _ = writeln!(
        out,
        "{:>5}  {:<17} {:>9.0} {:>17}  {:>15}  {:>15} {:>8} {:>9} {:>7}",
        line.tasks,
        name,
        m.effects_per_s,
        format!("[{:.0} to {:.0}]", line.min, line.max),
        latency(m.claim),
        latency(m.settle),
        or_dash(m.commits_per_effect, 3),
        or_dash(m.client_us_per_effect, 0),
        or_dash(line.ratio, 2),
    );
}

/// In milliseconds.
fn latency(quantiles: Option<Quantiles>) -> String {
    quantiles.map_or("-".to_owned(), |q| format!("{:.2}/{:.1}", q.p50_ms, q.p99_ms))
}
