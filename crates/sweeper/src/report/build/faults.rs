//! What is wrong with the rows. A report that hides it is worse than none.

use std::collections::BTreeMap;

use iso_currency::Currency;

use super::scope::{Scope, event_key};
use crate::report::model::{Decision, Fault, RollForward};
use crate::report::untrusted::Untrusted;
use crate::report::words::many;

pub(super) fn faults(scope: &Scope<'_>, roll: &RollForward, decisions: &[Decision]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut found = |code, rows: u64, words: String| {
        if rows > 0 {
            faults.push(Fault { code, words, rows });
        }
    };

    found(
        "roll_forward",
        u64::from(!roll.balanced),
        "The roll-forward does not balance: rows contradict each other, or some were not read. \
         Do not sign this report."
            .into(),
    );
    if let Some(first) = scope.unreadable.first() {
        let rows = scope.unreadable.len() as u64;
        found(
            "unreadable",
            rows,
            format!(
                "{} be read and {} missing in this report; the first: {}. Do not sign it before `earmark doctor` is content.",
                many(rows, "row cannot", "rows cannot"),
                if rows == 1 { "is" } else { "are" },
                first.exact()
            ),
        );
    }
    for (currency, rows) in unknown_currencies(scope) {
        let claims = many(rows, "claim has", "claims have");
        let code = Untrusted::new(currency).exact();
        found(
            "unknown_currency",
            rows,
            format!(
                "{claims} the currency {code}, whose decimals are not known: amounts are shown in minor units."
            ),
        );
    }
    found(
        "claim_twice",
        scope.doubled,
        format!("{} came twice and were counted once.", many(scope.doubled, "claim row", "claim rows")),
    );

    let inferred =
        scope.claims.iter().flat_map(|c| scope.reopenings(c)).filter(|r| r.inferred).count() as u64;
    found(
        "closing_time_unknown",
        inferred,
        format!(
            "The closing that {} undid is not on file; its moment was inferred.",
            many(inferred, "reopening", "reopenings")
        ),
    );

    let strays = scope.events.iter().filter(|e| {
        let reopens = e.from_state.is_terminal() && !e.to_state.is_terminal();
        reopens && scope.claim(event_key(e)).is_none()
    });
    let strays = strays.count() as u64;
    found(
        "claim_missing",
        strays,
        format!(
            "{} of claims that were not read: were rows deleted?",
            many(strays, "reopening", "reopenings")
        ),
    );

    let unsigned = decisions.iter().filter(|d| d.who.is_none()).count() as u64;
    found(
        "decision_unsigned",
        unsigned,
        format!("{} without a name on file.", many(unsigned, "decision", "decisions")),
    );

    let late = scope.claims.iter().filter(|c| c.created_at > scope.as_of).count() as u64;
    found(
        "from_the_future",
        late,
        format!(
            "{} created after the moment of this report: the database's clock was set back.",
            many(late, "claim was", "claims were")
        ),
    );
    faults
}

fn unknown_currencies<'a>(scope: &Scope<'a>) -> BTreeMap<&'a str, u64> {
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for amount in scope.claims.iter().filter_map(|c| c.amount.as_ref()) {
        if Currency::from_code(&amount.currency).and_then(Currency::exponent).is_none() {
            *unknown.entry(&amount.currency).or_default() += 1;
        }
    }
    unknown
}
