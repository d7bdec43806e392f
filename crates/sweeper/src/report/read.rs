//! From what the claim crate read to what a report is built from.

use std::time::Duration;

use earmark_claim::{ClaimKey, ClaimView, EventView, OrphanView, Pause, Snapshot};

use super::clocks;
use super::input::{Amount, ClaimRow, EventDetail, EventRow, Input, OrphanRow, PauseRow, Scope, Window};
use super::model::{Deadline, Repeat};
use super::untrusted::Untrusted;

/// The rows of a snapshot that began with `window.from`.
pub fn input(snapshot: &Snapshot, window: Window, scope: Scope) -> Input {
    Input {
        as_of: snapshot.as_of,
        window,
        scope,
        claims: snapshot.claims.iter().map(claim).collect(),
        events: snapshot.events.iter().map(|(key, e)| event(key, e)).collect(),
        orphans: snapshot.orphans.iter().map(orphan).collect(),
        pauses: snapshot.pauses.iter().map(pause).collect(),
        unreadable: snapshot.unreadable.iter().map(|row| Untrusted::from(row.as_str())).collect(),
    }
}

/// What a repeat of a claim would be, and the nearest moment after which less can be done.
pub fn clock(view: &ClaimView, margin: Duration) -> (Repeat, Option<Deadline>) {
    let (row, now) = (claim(view), view.facts.now);
    let repeat = clocks::repeat(&row, now, margin);
    let deadline = clocks::deadline(&row, &repeat, now);
    (repeat, deadline)
}

/// A claim.
pub fn claim(view: &ClaimView) -> ClaimRow {
    let (f, declared) = (&view.facts, &view.facts.declared);
    ClaimRow {
        tenant: view.key.tenant().into(),
        consumer: view.key.consumer().into(),
        message_id: view.key.message_id().into(),
        kind: view.kind.as_str().into(),
        downstream: view.downstream.as_str().into(),
        form: view.form.as_str().into(),
        summary: some(view.summary.as_ref()),
        business_ref: some(view.business_ref.as_ref()),
        amount: view
            .amount
            .as_ref()
            .map(|money| Amount { minor: money.minor, currency: money.currency.as_str().to_owned() }),
        state: f.state,
        doubt: f.doubt,
        contradicted: f.contradicted,
        fence: f.fence,
        revision: f.revision,
        due_at: f.due_at,
        send_by: f.send_by,
        created_at: f.created_at,
        window_from: f.window_from,
        last_end_at: f.last_end_at,
        attempts: f.attempts,
        closed_at: view.closed_at,
        closed_by: view.closed_by,
        error_class: f.error_class.as_ref().map(|class| class.as_str().into()),
        provider_ref: some(f.provider_ref.as_ref()),
        fingerprint: *view.fingerprint.as_bytes(),
        idempotency_key: view.idempotency_key.as_str().into(),
        reference: view.reference.as_str().into(),
        repeat: declared.repeat,
        landing_horizon: declared.landing_horizon,
        probe_lag: declared.probe.map(|probe| probe.lag),
        call_timeout: declared.call_timeout,
        purged: f.purged,
    }
}

/// An event.
pub fn event(key: &ClaimKey, event: &EventView) -> EventRow {
    EventRow {
        tenant: key.tenant().into(),
        consumer: key.consumer().into(),
        message_id: key.message_id().into(),
        seq: event.seq,
        at: event.at,
        name: event.name.clone(),
        actor: some(event.actor.as_ref()),
        from_state: event.from,
        to_state: event.to,
        provider_ref: some(event.provider_ref.as_ref()),
        detail: EventDetail::parse(Some(&event.detail)),
    }
}

fn orphan(o: &OrphanView) -> OrphanRow {
    OrphanRow {
        id: o.id.as_str().into(),
        at: o.at,
        source: o.source.as_str().into(),
        tenant: some(o.tenant.as_ref()),
        consumer: some(o.consumer.as_ref()),
        message_id: some(o.message_id.as_ref()),
        reference: some(o.reference.as_ref()),
        idempotency_key: some(o.idempotency_key.as_ref()),
        provider_ref: some(o.provider_ref.as_ref()),
        finding: o.finding.as_str().into(),
        adopted_at: o.adopted_at,
    }
}

fn pause(p: &Pause) -> PauseRow {
    let resumed = p.resumed.as_ref();
    PauseRow {
        downstream: p.downstream.as_str().into(),
        at: p.at,
        actor: p.actor.as_str().into(),
        reason: p.reason.as_str().into(),
        resumed: resumed.map(|r| (r.at, r.actor.as_str().into(), r.reason.as_str().into())),
    }
}

fn some(text: Option<&String>) -> Option<Untrusted> {
    text.map(|text| Untrusted::from(text.as_str()))
}
