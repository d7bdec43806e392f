//! B02: the key is the same bytes in every request, whoever makes it.

use std::time::Duration;

use earmark_claim::policy::Cause;
use earmark_claim::state::{Ruling, Seen};
use earmark_claim::{Decision, State};
use earmark_effects::Outcome;
use earmark_tests::claims::{age, key, keyed, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::{charge, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};

per_backend! {
    async fn service_sweepers_and_a_person_send_one_key_for_one_claim(db: TestDb) {
        let provider = Provider::deduplicating(vec![Reply::ActThenDrop; 3]).await;
        let opened = store(&db).await;
        let app = service(&opened, &provider, keyed());
        for delivery in ["first", "second"] {
            let outcome = run(&app, &key("m2"), &charge(&provider)).await;
            assert!(matches!(outcome, Outcome::InDoubt { .. }), "{delivery}: {outcome:?}");
        }
        assert_eq!(provider.calls().len(), 1, "the second delivery made no call");
        // Two sweepers, each new: nothing but the row tells them the key.
        for _ in 0..2 {
            age(&db, &key("m2"), PATIENT.max).await;
            sweep_once(&service(&store(&db).await, &provider, keyed())).await;
        }
        assert_eq!(provider.calls().len(), 3);
        opened.escalate(&key("m2"), Cause::NoRuleDecides, Some("ana"), None).await.unwrap();
        age(&db, &key("m2"), Duration::from_secs(60)).await;
        let view = opened.find(&key("m2")).await.unwrap().unwrap();
        let decision = Decision {
            seen: Seen { state: view.facts.state, fence: view.facts.fence, revision: view.facts.revision },
            ruling: Ruling::Repeat,
            actor: "ana".into(),
            reason: "the provider sees nothing wrong".into(),
            evidence: Vec::new(),
            horizon: None,
            looked: false,
        };
        opened.resolve(&key("m2"), decision).await.unwrap();
        sweep_once(&app).await;
        let view = opened.find(&key("m2")).await.unwrap().unwrap();
        assert_eq!(view.facts.state, State::Confirmed);
        let calls = provider.calls();
        assert_eq!(calls.len(), 4);
        for call in &calls {
            assert_eq!(call.header("idempotency-key"), [view.idempotency_key.as_str()]);
            assert_eq!(call.body, calls[0].body);
        }
        let attempts: Vec<_> = calls.iter().map(|c| c.header("earmark-attempt")[0].to_owned()).collect();
        assert_eq!(attempts, ["1", "2", "3", "4"]);
        assert_eq!(provider.effects().len(), 1);
        assert_eq!(db.number("SELECT count(*) FROM earmark_claim").await, 1, "and one claim");
    }
}
