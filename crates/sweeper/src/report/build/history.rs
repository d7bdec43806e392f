//! What people decided, what came in, and what did not fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use earmark_claim::State;
use earmark_claim::state::Verb;

use super::scope::{Key, Scope, about, event_key, money, named};
use crate::report::input::{EventRow, OrphanRow};
use crate::report::model::{Decision, DoneUnsent, Mismatch, Name, Orphan};
use crate::report::untrusted::{Untrusted, shown_key};
use crate::report::words::Moment;

fn is(e: &EventRow, verb: Verb) -> bool {
    e.name == verb.as_str()
}

fn name_of(scope: &Scope<'_>, key: Key<'_>) -> Name {
    named(scope.claim(key).map(|c| &c.reference), key)
}

/// Rulings, and what else a person moved by hand.
pub(super) fn decisions(scope: &Scope<'_>) -> Vec<Decision> {
    let ruling =
        |e: &EventRow| [Verb::RuleDone, Verb::RuleNotDone, Verb::RuleRepeat].iter().any(|v| is(e, *v));
    let by_hand = |e: &EventRow| e.actor.is_some() && (is(e, Verb::Escalate) || is(e, Verb::Cancel));
    let contradictions = contradictions(scope);
    scope
        .in_window()
        .filter(|e| ruling(e) || by_hand(e))
        .map(|e| {
            let key = event_key(e);
            Decision {
                name: name_of(scope, key),
                amount: scope.claim(key).and_then(money),
                at: Moment(e.at),
                who: e.actor.clone(),
                what: Untrusted::from(e.name.as_str()),
                reason: e.detail.reason.clone(),
                before: e.from_state,
                after: e.to_state,
                contradicted_since: contradictions.get(&key).is_some_and(|last| (e.at, e.seq) < *last),
            }
        })
        .collect()
}

/// The last contradiction of each claim: events are in order of time.
fn contradictions<'a>(scope: &Scope<'a>) -> BTreeMap<Key<'a>, (earmark_claim::Timestamp, u64)> {
    let contradicted = scope.events.iter().filter(|e| is(e, Verb::Contradict));
    contradicted.map(|e| (event_key(e), (e.at, e.seq))).collect()
}

/// Another id of the provider that a contradiction has brought, by claim.
pub(super) fn conflicting_refs<'a>(scope: &Scope<'a>) -> BTreeMap<Key<'a>, &'a Untrusted> {
    let contradicted = scope.events.iter().filter(|e| is(e, Verb::Contradict));
    contradicted.filter_map(|e| Some((event_key(e), e.provider_ref.as_ref()?))).collect()
}

/// Evidence that a held claim was done: somebody else did it, or the evidence is wrong.
pub(super) fn done_unsent(scope: &Scope<'_>) -> Vec<DoneUnsent> {
    scope
        .in_window()
        .filter(|e| is(e, Verb::EvidenceDone) && e.from_state == State::Held)
        .map(|e| {
            let key = event_key(e);
            DoneUnsent {
                name: name_of(scope, key),
                about: scope.claim(key).map(about),
                at: Moment(e.at),
                provider_ref: e.provider_ref.clone(),
                actor: e.actor.clone(),
            }
        })
        .collect()
}

/// Mismatches of the window, and of claims that are open: one line a claim and other request.
pub(super) fn mismatches(scope: &Scope<'_>) -> Vec<Mismatch> {
    let mut lines: BTreeMap<(Key<'_>, Option<&Untrusted>), Mismatch> = BTreeMap::new();
    for e in scope.events.iter().filter(|e| is(e, Verb::Mismatch)) {
        let key = event_key(e);
        let claim = scope.claim(key);
        let open = claim.is_some_and(|c| !c.state.is_terminal());
        if !scope.window.holds(e.at) && !(open && e.at < scope.window.to) {
            continue;
        }
        let line = lines.entry((key, e.detail.fingerprint.as_ref())).or_insert_with(|| Mismatch {
            name: name_of(scope, key),
            state: claim.map_or(e.to_state, |c| c.state),
            count: 0,
            first: Moment(e.at),
            last: Moment(e.at),
            on_file: claim.map(|c| hex(&c.fingerprint)),
            other: e.detail.fingerprint.clone(),
        });
        line.count += 1;
        line.last = Moment(e.at);
    }
    lines.into_values().collect()
}

/// Each in the one window in which it came in.
pub(super) fn orphans(scope: &Scope<'_>) -> Vec<Orphan> {
    scope.orphans.iter().filter(|o| scope.window.holds(o.at)).map(|o| orphan(o)).collect()
}

fn orphan(o: &OrphanRow) -> Orphan {
    let part = |part: &Option<Untrusted>| part.as_ref().map_or(String::new(), |p| p.raw().to_owned());
    let some = o.tenant.is_some() || o.consumer.is_some() || o.message_id.is_some();
    Orphan {
        id: o.id.clone(),
        at: Moment(o.at),
        source: o.source.clone(),
        finding: o.finding.clone(),
        key: some.then(|| shown_key(&part(&o.tenant), &part(&o.consumer), &part(&o.message_id))),
        reference: o.reference.clone(),
        idempotency_key: o.idempotency_key.clone(),
        provider_ref: o.provider_ref.clone(),
        adopted: o.adopted_at.map(Moment),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
