//! A report over 100,000 claims: building it, and writing it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use earmark_claim::state::{ClosedBy, Verb};
use earmark_claim::{RepeatSafety, State, Timestamp};
use earmark_sweeper::report::input::{Amount, ClaimRow, EventDetail, EventRow, Input, Scope, Window};
use earmark_sweeper::report::{Options, build, render};

const CLAIMS: u64 = 100_000;
const AS_OF: Timestamp = Timestamp::from_micros(1_793_686_202_000_250);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A day of traffic that is going badly: of a hundred claims ninety are confirmed, three abandoned, and seven open, of
/// which three wait for a person.
fn claim(n: u64) -> ClaimRow {
    let created_at = AS_OF.minus(DAY.mul_f64((n % 1000) as f64 / 1000.0) + Duration::from_secs(60));
    let state = match n % 100 {
        0..=89 => State::Confirmed,
        90..=92 => State::Abandoned,
        93 => State::Retryable,
        94 | 95 => State::InFlight,
        96 => State::InDoubt,
        _ => State::Escalated,
    };
    let closed = state.is_terminal();
    let open_doubt = matches!(state, State::InDoubt | State::Escalated);
    ClaimRow {
        tenant: format!("tenant-{}", n % 20).as_str().into(),
        consumer: ["billing", "mail", "shipping"][(n % 3) as usize].into(),
        message_id: format!("order-{n}").as_str().into(),
        kind: ["billing.charge", "mail.welcome", "shipping.label"][(n % 3) as usize].into(),
        downstream: ["stripe", "ses", "carrier"][(n % 3) as usize].into(),
        form: "http/1".into(),
        summary: Some("One order of many".into()),
        business_ref: Some(format!("{n}").as_str().into()),
        amount: n
            .is_multiple_of(3)
            .then(|| Amount { minor: 1200 + (n % 977) as i64, currency: "EUR".into() }),
        state,
        doubt: open_doubt,
        contradicted: false,
        fence: 1,
        revision: 2,
        due_at: (!closed && state != State::Escalated).then(|| AS_OF.plus(Duration::from_secs(30))),
        send_by: None,
        created_at,
        window_from: Some(created_at),
        last_end_at: Some(created_at.plus(Duration::from_secs(1))),
        attempts: 1,
        closed_at: closed.then(|| created_at.plus(Duration::from_secs(1))),
        closed_by: match state {
            State::Confirmed => Some(ClosedBy::Answer),
            State::Abandoned => Some(ClosedBy::Refused),
            _ => None,
        },
        error_class: (!closed).then(|| ["timeout", "http_5xx", "reset"][(n % 7 % 3) as usize].into()),
        provider_ref: (state == State::Confirmed).then(|| format!("ch_{n}").as_str().into()),
        fingerprint: [0xab; 32],
        idempotency_key: format!("0b7f4c1e-2a53-4a63-9a33-{n:012}").as_str().into(),
        reference: format!("{n:016}").as_str().into(),
        repeat: [RepeatSafety::Keyed { window: DAY }, RepeatSafety::Never][(n % 2) as usize],
        landing_horizon: Some(Duration::from_secs(300)),
        probe_lag: None,
        call_timeout: Duration::from_secs(30),
        purged: false,
    }
}

/// Every claim but the confirmed ones left an event.
fn event(c: &ClaimRow) -> Option<EventRow> {
    let verb = match c.state {
        State::Confirmed => return None,
        State::Abandoned => Verb::Refuse,
        State::Escalated => Verb::Escalate,
        _ => Verb::LeaseOver,
    };
    Some(EventRow {
        tenant: c.tenant.clone(),
        consumer: c.consumer.clone(),
        message_id: c.message_id.clone(),
        seq: 1,
        at: c.created_at.plus(Duration::from_secs(1)),
        name: verb.as_str().into(),
        actor: None,
        from_state: State::InFlight,
        to_state: c.state,
        provider_ref: None,
        detail: EventDetail::default(),
    })
}

fn report(c: &mut Criterion) {
    let claims: Vec<_> = (0..CLAIMS).map(claim).collect();
    let input = Input {
        as_of: AS_OF,
        window: Window { from: AS_OF.minus(DAY), to: AS_OF },
        scope: Scope {
            database: "shop on db-1:5432".into(),
            namespace: "shop".into(),
            version: "0.1.0".into(),
            allow_non_durable: false,
        },
        events: claims.iter().filter_map(event).collect(),
        claims,
        orphans: vec![],
        pauses: vec![],
        unreadable: vec![],
    };
    let options = Options::default();
    let built = build(&input, &options);
    assert_eq!(built.needs_a_person.len() as u64, CLAIMS * 3 / 100, "the rows mean what they should");
    let mut group = c.benchmark_group("report");
    group.sample_size(10).throughput(Throughput::Elements(CLAIMS));
    group.bench_function("build", |b| b.iter(|| build(black_box(&input), &options)));
    group.bench_function("text", |b| b.iter(|| render::text(black_box(&built))));
    group.bench_function("json", |b| b.iter(|| render::json(black_box(&built))));
    group.bench_function("html", |b| b.iter(|| render::html(black_box(&built))));
    group.finish();
}

criterion_group!(benches, report);
criterion_main!(benches);
