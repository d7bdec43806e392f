//! What a process can do that has none of the service's code.

use std::time::Duration;

use earmark_claim::State;
use earmark_claim::policy::Act;
use earmark_claim::state::Taking;
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Outcome, Retaken};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::{PATIENT, earmark_with, probed};
use earmark_tests::http::{anonymous, charge, run, service, sidecar};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

per_backend! {
    async fn a_sidecar_repeats_what_it_never_registered_under_the_same_key(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::deduplicating([Reply::ActThenDrop]).await;
        let _ = run(&service(&store, &provider, keyed()), &key("m1"), &charge(&provider)).await;
        age(&db, &key("m1"), PATIENT.max).await;
        let sidecar = sidecar(&store, anonymous(&provider)).build().unwrap();
        let retaken = sidecar.retake(&key("m1"), Taking::Redrive).await.unwrap();
        assert!(matches!(retaken, Retaken::Performed(Outcome::Confirmed(_))), "{retaken:?}");
        let calls = provider.calls();
        assert_eq!((calls.len(), provider.effects().len()), (2, 1));
        assert_eq!(calls[0].key(), calls[1].key());
        assert_eq!(calls[0].body, calls[1].body);
    }

    async fn a_sidecar_looks_for_what_it_never_registered(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([Reply::ActThenDrop, Reply::Answer(500, json!({}))]).await;
        let service = service(&store, &provider, probed(never()));
        for message in ["happened", "did not"] {
            let outcome = run(&service, &key(message), &charge(&provider)).await;
            assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
            age(&db, &key(message), PATIENT.max).await;
        }
        let sidecar = sidecar(&store, anonymous(&provider)).build().unwrap();
        let acts = sweep_once(&sidecar).await;
        assert_eq!(acts.iter().filter(|(_, act)| *act == Act::Look).count(), 2, "{acts:?}");
        let found = store.find(&key("happened")).await.unwrap().unwrap();
        assert_eq!((found.facts.state, found.facts.provider_ref.as_deref()), (State::Confirmed, Some("ch_1")));
        let cleared = store.find(&key("did not")).await.unwrap().unwrap().facts;
        assert_eq!((cleared.state, cleared.doubt), (State::Retryable, false));
        assert_eq!((provider.looks(), provider.calls().len()), (2, 2));
    }

    async fn a_sidecar_leaves_alone_what_needs_the_services_code(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([]).await;
        let stub = Stub::new("mail.welcome", keyed()).script([Step::ActThenLose]);
        let _ = earmark_with(&store, &stub).run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        age(&db, &key("m1"), PATIENT.max).await;
        let sidecar = sidecar(&store, anonymous(&provider)).build().unwrap();
        assert!(sweep_once(&sidecar).await.is_empty());
        // But for what needs none: nothing is left to try.
        age(&db, &key("m1"), Duration::from_secs(2 * 24 * 3600)).await;
        assert!(matches!(sweep_once(&sidecar).await[..], [(_, Act::Escalate(_))]));
        assert_eq!(stub.calls().len(), 1);
    }
}
