//! B04: a call ends before its claim's lease does, or it is not begun.

use std::time::Duration;

use earmark_claim::{Declared, State, StoreOptions};
use earmark_effects::{Error, Outcome};
use earmark_tests::claims::{key, never, store, store_with};
use earmark_tests::effects::{By, PATIENT};
use earmark_tests::http::{charge, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};

per_backend! {
    async fn a_lease_that_is_not_longer_than_call_and_margin_is_refused_at_start(db: TestDb) {
        let timeout = Duration::from_secs(10);
        let margin = Duration::from_secs(1);
        let just_longer = timeout + margin + Duration::from_micros(1);
        for (lease, fits) in [(just_longer, true), (timeout + margin, false), (timeout, false)] {
            let options = StoreOptions { margin, ..StoreOptions::new(lease) };
            let effect = By {
                declared: Declared { call_timeout: timeout, ..never() },
                ..By::new(|_, _| Ok(serde_json::Value::Null))
            };
            let store = store_with(&db, options).await;
            let built = earmark_effects::Earmark::builder(store.clone()).effect(effect.clone()).build();
            match built {
                Ok(_) => assert!(fits, "{lease:?}"),
                Err(Error::Config(faults)) => assert!(!fits && faults[0].contains("lease"), "{faults:?}"),
                Err(other) => panic!("{other}"),
            }
            // And by the store itself, for those who use it alone.
            let new = earmark_claim::NewClaim::new("a.kind", "nobody", "{}", effect.declared);
            let claimed = store.claim(&key(&format!("{lease:?}")), new).await;
            assert_eq!(claimed.is_ok(), fits, "{lease:?}: {claimed:?}");
        }
    }

    async fn a_provider_that_never_answers_is_left_before_anybody_else_may_start(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([Reply::ActThenHold]).await;
        let declared = Declared { call_timeout: Duration::from_millis(500), ..never() };
        let earmark = service(&store, &provider, declared);
        let (app, call) = (earmark.clone(), charge(&provider));
        let running = tokio::spawn(async move { run(&app, &key("m4"), &call).await });
        provider.arrived(1).await;
        assert!(sweep_once(&earmark).await.is_empty(), "nobody sweeps a live claim");
        let outcome = running.await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
        let facts = store.find(&key("m4")).await.unwrap().unwrap().facts;
        assert!(facts.last_end_at.unwrap() < facts.created_at.plus(store.options().lease));
        // Whatever the sweep does then, it does not call.
        earmark_tests::claims::age(&db, &key("m4"), PATIENT.max).await;
        sweep_once(&earmark).await;
        assert_eq!(store.find(&key("m4")).await.unwrap().unwrap().facts.state, State::Escalated);
        assert_eq!((provider.calls().len(), provider.effects().len()), (1, 1));
    }
}
