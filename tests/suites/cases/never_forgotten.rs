//! B03: nothing stays "in progress" for ever.

use std::time::Duration;

use earmark_claim::{ClaimKey, ClaimStore, Error, State, StoreOptions};
use earmark_effects::Outcome;
use earmark_effects::stub::{Step, Stub};
use earmark_tests::claims::{LEASE, age, key, keyed, store, won};
use earmark_tests::effects::{PATIENT, earmark_with};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

fn message(name: &str) -> ClaimKey {
    key(name)
}

per_backend! {
    async fn every_open_claim_is_due_some_day_and_the_database_refuses_one_that_is_not(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed()).script([Step::NotSent("busy"), Step::Lose]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&message("retryable"), &json!({})).await.unwrap();
        let _ = earmark.run::<Stub>(&message("in_doubt"), &json!({})).await.unwrap();
        drop(won(&store, &message("in_flight"), keyed()).await);
        let later = earmark_claim::NewClaim {
            not_before: Some(earmark_claim::When::In(Duration::from_secs(60))),
            ..earmark_tests::claims::new_claim(keyed())
        };
        let _ = store.claim(&message("held"), later).await.unwrap();
        for state in [State::Held, State::InFlight, State::Retryable, State::InDoubt] {
            let view = store.find(&message(&state.to_string())).await.unwrap().unwrap();
            assert_eq!(view.facts.state, state);
            assert!(view.facts.due_at.is_some(), "{state}");
            let forget = format!("UPDATE earmark_claim SET due_at = NULL WHERE state = '{state}'");
            assert!(db.execute(&forget).await.is_err(), "{state} without a due time");
        }
    }

    async fn a_caller_with_no_time_left_leaves_nothing_that_is_stuck(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        let (key, request) = (message("m3"), json!({}));
        let _ = tokio::time::timeout(Duration::ZERO, earmark.run::<Stub>(&key, &request)).await;
        assert_eq!(earmark.close(LEASE).await, 0);
        let left = store.find(&key).await.unwrap().map(|view| view.facts.state);
        assert!(matches!(left, None | Some(State::Confirmed)), "{left:?}");
    }

    async fn redeliveries_of_a_dead_claim_are_answered_until_the_sweep_has_it(db: TestDb) {
        let store = store(&db).await;
        // Its holder is gone: nobody will settle it.
        drop(won(&store, &message("m3"), keyed()).await);
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        let same: serde_json::Value = serde_json::from_str(r#"{"to":"a@example.org"}"#).unwrap();
        for _ in 0..3 {
            let outcome = earmark.run::<Stub>(&message("m3"), &same).await.unwrap();
            assert!(matches!(outcome, Outcome::InFlight { .. }), "{outcome:?}");
        }
        age(&db, &message("m3"), LEASE.max(PATIENT.base)).await;
        let outcome = earmark.run::<Stub>(&message("m3"), &same).await.unwrap();
        assert!(matches!(outcome, Outcome::InFlight { .. }), "the sweep alone ends a lease: {outcome:?}");
        assert!(stub.calls().is_empty());
        sweep_once(&earmark).await;
        assert!(earmark.run::<Stub>(&message("m3"), &same).await.unwrap().is_confirmed());
        assert_eq!(stub.effects().len(), 1);
    }

    async fn a_lease_that_would_never_end_or_is_over_at_once_is_refused_at_start(db: TestDb) {
        let day = Duration::from_secs(24 * 3600);
        let margin = StoreOptions::new(LEASE).margin;
        for lease in [Duration::ZERO, margin, day + Duration::from_secs(1), Duration::MAX] {
            match ClaimStore::connect(db.url(), StoreOptions::new(lease)).await {
                Err(Error::Config(faults)) => assert!(faults.iter().any(|f| f.contains("lease")), "{faults:?}"),
                other => panic!("{lease:?}: {other:?}"),
            }
        }
    }
}
