//! The background: what waits, what came out, how old it is, and what the words mean.

use super::{amounts, listed};
use crate::report::model::{Outcome, Report};
use crate::report::render::page::{
    Body, More, Run, Runs, Section, Table, id, left, lines, number, ours, state_word,
};
use crate::report::words::{Moment, count};

pub(super) fn waiting(report: &Report) -> Section {
    let heads = vec![
        left("state"),
        number("claims"),
        number("amount"),
        number("due now"),
        left("oldest"),
        left("next due"),
    ];
    let body = listed(&report.waiting, "Nothing.", heads, |w| {
        vec![
            vec![Run::State(w.state)],
            vec![ours(count(w.tally.claims))],
            amounts(&w.tally),
            vec![ours(count(w.due_now))],
            vec![ours(w.oldest.text())],
            vec![ours(w.next_due.map_or("–".into(), Moment::text))],
        ]
    });
    Section {
        id: "waiting",
        title: "Waiting for the machine".into(),
        note: "Open claims that no person has to look at: the sweep will.",
        body,
    }
}

pub(super) fn outcomes(report: &Report) -> Section {
    let heads = vec![
        left("consumer, kind, downstream"),
        number("claims"),
        number("amount"),
        left("confirmed"),
        left("abandoned"),
        left("open"),
    ];
    Section {
        id: "outcomes",
        title: "Outcomes".into(),
        note: "Claims that are open, or were at the end of the window, or were created or closed in it; how the confirmed \
               ones are known to have happened, why the others were given up, and what state the open ones are in.",
        body: listed(&report.outcomes, "No claim in the window.", heads, outcome),
    }
}

fn outcome(o: &Outcome) -> Vec<Runs> {
    let c = &o.confirmed;
    let confirmed = [
        (c.first_attempt, "at the first attempt"),
        (c.after_retries, "after retries"),
        (c.probe, "by a probe"),
        (c.evidence, "by evidence"),
        (c.ruling, "by a ruling"),
    ];
    let counted = |n: u64, words: &str| (n > 0).then(|| ours(format!("{} {words}", count(n))));
    vec![
        lines([id(&o.consumer), id(&o.kind), id(&o.downstream)]),
        vec![ours(count(o.all.claims))],
        amounts(&o.all),
        lines(confirmed.into_iter().filter_map(|(n, words)| counted(n, words))),
        lines(o.abandoned.iter().filter_map(|a| counted(a.claims, a.why))),
        lines(o.open.iter().filter_map(|s| counted(s.claims, &state_word(s.state)))),
    ]
}

pub(super) fn ageing(report: &Report) -> Section {
    let heads = vec![left("age"), number("claims"), number("amount"), left("by state")];
    let rows = report.ageing.iter().map(|row| {
        let mut by_state = Runs::new();
        for s in &row.by_state {
            if !by_state.is_empty() {
                by_state.push(Run::Break);
            }
            let money: Vec<_> = s.tally.amounts.each().map(|m| m.text()).collect();
            let money = if money.is_empty() { String::new() } else { format!(" ({})", money.join(", ")) };
            by_state.extend([ours(format!("{} ", count(s.tally.claims))), Run::State(s.state), ours(money)]);
        }
        vec![vec![ours(row.bucket)], vec![ours(count(row.total.claims))], amounts(&row.total), by_state]
    });
    Section {
        id: "ageing",
        title: "Ageing of everything open".into(),
        note: "From the first attempt that may have reached the provider, else from the creation; whenever it was made.",
        body: Body::Table(Table { heads, rows: rows.collect(), total_first: false, more: More(0) }),
    }
}

pub(super) fn terms() -> Section {
    Section {
        id: "terms",
        title: "How to read this".into(),
        note: "",
        body: Body::Terms(vec![
            ("held", "claimed, nothing sent"),
            ("in flight", "may have been sent; its holder is believed until its lease ends"),
            ("retryable", "to be tried again: nothing happened, or a person ruled a repeat"),
            (
                "in doubt",
                "it may have happened and nobody knows; the sweep looks or repeats where that is harmless",
            ),
            ("escalated", "a person must rule"),
            ("contradicted", "escalated, and the evidence conflicts: only a ruling ends it"),
            ("confirmed", "known to have happened"),
            ("abandoned", "known not to have happened, and given up"),
            (
                "repeat safe until",
                "until then the provider knows the key, and a repeat is recognised; later it may be a second effect",
            ),
            (
                "not done, and repeat, are ruled from",
                "before that moment a request that was given up may still take effect: \"not found\" proves nothing yet",
            ),
            (
                "amounts",
                "whole minor units, summed per currency only; the machine's JSON has the same digits",
            ),
            ("\\u{…}", "a character that cannot be seen, or that reorders text, shown by its code"),
        ]),
    }
}
