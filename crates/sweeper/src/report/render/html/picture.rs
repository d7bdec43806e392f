//! Two pictures, since a person would rather look than read: what became of the claims, and how old the open ones
//! are. Inline SVG in black, white and patterns; every number also stands in a table.

use earmark_claim::State;

use super::writer::Html;
use crate::report::model::{AgeRow, Report};
use crate::report::words::{count, spaced};

const BAR: u64 = 300;
const LABEL: u64 = 116;
const STEP: u64 = 24;
/// One claim among a hundred thousand must still show.
const NARROWEST: u64 = 4;

/// A bar: its label, its parts by pattern, and what is written behind it.
struct Bar {
    label: String,
    parts: Vec<(u64, &'static str)>,
    behind: String,
}

pub(super) fn pictures(h: &mut Html, report: &Report) {
    h.open("section", &[("class", "pictures")]);
    picture(h, "What became of the claims", &outcome_bars(report), &[]);
    let legend = [("act", "needs a person"), ("doubt", "in doubt"), ("wait", "other open claims")];
    picture(h, "Age of the open claims", &age_bars(report), &legend);
    h.close("section");
}

fn outcome_bars(report: &Report) -> Vec<Bar> {
    let outcomes = &report.outcomes;
    let open = |wanted: State| -> u64 {
        let counts = outcomes.iter().flat_map(|o| &o.open);
        counts.filter(|s| s.state == wanted).map(|s| s.claims).sum()
    };
    let bar = |label: &str, n: u64, pattern| Bar {
        label: label.into(),
        parts: vec![(n, pattern)],
        behind: count(n),
    };
    let states = [State::Held, State::InFlight, State::Retryable];
    let mut bars = vec![
        bar("confirmed", outcomes.iter().map(|o| o.confirmed.total()).sum(), "done"),
        bar("abandoned", outcomes.iter().flat_map(|o| &o.abandoned).map(|a| a.claims).sum(), "gone"),
    ];
    bars.extend(states.map(|state| bar(&spaced(state.as_str()), open(state), "wait")));
    bars.push(bar("in doubt", open(State::InDoubt), "doubt"));
    bars.push(bar("needs a person", open(State::Escalated), "act"));
    bars
}

fn age_bars(report: &Report) -> Vec<Bar> {
    report.ageing.iter().map(age_bar).collect()
}

fn age_bar(row: &AgeRow) -> Bar {
    let of = |wanted: &dyn Fn(State) -> bool| -> u64 {
        row.by_state.iter().filter(|s| wanted(s.state)).map(|s| s.tally.claims).sum()
    };
    Bar {
        label: row.bucket.into(),
        parts: vec![
            (of(&|s| s == State::Escalated), "act"),
            (of(&|s| s == State::InDoubt), "doubt"),
            (of(&|s| !matches!(s, State::Escalated | State::InDoubt)), "wait"),
        ],
        behind: count(row.total.claims),
    }
}

fn picture(h: &mut Html, title: &str, bars: &[Bar], legend: &[(&'static str, &str)]) {
    let greatest = bars.iter().map(|b| b.parts.iter().map(|p| p.0).sum::<u64>()).max().unwrap_or(0).max(1);
    let height = STEP * bars.len() as u64 + if legend.is_empty() { 4 } else { STEP + 4 };
    h.open("figure", &[]);
    h.element("figcaption", &[], title);
    let view = format!("0 0 {} {height}", LABEL + BAR + 70);
    h.open("svg", &[("viewBox", &view), ("role", "img"), ("aria-label", title)]);
    patterns(h);
    for (at, bar) in bars.iter().enumerate() {
        let y = STEP * at as u64;
        label(h, LABEL - 8, y, "end", &bar.label);
        let mut x = LABEL;
        for (n, pattern) in &bar.parts {
            x += block(h, x, y, share(*n, greatest), pattern);
        }
        label(h, x + 6, y, "start", &bar.behind);
    }
    let mut x = 0;
    for (pattern, words) in legend {
        let y = STEP * bars.len() as u64 + 4;
        block(h, x, y, 14, pattern);
        label(h, x + 20, y, "start", words);
        x += 150;
    }
    h.close("svg");
    h.close("figure");
}

fn share(n: u64, of: u64) -> u64 {
    match n {
        0 => 0,
        n => (u128::from(n) * u128::from(BAR) / u128::from(of)).try_into().unwrap_or(BAR).max(NARROWEST),
    }
}

fn block(h: &mut Html, x: u64, y: u64, width: u64, pattern: &str) -> u64 {
    if width > 0 {
        let (x, y, width) = (x.to_string(), (y + 4).to_string(), width.to_string());
        h.open("rect", &[("x", &x), ("y", &y), ("width", &width), ("height", "14"), ("class", pattern)]);
        h.close("rect");
    }
    width
}

fn label(h: &mut Html, x: u64, y: u64, anchor: &str, text: &str) {
    let (x, y) = (x.to_string(), (y + 16).to_string());
    h.element("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], text);
}

/// Hatching for what is not solid, so that it can be told apart without colour. The names are used in both pictures;
/// the first definition in the document counts, and both are the same.
fn patterns(h: &mut Html) {
    h.open("defs", &[]);
    for (id, line) in [("hatch", "M0,6 L6,0"), ("dots", "M2,2 h1.5 v1.5 h-1.5 z")] {
        h.open("pattern", &[("id", id), ("width", "6"), ("height", "6"), ("patternUnits", "userSpaceOnUse")]);
        h.open("rect", &[("width", "6"), ("height", "6"), ("fill", "#fff")]);
        h.close("rect");
        h.open("path", &[("d", line), ("stroke", "#222"), ("stroke-width", "1"), ("fill", "none")]);
        h.close("path");
        h.close("pattern");
    }
    h.close("defs");
}
