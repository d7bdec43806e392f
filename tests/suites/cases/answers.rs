//! B16: answers that are neither plainly yes nor plainly no.

use std::time::Duration;

use earmark_claim::policy::Act;
use earmark_claim::{Declared, State};
use earmark_effects::Outcome;
use earmark_effects::http::{Answers, HttpProbe, On};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::{PATIENT, probed};
use earmark_tests::http::{charge, run, service};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

per_backend! {
    async fn a_key_in_use_is_still_unknown_and_is_asked_again_later(db: TestDb) {
        let store = store(&db).await;
        let in_use = Reply::Answer(409, json!({"error": "in_use"}));
        let provider = Provider::start([Reply::ActThenDrop, in_use, Reply::Answer(200, json!({"id": "ch_1"}))]).await;
        let earmark = service(&store, &provider, keyed());
        let _ = run(&earmark, &key("m16"), &charge(&provider)).await;
        for expected in [State::InDoubt, State::Confirmed] {
            age(&db, &key("m16"), PATIENT.max).await;
            sweep_once(&earmark).await;
            assert_eq!(store.find(&key("m16")).await.unwrap().unwrap().facts.state, expected);
        }
        assert_eq!(provider.calls().len(), 3);
        assert_eq!(provider.effects().len(), 1);
    }

    async fn accepted_is_enough_or_is_looked_at_as_the_table_says(db: TestDb) {
        let store = store(&db).await;
        let accepted = || Reply::ActThen(202, json!({"id": "ch_1"}));
        let provider = Provider::start([accepted(), accepted(), accepted()]).await;
        let earmark = service(&store, &provider, probed(never()));
        let enough = charge(&provider).answers(Answers::new().provider_id("/id").done(On::status(202)));
        assert!(run(&earmark, &key("enough"), &enough).await.is_confirmed());
        let by_id = HttpProbe::get(&provider.url("/charges/{provider_ref}")).done(
            On::status(200).json("/has_more", false),
            "/data/0/id",
        );
        let looked_at =
            charge(&provider).answers(Answers::new().provider_id("/id").accepted(On::status(202))).probe(by_id);
        let outcome = run(&earmark, &key("looked at"), &looked_at).await;
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
        let view = store.find(&key("looked at")).await.unwrap().unwrap();
        assert_eq!(view.facts.provider_ref.as_deref(), Some("ch_1"), "never silently forgotten");
        age(&db, &key("looked at"), PATIENT.max).await;
        let acts = sweep_once(&earmark).await;
        assert_eq!(acts, [(key("looked at"), Act::Look)], "asked, and not called again");
        assert_eq!(provider.calls().len(), 2);
    }

    async fn success_with_an_error_in_it_is_what_the_table_says(db: TestDb) {
        let store = store(&db).await;
        let odd = || Reply::Answer(200, json!({"error": {"code": "declined"}}));
        let provider = Provider::start([odd(), odd()]).await;
        let earmark = service(&store, &provider, never());
        let table = Answers::new()
            .refused(On::status(200).json("/error/code", "declined"), "declined")
            .done(On::status(200).json_absent("/error"));
        let outcome = run(&earmark, &key("m16"), &charge(&provider).answers(table)).await;
        assert!(matches!(outcome, Outcome::Abandoned { .. }), "{outcome:?}");
        let careful = Answers::new().unknown(On::status(200).json_present("/error"), "odd");
        let outcome = run(&earmark, &key("m17"), &charge(&provider).answers(careful)).await;
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
    }

    async fn a_provider_that_asks_for_an_hour_gets_it(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([Reply::AnswerWith(429, "Retry-After", "3600")]).await;
        let hour = Duration::from_secs(3600);
        let quick = earmark_claim::Backoff { base: Duration::from_millis(1), max: Duration::from_millis(1) };
        let earmark = earmark_tests::http::sidecar(&store, earmark_tests::http::anonymous(&provider))
            .http_kind(earmark_effects::HttpKind::new(earmark_tests::http::KIND, "stub", never()))
            .backoff(quick)
            .build()
            .unwrap();
        let outcome = run(&earmark, &key("m16"), &charge(&provider)).await;
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        let facts = store.find(&key("m16")).await.unwrap().unwrap().facts;
        assert!(facts.due_at.unwrap() >= facts.last_end_at.unwrap().plus(hour));
        assert!(sweep_once(&earmark).await.is_empty(), "nobody takes it before");
        let early = run(&earmark, &key("m16"), &charge(&provider)).await;
        assert!(matches!(early, Outcome::Retryable { .. }), "{early:?}");
        assert_eq!(provider.calls().len(), 1);
        age(&db, &key("m16"), hour).await;
        assert!(run(&earmark, &key("m16"), &charge(&provider)).await.is_confirmed());
        assert_eq!((provider.calls().len(), provider.effects().len()), (2, 1));
    }

    async fn no_content_is_a_success(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([Reply::ActThen(204, json!(null))]).await;
        let earmark = service(&store, &provider, Declared { attempts_max: 1, ..never() });
        let outcome = run(&earmark, &key("m16"), &charge(&provider)).await;
        assert!(outcome.is_confirmed(), "{outcome:?}");
    }
}
