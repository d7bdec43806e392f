//! Requests and receipts as they are stored and read again.

use std::collections::BTreeMap;

use earmark_claim::policy::{Act, Cause};
use earmark_claim::{BeforeSend, Failure, State, Undecoded};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Error, Outcome};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::{By, PATIENT, earmark_with};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A later version of the service: the same kind, another shape of request and receipt.
struct Newer;

#[derive(Debug, Serialize, Deserialize)]
struct NewerShape {
    recipient: String,
}

impl earmark_effects::Effect for Newer {
    type Request = NewerShape;
    type Receipt = NewerShape;

    fn kind(&self) -> &str {
        "mail.welcome"
    }

    fn downstream(&self) -> &str {
        "stub"
    }

    fn declared(&self) -> earmark_claim::Declared {
        keyed()
    }

    async fn perform(&self, _: earmark_claim::Permit<'_>, _: &NewerShape) -> Result<NewerShape, Failure> {
        panic!("nobody can read the request that would be performed here")
    }

    fn canonical(&self, _: &NewerShape) -> Option<Vec<u8>> {
        // As the older version had it.
        Some(b"{}".to_vec())
    }
}

/// A request that has no JSON form.
struct Unstorable;

impl earmark_effects::Effect for Unstorable {
    type Request = BTreeMap<(u8, u8), u8>;
    type Receipt = ();

    fn kind(&self) -> &str {
        "test.unstorable"
    }

    fn downstream(&self) -> &str {
        "nobody"
    }

    fn declared(&self) -> earmark_claim::Declared {
        never()
    }

    async fn perform(&self, _: earmark_claim::Permit<'_>, _: &Self::Request) -> Result<(), Failure> {
        Ok(())
    }
}

per_backend! {
    async fn what_fails_while_the_request_is_built_is_not_sent_and_what_fails_later_is_a_doubt(db: TestDb) {
        let store = store(&db).await;
        let effect = By::new(|permit, request| {
            let text = request["amount"].as_str().unwrap_or_default();
            let _amount: u32 = text.parse::<u32>().before_send()?;
            permit.last_look()?;
            Ok(json!(request["answer"].as_str().unwrap_or_default().parse::<u32>()?))
        });
        let earmark = Earmark::builder(store.clone()).effect(effect).backoff(PATIENT).build().unwrap();
        let before = earmark.run::<By>(&key("m1"), &json!({"amount": "1,5", "answer": "1"})).await.unwrap();
        assert!(matches!(before, Outcome::Retryable { .. }), "{before:?}");
        let after = earmark.run::<By>(&key("m2"), &json!({"amount": "15", "answer": "ok"})).await.unwrap();
        assert!(matches!(after, Outcome::InDoubt { .. }), "{after:?}");
        let class = store.find(&key("m1")).await.unwrap().unwrap().facts.error_class.unwrap();
        assert_eq!(class.as_str(), "before_send");
    }

    async fn a_request_that_nobody_can_read_any_more_goes_to_a_person(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed()).script([Step::NotSent("busy")]);
        let _ = earmark_with(&store, &stub).run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        age(&db, &key("m1"), PATIENT.max).await;
        let newer = Earmark::builder(store.clone()).effect(Newer).backoff(PATIENT).build().unwrap();
        sweep_once(&newer).await;
        let facts = store.find(&key("m1")).await.unwrap().unwrap().facts;
        assert_eq!(facts.error_class.unwrap().as_str(), "fault.request_unreadable");
        assert_eq!((facts.state, facts.attempts), (State::Retryable, 0));
        age(&db, &key("m1"), PATIENT.max).await;
        let request = NewerShape { recipient: "a".into() };
        let redelivered = newer.run::<Newer>(&key("m1"), &request).await.unwrap();
        assert!(matches!(redelivered, Outcome::Retryable { .. }), "not tried for ever: {redelivered:?}");
        assert_eq!(sweep_once(&newer).await, [(key("m1"), Act::Escalate(Cause::Fault))]);
        assert_eq!(store.find(&key("m1")).await.unwrap().unwrap().facts.state, State::Escalated);
        assert!(stub.calls().is_empty());
    }

    async fn a_receipt_that_a_newer_type_cannot_read_is_confirmed_all_the_same(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let _ = earmark_with(&store, &stub).run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let newer = Earmark::builder(store).effect(Newer).build().unwrap();
        let outcome = newer.run::<Newer>(&key("m1"), &NewerShape { recipient: "a".into() }).await.unwrap();
        let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(receipt.decode(), Err(Undecoded::Shape(_))));
        assert!(receipt.provider_ref.unwrap().starts_with("stub_"));
        assert!(receipt.answer.is_some());
    }

    async fn a_request_that_has_no_stored_form_is_refused_before_anything_is_written(db: TestDb) {
        let store = store(&db).await;
        let earmark = Earmark::builder(store.clone()).effect(Unstorable).build().unwrap();
        let refused = earmark.run::<Unstorable>(&key("m1"), &BTreeMap::from([((1, 2), 3)])).await;
        assert!(matches!(refused, Err(Error::Request(_))), "{refused:?}");
        assert!(store.find(&key("m1")).await.unwrap().is_none());
    }
}
