//! What is registered now may be stricter than what was frozen, never looser.

use std::time::Duration;

use earmark_claim::policy::{Act, Cause};
use earmark_claim::state::{Finding, Refused, Taking};
use earmark_claim::{ClaimStore, Declared, ProbeTerms, RepeatSafety, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Error, Retaken};
use earmark_tests::claims::{age, key, keyed, natural, never, store};
use earmark_tests::effects::{PATIENT, earmark_with, probed};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

fn keyed_for(minutes: u64) -> Declared {
    Declared { repeat: RepeatSafety::Keyed { window: Duration::from_secs(60 * minutes) }, ..never() }
}

/// A claim in doubt of a kind that declared this when it was made, an hour ago.
async fn doubted_an_hour_ago(db: &TestDb, store: &ClaimStore, name: &str, declared: Declared) -> Stub {
    let stub = Stub::new("mail.welcome", declared).script([Step::ActThenLose]);
    let _ = earmark_with(store, &stub).run::<Stub>(&key(name), &json!({})).await.unwrap();
    age(db, &key(name), Duration::from_secs(3600)).await;
    let now_due = format!("UPDATE earmark_claim SET due_at = last_end_at WHERE message_id = '{name}'");
    db.execute(&now_due).await.unwrap();
    stub
}

async fn state(store: &ClaimStore, name: &str) -> State {
    store.find(&key(name)).await.unwrap().unwrap().facts.state
}

per_backend! {
    async fn a_repeat_that_is_not_safe_by_either_declaration_is_refused(db: TestDb) {
        let store = store(&db).await;
        for (name, frozen, registered) in [
            ("withdrawn", keyed(), never()),
            ("shortened", keyed(), keyed_for(30)),
            ("no longer natural", natural(), never()),
            ("a deploy cannot loosen", never(), natural()),
            ("nor lengthen", keyed_for(30), keyed()),
        ] {
            let made = doubted_an_hour_ago(&db, &store, name, frozen).await;
            let now = Stub::new("mail.welcome", registered);
            let earmark = earmark_with(&store, &now);
            let retaken = earmark.retake(&key(name), Taking::Redrive).await.unwrap();
            let Retaken::Refused(why) = retaken else { panic!("{name}: {retaken:?}") };
            assert!(matches!(why, Refused::RepeatNotSafe { .. } | Refused::NothingLeft { .. }), "{name}: {why}");
            let acts = sweep_once(&earmark).await;
            assert!(matches!(acts[..], [(_, Act::Escalate(Cause::NoRuleDecides | Cause::WindowOver))]), "{acts:?}");
            assert_eq!((now.calls().len(), made.calls().len()), (0, 1), "{name}");
        }
    }

    async fn a_probe_that_proves_nothing_any_more_clears_nothing(db: TestDb) {
        let store = store(&db).await;
        let terms = |lag, not_found_is_proof| {
            let probe = ProbeTerms { lag: Duration::from_secs(lag), not_found_is_proof, looks_max: 3 };
            Declared { probe: Some(probe), ..never() }
        };
        for (name, registered) in [("withdrawn", terms(1, false)), ("slower than thought", terms(7200, true))] {
            let made = doubted_an_hour_ago(&db, &store, name, probed(never())).await;
            let now = Stub::new("mail.welcome", registered).findings([Finding::NotDone]);
            sweep_once(&earmark_with(&store, &now)).await;
            assert_eq!(now.looks(), 1, "{name}");
            assert_eq!(state(&store, name).await, State::InDoubt, "{name}");
            assert_eq!((now.calls().len(), made.effects().len()), (0, 1), "{name}");
        }
    }

    async fn done_is_done_whatever_is_declared(db: TestDb) {
        let store = store(&db).await;
        doubted_an_hour_ago(&db, &store, "m1", probed(never())).await;
        let terms = ProbeTerms { lag: Duration::ZERO, not_found_is_proof: false, looks_max: 1 };
        let found = Finding::Done { ids: vec!["ch_9".into()] };
        let now = Stub::new("mail.welcome", Declared { probe: Some(terms), ..never() }).findings([found]);
        sweep_once(&earmark_with(&store, &now)).await;
        assert_eq!(state(&store, "m1").await, State::Confirmed);
    }

    async fn a_claim_of_a_kind_that_is_not_known_here_is_neither_taken_nor_looked_for(db: TestDb) {
        let store = store(&db).await;
        doubted_an_hour_ago(&db, &store, "m1", keyed()).await;
        let elsewhere = earmark_with(&store, &Stub::new("mail.farewell", keyed()));
        let refused = elsewhere.retake(&key("m1"), Taking::Redrive).await;
        assert!(matches!(refused, Err(Error::NotRegistered(_))), "{refused:?}");
        let view = store.find(&key("m1")).await.unwrap().unwrap();
        assert!(matches!(elsewhere.look(&view).await, Err(Error::NotRegistered(_))));
        assert!(!elsewhere.can_perform(&view) && !elsewhere.can_look(&view));
        assert!(sweep_once(&elsewhere).await.is_empty());
        assert_eq!((view.facts.state, view.facts.fence), (State::InDoubt, 1));
        assert_eq!(state(&store, "m1").await, State::InDoubt, "no attempt was begun that nobody can make");
        let unasked = Earmark::builder(store).effect(Stub::new("mail.welcome", keyed())).backoff(PATIENT);
        assert!(!unasked.build().unwrap().can_look(&view), "registered, but without a probe");
    }
}
