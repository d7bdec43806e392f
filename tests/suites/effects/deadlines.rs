//! Calls that are cut, and last looks that come too late.

use std::time::{Duration, Instant};

use earmark_claim::state::ClosedBy;
use earmark_claim::{Declared, State, StoreOptions};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Outcome};
use earmark_tests::claims::{LEASE, age, key, never, store, store_with};
use earmark_tests::effects::{BRIEF, By, PATIENT, brief, earmark_with};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

/// An effect that takes its last look and says whether it would have sent.
fn looks_last() -> By {
    By::new(|permit, _| {
        permit.last_look()?;
        Ok(json!({}))
    })
}

per_backend! {
    async fn a_call_that_never_answers_is_cut_long_before_its_lease_ends(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", brief(never())).script([Step::ActThenHang]);
        let earmark = earmark_with(&store, &stub);
        let begun = Instant::now();
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
        assert!(begun.elapsed() >= BRIEF && begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
        let facts = store.find(&key("m1")).await.unwrap().unwrap().facts;
        assert!(facts.last_end_at.unwrap() < facts.created_at.plus(LEASE), "recorded by its holder");
        assert_eq!(facts.error_class.unwrap().as_str(), "timeout");
        assert_eq!(stub.effects().len(), 1);
    }

    async fn what_must_be_sent_at_once_or_never_is_not_sent_late(db: TestDb) {
        let store = store(&db).await;
        let effect = By { send_within: Some(Duration::from_micros(1)), ..looks_last() };
        let earmark = Earmark::builder(store.clone()).effect(effect.clone()).backoff(PATIENT).build().unwrap();
        let outcome = earmark.run::<By>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        assert_eq!(effect.performed(), 0, "the first of the last looks was too late already");
        let facts = store.find(&key("m1")).await.unwrap().unwrap().facts;
        assert_eq!(facts.error_class.unwrap().as_str(), "too_late");
        age(&db, &key("m1"), PATIENT.max).await;
        let again = earmark.run::<By>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(again, Outcome::Retryable { .. }), "not taken: {again:?}");
        sweep_once(&earmark).await;
        let expired = earmark.run::<By>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(expired, Outcome::Abandoned { by: ClosedBy::Expired, .. }), "{expired:?}");
        assert_eq!(effect.performed(), 0);
    }

    async fn a_task_that_was_paused_until_its_time_was_over_sends_nothing(db: TestDb) {
        // Longer than call timeout and margin, by as much as a settle may take.
        let timeout = Duration::from_secs(5);
        let lease = timeout + Duration::from_millis(20) + Duration::from_millis(200);
        let options = StoreOptions { margin: Duration::from_millis(20), ..StoreOptions::new(lease) };
        let store = store_with(&db, options).await;
        let effect = By {
            declared: Declared { call_timeout: timeout, ..never() },
            // Paused: between its own code and the last look, until the time to send in is over.
            ..By::new(|permit, _| {
                while permit.last_look().is_ok() {
                    std::thread::yield_now();
                }
                permit.last_look()?;
                panic!("sent")
            })
        };
        let earmark = Earmark::builder(store.clone()).effect(effect.clone()).backoff(PATIENT).build().unwrap();
        let outcome = earmark.run::<By>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        assert_eq!(effect.performed(), 1);
        let facts = store.find(&key("m1")).await.unwrap().unwrap().facts;
        assert_eq!((facts.state, facts.attempts), (State::Retryable, 0), "provably nothing was sent");
    }
}
