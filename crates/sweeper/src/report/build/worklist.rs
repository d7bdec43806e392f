//! What a person must look at.

use std::collections::BTreeMap;

use earmark_claim::{RepeatSafety, State};

use super::Options;
use super::history::conflicting_refs;
use super::rulings::rulings;
use super::scope::{Scope, about, claim_key, name};
use crate::report::clocks::{self, age_from};
use crate::report::input::ClaimRow;
use crate::report::model::{Cause, Item, PerhapsTwice, Tally};
use crate::report::untrusted::Untrusted;
use crate::report::words::{Moment, many};

/// Contradicted first, then by deadline: the oldest claim is not always the one that cannot wait.
pub(super) fn needs_a_person(scope: &Scope<'_>, options: &Options) -> Vec<Item> {
    let conflicting = conflicting_refs(scope);
    let mut items: Vec<Item> = scope
        .open()
        .filter(|c| c.state == State::Escalated)
        .map(|c| item(scope, c, options, conflicting.get(&claim_key(c)).copied()))
        .collect();
    // The claims come by key, and the sort is stable: equal items stay in one order.
    items.sort_by_key(|i| {
        let deadline = i.deadline.map(|d| d.at);
        (!i.contradicted, deadline.is_none(), deadline, i.age_from)
    });
    items
}

fn item(scope: &Scope<'_>, c: &ClaimRow, options: &Options, conflicting: Option<&Untrusted>) -> Item {
    let repeat = clocks::repeat(c, scope.as_of, options.margin);
    Item {
        name: name(c),
        about: about(c),
        situation: situation(c),
        age_from: Moment(age_from(c)),
        age_secs: scope.as_of.since(age_from(c)).as_secs(),
        state: c.state,
        doubt: c.doubt,
        contradicted: c.contradicted,
        attempts: c.attempts,
        last_end: c.last_end_at.map(Moment),
        error_class: c.error_class.clone(),
        provider_ref: c.provider_ref.clone(),
        conflicting_ref: conflicting.filter(|id| Some(*id) != c.provider_ref.as_ref()).cloned(),
        idempotency_key: c.idempotency_key.clone(),
        deadline: clocks::deadline(c, &repeat, scope.as_of),
        fence: c.fence,
        revision: c.revision,
        rulings: rulings(c, &repeat, scope.as_of),
        repeat,
    }
}

fn situation(c: &ClaimRow) -> String {
    let attempts = match c.attempts {
        0 => "no attempt of ours is on file as sent".into(),
        n => format!("{} may have reached the provider", many(u64::from(n), "attempt", "attempts")),
    };
    if c.contradicted {
        format!("The evidence conflicts: {attempts}.")
    } else if c.doubt {
        format!("It may have happened and nobody knows: {attempts}.")
    } else {
        "Nothing happened in any attempt, and it will not be tried again without a person: attempts or age are used up, \
         or no retry can mend it."
            .into()
    }
}

/// One line for what failed in one way at one provider: a storm is one cause.
pub(super) fn causes(scope: &Scope<'_>) -> Vec<Cause> {
    let mut causes: BTreeMap<_, Cause> = BTreeMap::new();
    for c in scope.open().filter(|c| c.state == State::Escalated) {
        let age = Moment(age_from(c));
        let cause = causes.entry((&c.downstream, &c.kind, &c.error_class)).or_insert_with(|| Cause {
            downstream: c.downstream.clone(),
            kind: c.kind.clone(),
            error_class: c.error_class.clone(),
            tally: Tally::default(),
            contradicted: 0,
            oldest: age,
            newest: age,
        });
        cause.tally.add(c);
        cause.contradicted += u64::from(c.contradicted);
        cause.oldest = cause.oldest.min(age);
        cause.newest = cause.newest.max(age);
    }
    let mut causes: Vec<Cause> = causes.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.tally.claims));
    causes
}

/// Confirmed, but a second effect cannot be excluded: every such row that was read.
pub(super) fn perhaps_twice(scope: &Scope<'_>) -> Vec<PerhapsTwice> {
    let twice = scope.claims.iter().filter(|c| clocks::perhaps_twice(c));
    twice
        .map(|c| PerhapsTwice {
            name: name(c),
            about: about(c),
            attempts: c.attempts,
            window_end: clocks::window_end(c).map(Moment),
            last_end: c.last_end_at.map(Moment),
            closed: c.closed_at.map(Moment),
            closed_by: c.closed_by.map(|by| by.as_str()),
            provider_ref: c.provider_ref.clone(),
            why: match c.repeat {
                RepeatSafety::Keyed { .. } => "the newest attempt ended after the key window".into(),
                _ => "the provider does not deduplicate".into(),
            },
        })
        .collect()
}
