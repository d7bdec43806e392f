//! B14: a provider that stores a failure under the key and replays it for ever.

use earmark_claim::policy::{Act, Cause};
use earmark_claim::state::ClosedBy;
use earmark_claim::{Declared, State};
use earmark_effects::Outcome;
use earmark_effects::http::{Answers, HttpCall, On};
use earmark_tests::claims::{age, key, keyed, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::{charge, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

/// Its table: 400 and 402 are refusals, and nothing else is said.
fn call(provider: &Provider) -> HttpCall {
    let refusals = Answers::new().provider_id("/id").refused(On::status([400, 402]), "refused");
    charge(provider).answers(refusals)
}

per_backend! {
    async fn what_the_table_calls_a_refusal_is_final_and_is_not_sent_again(db: TestDb) {
        let store = store(&db).await;
        let refusals = [400, 402].map(|status| Reply::Answer(status, json!({"error": "no"})));
        let provider = Provider::deduplicating(refusals).await;
        let earmark = service(&store, &provider, keyed());
        for message in ["400", "402"] {
            for delivery in ["first", "again"] {
                let outcome = run(&earmark, &key(message), &call(&provider)).await;
                let Outcome::Abandoned { by, class } = outcome else { panic!("{message}: {outcome:?}") };
                assert_eq!((by, class.unwrap().as_str()), (ClosedBy::Refused, "refused"), "{delivery}");
            }
        }
        assert!(sweep_once(&earmark).await.is_empty());
        assert_eq!((provider.calls().len(), provider.effects().len()), (2, 0));
    }

    async fn what_may_have_happened_is_asked_under_one_key_until_a_person_must_look(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::deduplicating([
            Reply::Answer(500, json!({})),
            Reply::Answer(503, json!({})),
            Reply::ActThen(504, json!({})),
        ])
        .await;
        let earmark = service(&store, &provider, Declared { attempts_max: 3, ..keyed() });
        let messages = ["500", "503", "504"];
        for message in messages {
            let outcome = run(&earmark, &key(message), &call(&provider)).await;
            assert!(matches!(outcome, Outcome::InDoubt { .. }), "{message}: {outcome:?}");
        }
        let mut acts = Vec::new();
        for _ in 0..3 {
            for message in messages {
                age(&db, &key(message), PATIENT.max).await;
            }
            acts.extend(sweep_once(&earmark).await.into_iter().map(|(_, act)| act));
        }
        let escalated = acts.iter().filter(|act| matches!(act, Act::Escalate(Cause::AttemptsUsed))).count();
        assert_eq!(escalated, messages.len(), "{acts:?}");
        for message in messages {
            let view = store.find(&key(message)).await.unwrap().unwrap();
            assert_eq!((view.facts.state, view.facts.attempts), (State::Escalated, 3), "{message}");
            let calls = provider.calls();
            let of_it = calls.iter().filter(|c| c.key() == view.idempotency_key.as_str()).count();
            assert_eq!(of_it, 3, "{message}: under one key, and never a new one");
        }
        assert_eq!((provider.calls().len(), provider.effects().len()), (9, 1));
    }
}
