//! What a message gets that comes again.

use std::time::Duration;

use earmark_claim::policy::Cause;
use earmark_claim::state::{ClosedBy, Ruling, Seen};
use earmark_claim::{ClaimKey, ClaimStore, Decision, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Outcome, telemetry};
use earmark_tests::claims::{age, key, keyed, natural, never, store};
use earmark_tests::counters::Counters;
use earmark_tests::effects::{By, PATIENT, earmark_with};
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

async fn facts(store: &ClaimStore, key: &ClaimKey) -> earmark_claim::state::Facts {
    store.find(key).await.unwrap().unwrap().facts
}

per_backend! {
    async fn a_retryable_claim_is_taken_when_it_is_due_and_not_before(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never()).script([Step::NotSent("busy")]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let early = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let Outcome::Retryable { at } = early else { panic!("{early:?}") };
        assert_eq!(Some(at), facts(&store, &key("m1")).await.due_at);
        assert!(stub.calls().is_empty());
        age(&db, &key("m1"), PATIENT.max).await;
        assert!(earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap().is_confirmed());
        assert_eq!(stub.effects().len(), 1);
        assert_eq!(facts(&store, &key("m1")).await.fence, 2);
    }

    async fn a_retryable_claim_that_is_used_up_is_left_to_the_sweep(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never()).script([Step::NotSent("busy")]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        age(&db, &key("m1"), Duration::from_secs(2 * 24 * 3600)).await;
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        assert!(stub.calls().is_empty());
    }

    async fn a_claim_in_doubt_belongs_to_the_sweep_however_harmless_a_repeat_would_be(db: TestDb) {
        let store = store(&db).await;
        for (name, declared) in [("keyed", keyed()), ("natural", natural()), ("never", never())] {
            let stub = Stub::new("mail.welcome", declared).script([Step::ActThenLose]);
            let earmark = earmark_with(&store, &stub);
            let _ = earmark.run::<Stub>(&key(name), &json!({})).await.unwrap();
            age(&db, &key(name), PATIENT.max).await;
            let outcome = earmark.run::<Stub>(&key(name), &json!({})).await.unwrap();
            let Outcome::InDoubt { since } = outcome else { panic!("{name}: {outcome:?}") };
            assert_eq!(Some(since), facts(&store, &key(name)).await.last_end_at);
            assert_eq!(stub.calls().len(), 1, "{name}");
        }
    }

    async fn while_somebody_is_at_it_a_redelivery_learns_until_when(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed()).script([Step::ActThenHang]);
        let earmark = earmark_with(&store, &stub);
        let first = earmark.clone();
        let running = tokio::spawn(async move { first.run::<Stub>(&key("m1"), &json!({})).await });
        while stub.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let Outcome::InFlight { until } = outcome else { panic!("{outcome:?}") };
        assert_eq!(Some(until), facts(&store, &key("m1")).await.due_at);
        assert_eq!(stub.calls().len(), 1);
        running.abort();
    }

    async fn what_a_person_has_or_had_causes_no_call(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never()).script([Step::Lose]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        store.escalate(&key("m1"), Cause::NoRuleDecides, None, None).await.unwrap();
        let escalated = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(escalated, Outcome::Escalated), "{escalated:?}");
        age(&db, &key("m1"), Duration::from_secs(60)).await;
        rule(&store, &key("m1"), Ruling::NotDone).await;
        let abandoned = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(abandoned, Outcome::Abandoned { by: ClosedBy::Ruling, .. }), "{abandoned:?}");
        assert_eq!(stub.calls().len(), 1);
    }

    async fn a_claim_that_a_person_ruled_done_is_confirmed_with_the_id_and_no_answer(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never()).script([Step::Lose]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        store.escalate(&key("m1"), Cause::NoRuleDecides, None, None).await.unwrap();
        rule(&store, &key("m1"), Ruling::Done { provider_ref: Some("ch_7".into()) }).await;
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
        assert_eq!(receipt.provider_ref.as_deref(), Some("ch_7"));
        assert!(matches!(receipt.decode(), Err(earmark_claim::Undecoded::NoAnswer)));
    }

    async fn another_request_under_the_key_is_a_mismatch_that_is_kept_and_counted(db: TestDb) {
        let counters = Counters::install();
        let consumer = format!("mismatch-{:?}", db.backend());
        let key = ClaimKey::new(consumer.as_str(), "m1").unwrap();
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key, &json!({"to": "a"})).await.unwrap();
        let before = facts(&store, &key).await;
        for _ in 0..2 {
            let outcome = earmark.run::<Stub>(&key, &json!({"to": "b"})).await.unwrap();
            assert!(matches!(outcome, Outcome::Mismatch), "{outcome:?}");
            assert!(!format!("{outcome:?}").contains("stub_"), "nothing is told of the other request");
        }
        assert_eq!(stub.calls().len(), 1);
        let after = facts(&store, &key).await;
        assert_eq!((after.state, after.fence), (State::Confirmed, before.fence));
        let events = store.history(&key).await.unwrap();
        let names: Vec<_> = events.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["mismatch"], "the same again is no new fact");
        let (asked, on_file) = ("\"fingerprint\"", "\"on_file\"");
        assert!(events[0].detail.contains(asked) && events[0].detail.contains(on_file), "{}", events[0].detail);
        assert_eq!(counters.sum(telemetry::MISMATCHES, &[("consumer", &consumer)]), 2);
    }

    async fn a_field_that_changes_between_deliveries_makes_no_mismatch(db: TestDb) {
        let store = store(&db).await;
        let effect = By { stable: Some("order"), ..By::new(|_, request| Ok(request.clone())) };
        let earmark =
            earmark_effects::Earmark::builder(store.clone()).effect(effect.clone()).build().unwrap();
        let ask = |order: u32, at: u32| json!({"order": order, "at": at});
        assert!(earmark.run::<By>(&key("m1"), &ask(1, 100)).await.unwrap().is_confirmed());
        let again = earmark.run::<By>(&key("m1"), &ask(1, 200)).await.unwrap();
        let Outcome::Confirmed(receipt) = again else { panic!("{again:?}") };
        assert_eq!(receipt.decode().unwrap(), ask(1, 100), "what was sent is what was frozen");
        let other = earmark.run::<By>(&key("m1"), &ask(2, 100)).await.unwrap();
        assert!(matches!(other, Outcome::Mismatch), "{other:?}");
        assert_eq!(effect.performed(), 1);
    }
}

async fn rule(store: &ClaimStore, key: &ClaimKey, ruling: Ruling) {
    let facts = facts(store, key).await;
    let decision = Decision {
        seen: Seen { state: facts.state, fence: facts.fence, revision: facts.revision },
        ruling,
        actor: "ana".into(),
        reason: "seen in the provider's list".into(),
        evidence: Vec::new(),
        horizon: None,
        looked: false,
    };
    store.resolve(key, decision).await.unwrap();
}
