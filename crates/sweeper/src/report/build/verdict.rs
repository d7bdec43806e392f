//! The one line that many will read.

use earmark_claim::State;

use super::scope::Scope;
use crate::report::clocks::effect_unknown;
use crate::report::model::{Fault, Item, Tally, Verdict};
use crate::report::words::{count, many, span};

pub(super) fn verdict(scope: &Scope<'_>, items: &[Item], faults: &[Fault]) -> Verdict {
    let of = scope.counted().count() as u64;
    let need = Tally::of(scope.open().filter(|c| c.state == State::Escalated));
    let in_doubt = Tally::of(scope.open().filter(|c| effect_unknown(c, scope.as_of)));
    let oldest = items.iter().map(|item| item.age_secs).max();
    let next = items.iter().filter_map(|item| item.deadline).map(|d| d.at).min();

    let mut parts = vec![match need.claims {
        0 => format!("No claim of {} needs a person", count(of)),
        n => format!(
            "{} of {} need{} a person",
            count(n),
            many(of, "claim", "claims"),
            if n == 1 { "s" } else { "" }
        ),
    }];
    parts.push(match in_doubt.claims {
        0 => "nothing is in doubt".into(),
        _ => format!("in doubt: {}", in_doubt.text()),
    });
    if let Some(secs) = oldest {
        let age = span(std::time::Duration::from_secs(secs));
        let which = if need.claims == 1 { "it" } else { "the oldest" };
        parts.push(format!("{which} is {age} old"));
    }
    match next {
        Some(at) => parts.push(format!("the next deadline is {}", at.text())),
        None if need.claims > 0 => parts.push("no deadline is running".into()),
        None => {}
    }
    if faults.iter().any(|fault| fault.code == "roll_forward") {
        parts.push("the numbers do not balance".into());
    }
    Verdict {
        sentence: format!("{}.", parts.join("; ")),
        need_a_person: need,
        of,
        in_doubt,
        oldest_age_secs: oldest,
        next_deadline: next,
    }
}

impl Tally {
    /// `EUR 1,240.00, JPY 5,800 and 2 without an amount`.
    pub(crate) fn text(&self) -> String {
        let mut parts: Vec<String> = self.amounts.each().map(|money| money.text()).collect();
        if self.without_amount > 0 || parts.is_empty() {
            parts.push(match self.without_amount {
                1 if parts.is_empty() => "1 claim without an amount".into(),
                n if parts.is_empty() => format!("{} claims without an amount", count(n)),
                n => format!("{} without an amount", count(n)),
            });
        }
        match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.concat(),
        }
    }
}
