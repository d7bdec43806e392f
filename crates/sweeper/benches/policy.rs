//! What the rules cost: one decision of the sweep, and one judgement of the machine.
//!
//! The facts are those of a real row, read from a SQLite file, since nobody outside the store can make a token.
#![allow(clippy::expect_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use earmark_claim::policy::{Act, decide};
use earmark_claim::state::{Event, Facts, Room, Taking, next};
use earmark_claim::{
    ClaimKey, ClaimStore, Claimed, Declared, NewClaim, ProbeTerms, RepeatSafety, State, StoreOptions,
};

const ROOM: Room = Room { lease: Duration::from_secs(60), margin: Duration::from_secs(1) };

/// A claim in flight, with everything declared that can be.
fn facts() -> Facts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    runtime.block_on(async {
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("bench.sqlite").display());
        let db = sea_orm::Database::connect(&url).await.expect("a database");
        earmark_migrations::run(&db, &earmark_migrations::Options::default()).await.expect("tables");
        let store = ClaimStore::connect(&url, StoreOptions::new(ROOM.lease)).await.expect("a store");
        let declared = Declared {
            repeat: RepeatSafety::Keyed { window: Duration::from_secs(24 * 3600) },
            landing_horizon: Some(Duration::from_secs(30)),
            probe: Some(ProbeTerms { lag: Duration::from_secs(5), not_found_is_proof: true, looks_max: 5 }),
            call_timeout: Duration::from_secs(10),
            attempts_max: 5,
            age_max: Duration::from_secs(24 * 3600),
        };
        let key = ClaimKey::new("billing", "m0").expect("a key");
        let claimed = store.claim(&key, NewClaim::new("billing.charge", "stripe", "{}", declared)).await;
        assert!(matches!(claimed, Ok(Claimed::Won(_))), "{claimed:?}");
        let view = store.find(&key).await.expect("a row").expect("a claim");
        store.close().await;
        view.facts
    })
}

fn rules(c: &mut Criterion) {
    let in_flight = facts();
    let due = Facts { due_at: Some(in_flight.now), ..in_flight.clone() };
    let in_doubt = Facts { state: State::InDoubt, last_end_at: Some(in_flight.now), ..due.clone() };
    let retryable = Facts { state: State::Retryable, ..in_doubt.clone() };
    // The longest way: no redrive, no look, and the reason for it.
    let used_up = Facts { attempts: 5, looks: 5, ..in_doubt.clone() };
    assert_eq!(decide(&due, ROOM), Act::Doubt);
    assert_eq!(decide(&in_doubt, ROOM), Act::Perform(Taking::Redrive));
    assert_eq!(decide(&retryable, ROOM), Act::Perform(Taking::Take));
    assert!(matches!(decide(&used_up, ROOM), Act::Escalate(_)));
    let mut group = c.benchmark_group("decide");
    for (name, facts) in
        [("lease_over", &due), ("redrive", &in_doubt), ("take", &retryable), ("escalate", &used_up)]
    {
        group.bench_function(name, |b| b.iter(|| decide(black_box(facts), black_box(ROOM))));
    }
    group.finish();
    let redrive = Event::Taking { how: Taking::Redrive, room: ROOM };
    c.bench_function("next/redrive", |b| b.iter(|| next(black_box(&in_doubt), black_box(&redrive))));
    let (frozen, mut registered) = (in_doubt.declared.clone(), in_doubt.declared.clone());
    registered.attempts_max = 3;
    c.bench_function("declared/stricter", |b| b.iter(|| black_box(&frozen).stricter(black_box(&registered))));
}

criterion_group!(benches, rules);
criterion_main!(benches);
