//! B01: the service dies after the provider acted and before it read the answer.

use std::time::Duration;

use earmark_claim::policy::{Act, Cause};
use earmark_claim::state::Taking;
use earmark_claim::{ClaimStore, State};
use earmark_tests::claims::{LEASE, age, key, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::service;
use earmark_tests::process::{Service, declared};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};

async fn state(store: &ClaimStore) -> State {
    store.find(&key("m0")).await.unwrap().unwrap().facts.state
}

/// Kills the service while the provider, which has acted, holds its request open.
async fn killed_in_the_call(db: &TestDb, provider: &Provider, keyed: bool) {
    let service = Service {
        database: db.url().to_owned(),
        provider: provider.origin(),
        messages: 1,
        keyed,
        grace: Duration::ZERO,
    };
    let mut child = service.start("service");
    provider.arrived(1).await;
    child.kill().await.unwrap();
}

per_backend! {
    async fn where_the_provider_ignores_keys_nothing_is_sent_again_and_a_person_decides(db: TestDb) {
        let provider = Provider::start([Reply::ActThenHold]).await;
        killed_in_the_call(&db, &provider, false).await;
        let store = store(&db).await;
        let sweeper = service(&store, &provider, declared(false));
        assert!(sweep_once(&sweeper).await.is_empty(), "its holder is believed until the lease ends");
        assert_eq!(state(&store).await, State::InFlight);
        age(&db, &key("m0"), LEASE).await;
        let acts = sweep_once(&sweeper).await;
        let expected = [(key("m0"), Act::Doubt), (key("m0"), Act::Escalate(Cause::NoRuleDecides))];
        assert_eq!(acts, expected);
        for _ in 0..3 {
            age(&db, &key("m0"), PATIENT.max).await;
            sweep_once(&sweeper).await;
        }
        assert_eq!(state(&store).await, State::Escalated);
        assert_eq!((provider.calls().len(), provider.effects().len()), (1, 1));
    }

    async fn where_the_provider_honours_keys_it_is_sent_again_and_happens_once(db: TestDb) {
        let provider = Provider::deduplicating([Reply::ActThenHold]).await;
        killed_in_the_call(&db, &provider, true).await;
        let store = store(&db).await;
        let sweeper = service(&store, &provider, declared(true));
        age(&db, &key("m0"), LEASE).await;
        let acts = sweep_once(&sweeper).await;
        assert_eq!(acts, [(key("m0"), Act::Doubt), (key("m0"), Act::Perform(Taking::Redrive))]);
        assert_eq!(state(&store).await, State::Confirmed);
        let calls = provider.calls();
        assert_eq!((calls.len(), provider.effects().len()), (2, 1));
        assert_eq!(calls[0].header("idempotency-key"), calls[1].header("idempotency-key"));
        let history = store.history(&key("m0")).await.unwrap();
        let names: Vec<_> = history.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["lease_over", "redrive", "confirm"]);
    }
}
