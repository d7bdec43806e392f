//! The claims of this run as rows of a report.

use earmark_effects::claim::{ClaimView, EventView, OrphanView, Snapshot, Timestamp};
use earmark_sweeper::report::Input;
use earmark_sweeper::report::input::{Amount, ClaimRow, EventDetail, EventRow, OrphanRow, Scope, Window};

/// What the snapshot holds of this consumer since `from`.
pub(super) fn input(snapshot: &Snapshot, consumer: &str, from: Timestamp, scope: Scope) -> Input {
    let ours = |of: &str| of == consumer;
    Input {
        as_of: snapshot.as_of,
        window: Window { from, to: snapshot.as_of },
        scope,
        claims: snapshot.claims.iter().filter(|c| ours(c.key.consumer())).map(claim).collect(),
        events: snapshot
            .events
            .iter()
            .filter(|(key, _)| ours(key.consumer()))
            .map(|(key, e)| event(key.tenant(), key.consumer(), key.message_id(), e))
            .collect(),
        orphans: snapshot
            .orphans
            .iter()
            .filter(|o| o.consumer.as_deref() == Some(consumer))
            .map(orphan)
            .collect(),
    }
}

fn claim(view: &ClaimView) -> ClaimRow {
    let facts = &view.facts;
    ClaimRow {
        tenant: view.key.tenant().into(),
        consumer: view.key.consumer().into(),
        message_id: view.key.message_id().into(),
        kind: view.kind.as_str().into(),
        downstream: view.downstream.as_str().into(),
        form: view.form.as_str().into(),
        summary: view.summary.as_deref().map(Into::into),
        business_ref: view.business_ref.as_deref().map(Into::into),
        amount: view.amount.map(|m| Amount { minor: m.minor, currency: m.currency.as_str().to_owned() }),
        state: facts.state,
        doubt: facts.doubt,
        contradicted: facts.contradicted,
        fence: facts.fence,
        revision: facts.revision,
        due_at: facts.due_at,
        send_by: facts.send_by,
        created_at: facts.created_at,
        window_from: facts.window_from,
        last_end_at: facts.last_end_at,
        attempts: facts.attempts,
        closed_at: view.closed_at,
        closed_by: view.closed_by,
        error_class: facts.error_class.as_ref().map(|class| class.as_str().into()),
        provider_ref: facts.provider_ref.as_deref().map(Into::into),
        fingerprint: *view.fingerprint.as_bytes(),
        idempotency_key: view.idempotency_key.as_str().into(),
        reference: view.reference.as_str().into(),
        repeat: facts.declared.repeat,
        landing_horizon: facts.declared.landing_horizon,
        probe_lag: facts.declared.probe.map(|probe| probe.lag),
        call_timeout: facts.declared.call_timeout,
        purged: view.purged_at.is_some(),
    }
}

fn event(tenant: &str, consumer: &str, message_id: &str, event: &EventView) -> EventRow {
    EventRow {
        tenant: tenant.into(),
        consumer: consumer.into(),
        message_id: message_id.into(),
        seq: event.seq,
        at: event.at,
        name: event.name.clone(),
        actor: event.actor.as_deref().map(Into::into),
        from_state: event.from,
        to_state: event.to,
        provider_ref: event.provider_ref.as_deref().map(Into::into),
        detail: EventDetail::parse(Some(&event.detail)),
    }
}

fn orphan(orphan: &OrphanView) -> OrphanRow {
    let text = |value: &Option<String>| value.as_deref().map(Into::into);
    OrphanRow {
        id: orphan.id.as_str().into(),
        at: orphan.at,
        source: orphan.source.as_str().into(),
        tenant: text(&orphan.tenant),
        consumer: text(&orphan.consumer),
        message_id: text(&orphan.message_id),
        reference: text(&orphan.reference),
        idempotency_key: text(&orphan.idempotency_key),
        provider_ref: text(&orphan.provider_ref),
        finding: orphan.finding.as_str().into(),
        adopted_at: orphan.adopted_at,
    }
}
