//! B13: what makes two requests one, and what does not.

use std::time::Duration;

use earmark_claim::{ClaimKey, State};
use earmark_effects::Outcome;
use earmark_effects::http::HttpCall;
use earmark_tests::claims::{age, key, keyed, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::{charge, charge_at, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

per_backend! {
    async fn another_request_under_the_key_gets_no_call_and_learns_nothing(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([]).await;
        let earmark = service(&store, &provider, keyed());
        assert!(run(&earmark, &key("m13"), &charge_at(&provider.origin(), 1000)).await.is_confirmed());
        let before = store.find(&key("m13")).await.unwrap().unwrap();
        let other = run(&earmark, &key("m13"), &charge_at(&provider.origin(), 9900)).await;
        assert_eq!(format!("{other:?}"), "Mismatch");
        let after = store.find(&key("m13")).await.unwrap().unwrap();
        assert_eq!((after.facts.state, after.facts.fence), (before.facts.state, before.facts.fence));
        assert_eq!(after.answer, before.answer);
        let history = store.history(&key("m13")).await.unwrap();
        let [mismatch] = &history[..] else { panic!("{history:?}") };
        let detail: serde_json::Value = serde_json::from_str(&mismatch.detail).unwrap();
        assert_eq!(detail["on_file"], before.fingerprint.to_string());
        assert_ne!(detail["asked"], detail["on_file"]);
        assert!(!mismatch.detail.contains("9900"), "both fingerprints, and nothing of either request");
        assert_eq!(provider.calls().len(), 1);
    }

    async fn tenants_and_consumers_have_claims_and_keys_of_their_own(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::deduplicating([]).await;
        let earmark = service(&store, &provider, keyed());
        let keys = [
            ClaimKey::new("billing", "m13").unwrap(),
            ClaimKey::in_tenant("acme", "billing", "m13").unwrap(),
            ClaimKey::in_tenant("other", "billing", "m13").unwrap(),
            ClaimKey::new("refunds", "m13").unwrap(),
        ];
        for key in &keys {
            assert!(run(&earmark, key, &charge(&provider)).await.is_confirmed());
        }
        let mut sent = provider.effects();
        assert_eq!(sent.len(), keys.len());
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), keys.len(), "the provider could not tell two of them apart");
    }

    async fn while_it_is_in_flight_another_request_is_a_mismatch_too(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([Reply::ActThenWait]).await;
        let earmark = service(&store, &provider, keyed());
        let (app, call) = (earmark.clone(), charge(&provider));
        let running = tokio::spawn(async move { run(&app, &key("m13"), &call).await });
        provider.arrived(1).await;
        let other = run(&earmark, &key("m13"), &charge_at(&provider.origin(), 9900)).await;
        assert!(matches!(other, Outcome::Mismatch), "{other:?}");
        let same = run(&earmark, &key("m13"), &charge(&provider)).await;
        assert!(matches!(same, Outcome::InFlight { .. }), "{same:?}");
        provider.release();
        assert!(running.await.unwrap().is_confirmed());
        assert_eq!(provider.calls().len(), 1);
    }

    async fn a_time_in_the_body_is_no_other_request_and_what_was_frozen_is_sent_again(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::deduplicating([Reply::ActThenDrop]).await;
        let earmark = service(&store, &provider, keyed());
        let at = |time: u32| -> HttpCall {
            charge(&provider).json(&json!({"amount": 1200, "at": time})).stable(&json!({"amount": 1200}))
        };
        let _ = run(&earmark, &key("m13"), &at(1)).await;
        let again = run(&earmark, &key("m13"), &at(2)).await;
        assert!(matches!(again, Outcome::InDoubt { .. }), "{again:?}");
        age(&db, &key("m13"), PATIENT.max.max(Duration::from_secs(60))).await;
        sweep_once(&earmark).await;
        assert_eq!(store.find(&key("m13")).await.unwrap().unwrap().facts.state, State::Confirmed);
        let calls = provider.calls();
        assert_eq!(calls.iter().map(|c| c.json()["at"].clone()).collect::<Vec<_>>(), [1, 1]);
    }
}
