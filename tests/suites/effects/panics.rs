//! Code of the user's that panics.

use earmark_claim::{Failure, Permit, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Description, Earmark, Effect, Look, Outcome, Probe, Subject};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::{PATIENT, earmark_with, probed};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::{Value, json};

struct PanickingProbe;

impl Probe for PanickingProbe {
    async fn look(&self, _: &Subject<'_>) -> Look {
        panic!("the probe's own")
    }
}

/// Which of its hooks panics.
#[derive(Clone, Copy, PartialEq)]
enum In {
    ProviderRef,
    Describe,
    Canonical,
}

struct PanickingHook(In);

impl Effect for PanickingHook {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        "test.hook"
    }

    fn downstream(&self) -> &str {
        "nobody"
    }

    fn declared(&self) -> earmark_claim::Declared {
        never()
    }

    async fn perform(&self, _: Permit<'_>, _: &Value) -> Result<Value, Failure> {
        Ok(json!({"id": "x"}))
    }

    fn provider_ref(&self, _: &Value) -> Option<String> {
        if self.0 == In::ProviderRef { panic!("provider_ref") } else { None }
    }

    fn describe(&self, _: &Value) -> Description {
        if self.0 == In::Describe { panic!("describe") } else { Description::default() }
    }

    fn canonical(&self, _: &Value) -> Option<Vec<u8>> {
        if self.0 == In::Canonical { panic!("canonical") } else { None }
    }
}

per_backend! {
    async fn a_panic_in_the_effect_is_a_doubt_and_other_work_goes_on(db: TestDb) {
        let stub = Stub::new("mail.welcome", keyed()).script([Step::Panic, Step::Done]);
        let earmark = earmark_with(&store(&db).await, &stub);
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
        assert!(earmark.run::<Stub>(&key("m2"), &json!({})).await.unwrap().is_confirmed());
        let events = earmark.store().history(&key("m1")).await.unwrap();
        assert!(events[0].detail.contains("scripted"), "a person reads what it said: {}", events[0].detail);
    }

    async fn a_panic_in_the_probe_cannot_tell_and_other_work_goes_on(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", probed(never())).script([Step::Lose]);
        let earmark = Earmark::builder(store.clone()).backoff(PATIENT);
        let earmark = earmark.probed(stub.clone(), PanickingProbe).build().unwrap();
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        for looks in 1..=3 {
            age(&db, &key("m1"), PATIENT.max / 2).await;
            // Due whenever the wait was.
            db.execute("UPDATE earmark_claim SET due_at = last_end_at WHERE due_at IS NOT NULL").await.unwrap();
            sweep_once(&earmark).await;
            let facts = store.find(&key("m1")).await.unwrap().unwrap().facts;
            assert_eq!((facts.state, facts.looks), (State::InDoubt, looks), "never \"not done\"");
        }
        assert!(earmark.run::<Stub>(&key("m2"), &json!({})).await.unwrap().is_confirmed());
        let events = store.history(&key("m1")).await.unwrap();
        assert!(events.iter().any(|e| e.detail.contains("the probe panicked")));
    }

    async fn a_panic_after_the_answer_is_a_doubt_and_never_a_no(db: TestDb) {
        let store = store(&db).await;
        let earmark = Earmark::builder(store).effect(PanickingHook(In::ProviderRef)).build().unwrap();
        let outcome = earmark.run::<PanickingHook>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
    }

    async fn a_panic_before_the_claim_writes_nothing(db: TestDb) {
        let store = store(&db).await;
        for hook in [In::Describe, In::Canonical] {
            let earmark = Earmark::builder(store.clone()).effect(PanickingHook(hook)).build().unwrap();
            let run = tokio::spawn(async move {
                let _ = earmark.run::<PanickingHook>(&key("m1"), &json!({})).await;
            });
            assert!(run.await.unwrap_err().is_panic());
            assert!(store.find(&key("m1")).await.unwrap().is_none());
        }
    }
}
