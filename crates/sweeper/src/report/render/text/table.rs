//! Tables that fit.

use super::layout::{WIDTH, columns, wrapped};
use super::plain;
use crate::report::render::page::{Head, Runs, Table};

const GAP: usize = 2;
/// A word up to this long is not broken: a moment has 20 characters, a reference 16.
const UNBROKEN: usize = 20;

pub(super) fn lines(table: &Table) -> Vec<String> {
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(plain_cell).collect()).collect();
    let widths = widths(&table.heads, &rows);
    let heads: Vec<String> = table.heads.iter().map(|head| head.text.to_owned()).collect();
    let rule = widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join(&" ".repeat(GAP));
    let mut out = laid_out(&table.heads, &widths, &heads);
    out.push(rule);
    for (at, row) in rows.iter().enumerate() {
        let cells = laid_out(&table.heads, &widths, row);
        // Rows of several lines run into each other without a gap.
        let apart = at > 0 && (cells.len() > 1 || rows[at - 1].iter().any(|cell| cell.contains('\n')));
        if apart {
            out.push(String::new());
        }
        out.extend(cells);
    }
    out
}

fn plain_cell(runs: &Runs) -> String {
    plain(runs)
}

/// As wide as the widest line; where that is too much, the widest column gives way: first where words can be broken at
/// spaces and ids anywhere, then numbers, then whatever is left.
fn widths(heads: &[Head], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |text: &str| text.split('\n').map(columns).max().unwrap_or(0);
    let longest_word = |text: &str| text.split([' ', '\n']).map(columns).max().unwrap_or(0);
    let of = |at: usize, measure: &dyn Fn(&str) -> usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| measure(cell)).max().unwrap_or(0)
    };
    let columns_at = || 0..heads.len();
    // A head may wrap, its words may not.
    let least: Vec<usize> = columns_at()
        .map(|at| of(at, &longest_word).min(UNBROKEN).max(longest_word(heads[at].text)))
        .collect();
    let mut widths: Vec<usize> = columns_at().map(|at| of(at, &widest).max(least[at])).collect();
    let room = WIDTH - GAP * heads.len().saturating_sub(1);
    while widths.iter().sum::<usize>() > room {
        let can = |at: &usize| widths[*at] > least[*at];
        let gives = columns_at()
            .filter(|at| can(at) && !heads[*at].number)
            .max_by_key(|at| widths[*at])
            .or_else(|| columns_at().filter(can).max_by_key(|at| widths[*at]))
            .or_else(|| columns_at().max_by_key(|at| widths[*at]));
        let Some(at) = gives else { break };
        widths[at] -= 1;
    }
    widths
}

/// One row as lines.
fn laid_out(heads: &[Head], widths: &[usize], cells: &[String]) -> Vec<String> {
    let cells: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| cell.split('\n').flat_map(|line| wrapped(line, *width)).collect())
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let parts = cells.iter().zip(widths).zip(heads).map(|((cell, width), head)| {
                let text = cell.get(at).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(columns(text)));
                if head.number { format!("{pad}{text}") } else { format!("{text}{pad}") }
            });
            parts.collect::<Vec<_>>().join(&" ".repeat(GAP))
        })
        .collect()
}
