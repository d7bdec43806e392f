//! What truly happened: the downstream's ledger against the messages, and against what the claims say.

use std::collections::HashMap;

use earmark_effects::claim::{ClaimView, State};
use earmark_sweeper::report::Sums;

use super::ledger::Effect;
use super::messages::{Message, MessageId};

/// The count of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    pub(super) effects: u64,
    /// Effects beyond the first of their message.
    pub(super) duplicates: u64,
    /// What those charged, beyond what was due.
    pub(super) overcharged: Sums,
    /// Messages without an effect for which nobody is left to see to it.
    pub(super) lost: u64,
    /// Claims that are still open, and are no person's case.
    pub(super) in_doubt: u64,
    /// Claims that a person must rule.
    pub(super) escalated: u64,
}

/// Counts a run under claims, given those of the run; the control has none.
pub(super) fn count(
    messages: &[Message],
    effects: &HashMap<MessageId, Vec<Effect>>,
    claims: Option<&[&ClaimView]>,
) -> Count {
    let mut count = Count::default();
    let states: HashMap<MessageId, State> = claims
        .unwrap_or_default()
        .iter()
        .map(|view| ((view.key.tenant().to_owned(), view.key.message_id().to_owned()), view.facts.state))
        .collect();
    for state in states.values() {
        match state {
            State::Escalated => count.escalated += 1,
            state if !state.is_terminal() => count.in_doubt += 1,
            _ => {}
        }
    }
    for of_message in effects.values() {
        count.effects += of_message.len() as u64;
        for extra in of_message.iter().skip(1) {
            count.duplicates += 1;
            if let (Some(minor), Some(currency)) = (extra.amount_minor, &extra.currency) {
                count.overcharged.add(currency, i128::from(minor));
            }
        }
    }
    for message in messages.iter().filter(|message| !effects.contains_key(&message.id())) {
        // An open claim is not lost: the sweep or a person will see to it.
        let seen_to = states.get(&message.id()).is_some_and(|state| !state.is_terminal());
        count.lost += u64::from(!seen_to);
    }
    count
}
