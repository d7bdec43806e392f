//! What the provider sees.

use earmark_claim::{RepeatSafety, State};
use earmark_effects::{Description, Error, Outcome};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::{KIND, charge, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

per_backend! {
    async fn the_key_is_the_same_bytes_at_every_attempt(db: TestDb) {
        let store = store(&db).await;
        let provider =
            Provider::deduplicating([Reply::AnswerWith(429, "Retry-After", "1"), Reply::ActThenDrop]).await;
        let earmark = service(&store, &provider, keyed());
        // The provider stores its 429, as some do; this one's table says that nothing happened.
        let call = charge(&provider);
        let busy = run(&earmark, &key("m1"), &call).await;
        assert!(matches!(busy, Outcome::Retryable { .. }), "{busy:?}");
        let lost = run(&earmark, &key("m2"), &call).await;
        assert!(matches!(lost, Outcome::InDoubt { .. }), "{lost:?}");
        age(&db, &key("m2"), PATIENT.max).await;
        sweep_once(&earmark).await;
        let done = run(&earmark, &key("m2"), &call).await;
        let Outcome::Confirmed(receipt) = done else { panic!("{done:?}") };
        assert_eq!(receipt.decode().unwrap(), json!({"id": "ch_1"}));
        assert_eq!(receipt.provider_ref.as_deref(), Some("ch_1"));
        let view = store.find(&key("m2")).await.unwrap().unwrap();
        let calls = provider.calls();
        let [first, second] = &calls[1..] else { panic!("{calls:?}") };
        for (call, attempt) in [(first, "1"), (second, "2")] {
            assert_eq!(call.header("idempotency-key"), [view.idempotency_key.as_str()]);
            assert_eq!(call.header("earmark-attempt"), [attempt]);
            assert_eq!(call.body, br#"{"amount":1200}"#);
        }
        assert_eq!(provider.effects().len(), 1);
    }

    async fn the_key_may_stand_in_the_body_and_is_frozen_there(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::deduplicating([Reply::ActThenDrop]).await;
        let earmark = service(&store, &provider, keyed());
        let call = charge(&provider).reference_at("/reference").key_at("/idempotency_key");
        let lost = run(&earmark, &key("m1"), &call).await;
        assert!(matches!(lost, Outcome::InDoubt { .. }), "{lost:?}");
        age(&db, &key("m1"), PATIENT.max).await;
        sweep_once(&earmark).await;
        let view = store.find(&key("m1")).await.unwrap().unwrap();
        assert_eq!(view.facts.state, State::Confirmed);
        let calls = provider.calls();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].body, calls[1].body);
        let body = json!({
            "amount": 1200,
            "idempotency_key": view.idempotency_key.as_str(),
            "reference": view.reference.as_str(),
        });
        assert_eq!(calls[0].json(), body);
        assert!(calls[0].header("idempotency-key").is_empty());
        assert_eq!(provider.effects(), [view.idempotency_key.as_str()]);
    }
}

#[tokio::test]
async fn a_kind_that_relies_on_its_key_cannot_make_a_call_that_does_not_send_it() {
    let db = TestDb::new(earmark_tests::Backend::Sqlite).await;
    let store = store(&db).await;
    let provider = Provider::start([]).await;
    let call = earmark_effects::http::HttpCall::post(&provider.url("/charges")).json(&json!({"amount": 1}));
    let refused =
        service(&store, &provider, keyed()).run_http(KIND, &key("m1"), &call, Description::default()).await;
    assert!(matches!(refused, Err(Error::Call(_))), "{refused:?}");
    assert!(store.find(&key("m1")).await.unwrap().is_none() && provider.calls().is_empty());
    // A promise that does not lean on the key needs none.
    assert_eq!(never().repeat, RepeatSafety::Never);
    assert!(run(&service(&store, &provider, never()), &key("m1"), &call).await.is_confirmed());
}

#[tokio::test]
async fn a_call_that_cannot_be_frozen_is_refused_before_anything_is_written() {
    let db = TestDb::new(earmark_tests::Backend::Sqlite).await;
    let store = store(&db).await;
    let provider = Provider::start([]).await;
    let earmark = service(&store, &provider, keyed());
    let call = charge(&provider).header("Authorization", "Bearer secret");
    let refused = earmark.run_http(KIND, &key("m1"), &call, Description::default()).await;
    assert!(matches!(refused, Err(Error::Call(_))), "{refused:?}");
    let unknown = earmark.run_http("no.kind", &key("m1"), &charge(&provider), Description::default()).await;
    assert!(matches!(unknown, Err(Error::NotRegistered(_))), "{unknown:?}");
    assert!(store.find(&key("m1")).await.unwrap().is_none() && provider.calls().is_empty());
}
