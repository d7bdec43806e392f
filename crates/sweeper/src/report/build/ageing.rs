//! How old the open claims are, what they wait for, and who does not come.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_claim::State;

use super::Options;
use super::scope::Scope;
use crate::report::clocks::age_from;
use crate::report::model::{AgeRow, NoHandler, StateTally, Tally, Waiting};
use crate::report::words::Moment;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The buckets and where each ends.
const BUCKETS: [(&str, u64); 8] = [
    ("0–1 h", HOUR),
    ("1–4 h", 4 * HOUR),
    ("4–12 h", 12 * HOUR),
    ("12–24 h", DAY),
    ("1–2 d", 2 * DAY),
    ("2–3 d", 3 * DAY),
    ("3–7 d", 7 * DAY),
    ("> 7 d", u64::MAX),
];

/// Every open claim, whenever it was made: a window would hide the oldest.
pub(super) fn ageing(scope: &Scope<'_>) -> Vec<AgeRow> {
    let mut rows = BUCKETS.map(|(bucket, _)| (bucket, BTreeMap::<State, Tally>::new(), Tally::default()));
    for c in scope.open() {
        let age = scope.as_of.since(age_from(c));
        let at = BUCKETS.iter().position(|(_, end)| age < Duration::from_secs(*end)).unwrap_or(7);
        rows[at].1.entry(c.state).or_default().add(c);
        rows[at].2.add(c);
    }
    let row = |(bucket, by_state, total): (_, BTreeMap<_, _>, _)| AgeRow {
        bucket,
        by_state: by_state.into_iter().map(|(state, tally)| StateTally { state, tally }).collect(),
        total,
    };
    rows.into_iter().map(row).collect()
}

/// Open claims that no person has to look at.
pub(super) fn waiting(scope: &Scope<'_>) -> Vec<Waiting> {
    let mut by_state: BTreeMap<State, Waiting> = BTreeMap::new();
    for c in scope.open().filter(|c| c.state != State::Escalated) {
        let age = Moment(age_from(c));
        let due = c.due_at.map(Moment);
        let line = by_state.entry(c.state).or_insert_with(|| Waiting {
            state: c.state,
            tally: Tally::default(),
            due_now: 0,
            oldest: age,
            next_due: due,
        });
        line.tally.add(c);
        line.oldest = line.oldest.min(age);
        line.next_due = [line.next_due, due].into_iter().flatten().min();
        line.due_now += u64::from(due.is_some_and(|due| due.0 <= scope.as_of));
    }
    by_state.into_values().collect()
}

/// Due for longer than a sweep may take to come by.
pub(super) fn no_handler(scope: &Scope<'_>, options: &Options) -> Vec<NoHandler> {
    let long_ago = scope.as_of.minus(options.orphan_after);
    let mut groups: BTreeMap<_, NoHandler> = BTreeMap::new();
    for c in scope.open() {
        let Some(due) = c.due_at.filter(|due| *due < long_ago) else { continue };
        let line = groups.entry((&c.consumer, &c.kind, &c.form, c.state)).or_insert_with(|| NoHandler {
            consumer: c.consumer.clone(),
            kind: c.kind.clone(),
            form: c.form.clone(),
            state: c.state,
            tally: Tally::default(),
            due_since: Moment(due),
        });
        line.tally.add(c);
        line.due_since = line.due_since.min(Moment(due));
    }
    groups.into_values().collect()
}
