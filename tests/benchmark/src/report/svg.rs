//! Throughput against tasks, one panel for each database: a small picture without scripts.

use std::fmt::Write;

use crate::args::Database;
use crate::results::{Line, by_hand};
use crate::rounds::Run;
use crate::systems::System;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 44.0;

/// Both axes are logarithmic: a line that goes up with the tasks means that they help.
pub fn draw(run: &Run<'_>) -> String {
    let panels: Vec<(Database, Vec<Line>)> = run
        .plan
        .databases
        .iter()
        .map(|database| (*database, run.results.lines(*database, by_hand)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    let all = || panels.iter().flat_map(|(_, lines)| lines);
    let scale = Scale {
        tasks_max: all().map(|line| line.tasks).max().unwrap_or(2).max(2) as f64,
        least: 10_f64.powf(all().map(|l| l.min).fold(f64::INFINITY, f64::min).max(1.0).log10().floor()),
        most: 10_f64.powf(all().map(|l| l.max).fold(10.0, f64::max).log10().ceil()),
    };
    let width = WIDTH * panels.len().max(1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n<title>Effects per second against tasks</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (number, (database, lines)) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", WIDTH * number as f64);
        panel(&mut out, &scale, *database, lines);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

struct Scale {
    tasks_max: f64,
    least: f64,
    most: f64,
}

impl Scale {
    fn x(&self, tasks: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * tasks.log2() / self.tasks_max.log2()
    }

    fn y(&self, effects_per_s: f64) -> f64 {
        let share = (effects_per_s / self.least).log10() / (self.most / self.least).log10();
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }
}

fn panel(out: &mut String, scale: &Scale, database: Database, lines: &[Line]) {
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"16\" font-weight=\"bold\">{}, effects/s</text>",
        database.name()
    );
    grid(out, scale, lines);
    let systems = System::MAIN.into_iter().filter(|s| lines.iter().any(|line| line.system == *s));
    for (number, system) in systems.enumerate() {
        let mut own: Vec<&Line> = lines.iter().filter(|line| line.system == system).collect();
        own.sort_by_key(|line| line.tasks);
        let (colour, name) = (colour(system), system.name());
        let points: Vec<String> = own
            .iter()
            .map(|l| format!("{:.1},{:.1}", scale.x(l.tasks as f64), scale.y(l.median.effects_per_s)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for line in own {
            let x = scale.x(line.tasks as f64);
            let (y, low, high) = (scale.y(line.median.effects_per_s), scale.y(line.min), scale.y(line.max));
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>\
                 <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\">\
                 <title>{name}, {} tasks: {:.0} effects/s, {:.0} to {:.0}</title></circle>",
                line.tasks, line.median.effects_per_s, line.min, line.max
            );
        }
        let (x, y) = (LEFT + 96.0 * (number % 3) as f64, 32.0 + 14.0 * (number / 3) as f64);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"9\" height=\"9\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{y}\">{name}</text>",
            y - 8.0,
            x + 12.0
        );
    }
}

fn grid(out: &mut String, scale: &Scale, lines: &[Line]) {
    let mut value = scale.least;
    while value <= scale.most * 1.001 {
        let y = scale.y(value);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
        value *= 10.0;
    }
    let mut tasks: Vec<usize> = lines.iter().map(|line| line.tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    for tasks in tasks {
        let x = scale.x(tasks as f64);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tasks}</text>",
            HEIGHT - BOTTOM + 16.0
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">tasks at once</text>",
        HEIGHT - 10.0
    );
}

/// Told apart by people who do not see red or green, too (the palette of Okabe and Ito).
fn colour(system: System) -> &'static str {
    match system {
        System::Earmark => "#0072b2",
        System::HandWritten => "#e69f00",
        System::AgentEffects => "#009e73",
        System::Dbos => "#cc79a7",
        _ => "#666666",
    }
}
