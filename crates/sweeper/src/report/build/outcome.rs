//! What became of the claims, by consumer, kind and downstream.

use std::collections::BTreeMap;

use earmark_claim::State;
use earmark_claim::state::ClosedBy;

use super::scope::Scope;
use crate::report::input::ClaimRow;
use crate::report::model::{Confirmed, Outcome, StateCount, WhyCount};

#[derive(Default)]
struct Group {
    outcome: Outcome,
    abandoned: BTreeMap<&'static str, u64>,
    open: BTreeMap<State, u64>,
}

pub(super) fn outcomes(scope: &Scope<'_>) -> Vec<Outcome> {
    let mut groups: BTreeMap<_, Group> = BTreeMap::new();
    for c in scope.counted() {
        groups.entry((&c.consumer, &c.kind, &c.downstream)).or_default().add(c);
    }
    let line = |((consumer, kind, downstream), group): ((&_, &_, &_), Group)| Outcome {
        consumer: Clone::clone(consumer),
        kind: Clone::clone(kind),
        downstream: Clone::clone(downstream),
        abandoned: group.abandoned.into_iter().map(|(why, claims)| WhyCount { why, claims }).collect(),
        open: group.open.into_iter().map(|(state, claims)| StateCount { state, claims }).collect(),
        ..group.outcome
    };
    groups.into_iter().map(line).collect()
}

impl Group {
    fn add(&mut self, c: &ClaimRow) {
        self.outcome.all.add(c);
        match c.state {
            State::Confirmed => self.outcome.confirmed.add(c),
            State::Abandoned => *self.abandoned.entry(why(c)).or_default() += 1,
            state => *self.open.entry(state).or_default() += 1,
        }
        let Some(amount) = &c.amount else { return };
        let minor = i128::from(amount.minor);
        match c.state {
            State::Confirmed => self.outcome.confirmed_amounts.add(&amount.currency, minor),
            State::Abandoned => {}
            _ => self.outcome.open_amounts.add(&amount.currency, minor),
        }
    }
}

impl Confirmed {
    fn add(&mut self, c: &ClaimRow) {
        match c.closed_by {
            // More than one taking: the answer did not come at once.
            Some(ClosedBy::Answer) if c.fence > 1 => self.after_retries += 1,
            Some(ClosedBy::Answer) => self.first_attempt += 1,
            Some(ClosedBy::Probe) => self.probe += 1,
            Some(ClosedBy::Ruling) => self.ruling += 1,
            // The rest is no way to be confirmed; the database refuses such rows.
            Some(ClosedBy::Evidence | ClosedBy::Refused | ClosedBy::Cancelled | ClosedBy::Expired) | None => {
                self.evidence += 1;
            }
        }
    }
}

fn why(c: &ClaimRow) -> &'static str {
    c.closed_by.map_or("not on file", ClosedBy::as_str)
}
