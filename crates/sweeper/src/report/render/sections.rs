//! The report in words and tables, in the order in which it is read: the verdict, then the proof that it is complete,
//! then what needs a person, then what people did, then the background.

mod background;
mod lists;
mod worklist;

use super::LIST_SHOWN_MAX;
use super::page::{Body, Head, More, Page, Run, Runs, Section, Table, id, left, number, ours};
use crate::report::model::{Cell, Flow, Report, Tally};
use crate::report::words::{Moment, count, many, span};

pub(super) fn page(report: &Report) -> Page {
    Page {
        facts: identity(report),
        verdict: report.verdict.sentence.clone(),
        figures: figures(report),
        warnings: warnings(report),
        sections: vec![
            roll_forward(report),
            worklist::causes(report),
            worklist::needs_a_person(report),
            lists::perhaps_twice(report),
            lists::done_unsent(report),
            lists::no_handler(report),
            background::waiting(report),
            lists::mismatches(report),
            lists::orphans(report),
            lists::decisions(report),
            background::outcomes(report),
            background::ageing(report),
            background::terms(),
        ],
    }
}

fn identity(report: &Report) -> Vec<(&'static str, Runs)> {
    let i = &report.identity;
    let mut window = format!("{} to {}", i.from.text(), i.to.text());
    if i.cut {
        window.push_str(" (cut at the moment of reading)");
    }
    vec![
        ("Window", vec![ours(format!("{window}, all times in UTC"))]),
        ("As of", vec![ours(i.as_of.text())]),
        ("Database", vec![id(&i.database)]),
        ("Namespace", vec![id(&i.namespace)]),
        ("Made by", vec![ours(format!("earmark {}, report form {}", i.version, report.schema))]),
    ]
}

fn figures(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let v = &report.verdict;
    let oldest = v.oldest_age_secs.map_or("–".into(), |s| span(std::time::Duration::from_secs(s)));
    vec![
        ("need a person", vec![count(v.need_a_person.claims), format!("of {} claims", count(v.of))]),
        ("in doubt", std::iter::once(count(v.in_doubt.claims)).chain(tally_lines(&v.in_doubt)).collect()),
        ("oldest that needs a person", vec![oldest]),
        ("next deadline", vec![v.next_deadline.map_or("–".into(), Moment::text)]),
    ]
}

/// What must not be buried below: faults of the data, and harm that no list of open claims shows.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.identity.non_durable {
        warnings.push(
            "This database may lose commits that it has acknowledged (allow_non_durable is set). Claims may be missing \
             here, and effects may have been repeated without a trace."
                .to_owned(),
        );
    }
    warnings.extend(report.pauses.iter().map(|p| {
        let since = p.at.text();
        match &p.resumed {
            None => format!(
                "{} is paused since {since} by {}: {}. Nothing is sent there, and its claims wait.",
                p.downstream.exact(),
                p.actor.prose(),
                p.reason.prose()
            ),
            Some(r) => format!(
                "{} was paused from {since} by {} ({}) to {} by {} ({}).",
                p.downstream.exact(),
                p.actor.prose(),
                p.reason.prose(),
                r.at.text(),
                r.actor.prose(),
                r.reason.prose()
            ),
        }
    }));
    warnings.extend(report.faults.iter().map(|fault| fault.words.clone()));
    let unhandled: u64 = report.no_handler.iter().map(|n| n.tally.claims).sum();
    if unhandled > 0 {
        let claims = many(unhandled, "claim is", "claims are");
        warnings.push(format!("{claims} due for long, and nobody has handled them: see \"No handler\"."));
    }
    let twice = report.perhaps_twice.len() as u64;
    if twice > 0 {
        let claims = many(twice, "confirmed claim", "confirmed claims");
        warnings.push(format!("{claims} may have happened twice: see \"Confirmed, perhaps twice\"."));
    }
    warnings
}

fn roll_forward(report: &Report) -> Section {
    let roll = &report.roll_forward;
    let mut rows = vec![flow(ours("all claims"), &roll.all)];
    rows.extend(roll.by_currency.iter().map(|line| {
        let label = line.currency.as_ref().map_or_else(|| ours("no amount"), id);
        flow(label, line)
    }));
    if let Some(since) = &roll.since {
        let cells = [since.created, since.reopened, since.closed, since.open_now];
        let mut row = vec![vec![ours("since the window's end")], vec![]];
        row.extend(cells.map(|n| vec![ours(count(n))]));
        row.push(vec![]);
        rows.push(row);
    }
    let heads = vec![
        left(""),
        number("open at start"),
        number("+ new"),
        number("+ reopened"),
        number("− closed"),
        number("= open at end"),
        number("difference"),
    ];
    Section {
        id: "roll-forward",
        title: format!("Roll-forward: {}", if roll.balanced { "balanced" } else { "DOES NOT BALANCE" }),
        note: "Open claims at the start of the window, and what became of them. Start and end are counted from different \
               columns; a difference other than 0 means that rows contradict each other or are missing.",
        body: Body::Table(Table { heads, rows, total_first: true, more: More(0) }),
    }
}

fn flow(label: Run, flow: &Flow) -> Vec<Runs> {
    let check = cell(&flow.check);
    let bad = flow.check.claims != 0 || flow.check.amount.as_ref().is_some_and(|m| m.minor() != 0);
    let check = if bad { check.into_iter().map(strong).collect() } else { check };
    vec![
        vec![label],
        cell(&flow.opening),
        cell(&flow.new),
        cell(&flow.reopened),
        cell(&flow.closed),
        cell(&flow.closing),
        check,
    ]
}

fn strong(run: Run) -> Run {
    match run {
        Run::Ours(text) => Run::Strong(text),
        other => other,
    }
}

fn cell(cell: &Cell) -> Runs {
    let mut runs = vec![ours(count(cell.claims))];
    if let Some(money) = &cell.amount {
        runs.push(Run::Break);
        // The line names the currency already.
        let text = money.text();
        let digits = money.exponent().and_then(|_| text.split_once(' ')).map(|(_, digits)| digits.to_owned());
        runs.push(ours(digits.unwrap_or_else(|| format!("{} minor units", money.minor()))));
    }
    runs
}

/// The amounts of a tally, one a line.
fn tally_lines(tally: &Tally) -> Vec<String> {
    let mut lines: Vec<String> = tally.amounts.each().map(|money| money.text()).collect();
    if tally.without_amount > 0 && !tally.amounts.is_empty() {
        lines.push(format!("{} without an amount", count(tally.without_amount)));
    }
    lines
}

fn amounts(tally: &Tally) -> Runs {
    super::page::lines(tally_lines(tally).into_iter().map(ours))
}

/// A table of the first rows, or words where there are none.
fn listed<T>(all: &[T], nothing: &'static str, heads: Vec<Head>, row: impl Fn(&T) -> Vec<Runs>) -> Body {
    if all.is_empty() {
        return Body::Nothing(nothing);
    }
    let rows = all.iter().take(LIST_SHOWN_MAX).map(row).collect();
    Body::Table(Table { heads, rows, total_first: false, more: more(all) })
}

fn more<T>(all: &[T]) -> More {
    More(all.len().saturating_sub(LIST_SHOWN_MAX))
}

fn title(words: &str, n: usize) -> String {
    if n == 0 { words.into() } else { format!("{words}: {}", count(n)) }
}
