//! Held, in flight and retryable claims.

use std::time::Duration;

use earmark_claim::state::{Finding, Ruling, Seen};
use earmark_claim::{Decision, ErrorClass, Failure, Joined, NewClaim, State, When};
use earmark_effects::stub::{Step, Stub};
use earmark_tests::claims::{age, key, keyed, natural, never};
use earmark_tests::effects::unbroken;
use earmark_tests::{TestDb, per_backend};
use sea_orm::{SqliteTransactionMode, TransactionOptions, TransactionTrait};

use crate::kit::{KIND, LONG, World, new, only, past_lease};

/// Inside a transaction of the service's own, which commits; then the service dies.
async fn held(world: &World<'_>, id: &str, claim: NewClaim) {
    // SQLite takes the write lock first.
    let sqlite = world.db.backend() == earmark_tests::Backend::Sqlite;
    let options = TransactionOptions {
        sqlite_transaction_mode: sqlite.then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let tx = world.db.connection().begin_with_options(options).await.unwrap();
    let joined = world.store().claim_in(&tx, &key(id), claim).await.unwrap();
    assert!(matches!(joined, Joined::Held(_)));
    tx.commit().await.unwrap();
}

/// Ruled *repeat* while it carries doubt.
async fn granted_repeat(world: &World<'_>, id: &str) {
    age(world.db, &key(id), LONG).await;
    let view = world.view(&key(id)).await;
    let f = &view.facts;
    let decision = Decision {
        seen: Seen { state: f.state, fence: f.fence, revision: f.revision },
        ruling: Ruling::Repeat,
        actor: "K. Lang".into(),
        reason: "the provider lost it".into(),
        evidence: vec![],
        horizon: None,
        looked: false,
    };
    assert_eq!(world.store().resolve(&key(id), decision).await.unwrap(), State::Retryable);
}

per_backend! {
    async fn a_lease_that_is_over_is_a_doubt_and_then_a_decision_in_the_same_pass(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m1"), new(natural())).await;
        assert_eq!(world.sweep().await.due, 0, "its holder is believed");
        assert_eq!(world.state(&key("m1")).await, State::InFlight);
        let pass = world.sweep_after(&key("m1"), past_lease()).await;
        assert_eq!(pass, only(|p| (p.doubted, p.performed, p.confirmed) = (1, 1, 1)));
        assert_eq!(world.state(&key("m1")).await, State::Confirmed);
        assert_eq!(world.stub.effects().len(), 1);
    }

    async fn a_crash_after_the_callers_commit_is_performed_by_the_sweep(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never())).await;
        held(&world, "m1", new(never())).await;
        assert_eq!(world.sweep().await.due, 0, "it is left to its maker first");
        let pass = world.sweep_after(&key("m1"), past_lease()).await;
        assert_eq!(pass, only(|p| (p.performed, p.confirmed) = (1, 1)));
        assert_eq!(world.state(&key("m1")).await, State::Confirmed);
        assert_eq!(world.stub.calls().len(), 1);
    }

    async fn what_must_not_be_sent_any_more_expires_without_a_call(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never())).await;
        let soon = || NewClaim { send_by: Some(When::In(Duration::from_secs(30))), ..new(never()) };
        held(&world, "held", soon()).await;
        world.fail(&key("retryable"), soon(), Failure::not_sent("refused_connection")).await;
        assert_eq!(world.state(&key("retryable")).await, State::Retryable);
        age(&db, &key("held"), LONG).await;
        let pass = world.sweep_after(&key("retryable"), LONG).await;
        assert_eq!((pass.due, pass.expired, pass.performed, pass.escalated), (2, 2, 0, 0));
        assert_eq!(world.state(&key("held")).await, State::Abandoned);
        assert_eq!(world.state(&key("retryable")).await, State::Abandoned);
        assert!(world.stub.calls().is_empty());
    }

    async fn a_doubt_that_must_not_be_sent_any_more_goes_to_a_person_and_is_not_abandoned(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never())).await;
        let later = NewClaim { send_by: Some(When::In(LONG * 2)), ..new(never()) };
        world.fail(&key("m1"), later, Failure::unknown("timeout")).await;
        assert_eq!(world.sweep_after(&key("m1"), Duration::from_secs(20)).await.escalated, 1);
        granted_repeat(&world, "m1").await;
        let pass = world.sweep_after(&key("m1"), LONG * 2).await;
        assert_eq!(pass, only(|p| p.expired = 1));
        assert_eq!(world.state(&key("m1")).await, State::Escalated);
        assert!(world.stub.calls().is_empty());
    }

    async fn a_retryable_claim_is_tried_after_its_backoff_and_not_before(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never())).await;
        let asked = Failure::not_sent("rate_limited").retry_after(Some(Duration::from_secs(900)));
        world.fail(&key("m1"), new(never()), asked).await;
        let pass = world.sweep_after(&key("m1"), Duration::from_secs(890)).await;
        assert_eq!(pass.due, 0, "the provider asked to wait");
        let pass = world.sweep_after(&key("m1"), Duration::from_secs(11)).await;
        assert_eq!(pass, only(|p| (p.performed, p.confirmed) = (1, 1)));
    }

    async fn used_up_attempts_or_age_and_faults_that_no_retry_mends_go_to_a_person_with_the_cause(db: TestDb) {
        let stub = Stub::new(KIND, natural()).script(vec![Step::Lose; 5]);
        let world = World::new(&db, stub).await;
        world.serve(&key("attempts")).await;
        for _ in 0..4 {
            assert_eq!(world.sweep_after(&key("attempts"), LONG).await.performed, 1);
        }
        assert_eq!(world.sweep_after(&key("attempts"), LONG).await.escalated, 1);
        assert_eq!(world.cause(&key("attempts")).await, "attempts_used");
        assert_eq!(world.stub.calls().len(), 5, "attempts for life");

        world.fail(&key("age"), new(natural()), Failure::not_sent("refused_connection")).await;
        assert_eq!(world.sweep_after(&key("age"), natural().age_max).await.escalated, 1);
        assert_eq!(world.cause(&key("age")).await, "age_used");

        world.fail(&key("fault"), new(natural()), Failure::not_sent(ErrorClass::ORIGIN_NOT_ALLOWED)).await;
        assert_eq!(world.sweep_after(&key("fault"), LONG).await.escalated, 1);
        assert_eq!(world.cause(&key("fault")).await, "fault");
    }

    async fn attempts_that_were_not_sent_use_up_age_and_not_attempts(db: TestDb) {
        let stub = Stub::new(KIND, never()).script(vec![Step::NotSent("down"); 8]);
        let world = World::limited(&db, stub, unbroken()).await;
        world.serve(&key("m1")).await;
        for _ in 0..7 {
            let pass = world.sweep_after(&key("m1"), LONG).await;
            assert_eq!(pass, only(|p| p.performed = 1));
        }
        assert!(world.stub.calls().is_empty());
        assert_eq!(world.sweep_after(&key("m1"), LONG).await.confirmed, 1);
    }

    async fn evidence_that_comes_before_the_sweep_leaves_it_nothing_to_do(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m1"), new(natural())).await;
        let evidence = earmark_claim::Evidence {
            source: "webhook:stub".into(),
            finding: Finding::Done { ids: vec!["ch_1".into()] },
            detail: serde_json::json!({}),
            answer: None,
        };
        world.store().record_evidence(&earmark_claim::About::Key(key("m1")), evidence).await.unwrap();
        assert_eq!(world.sweep().await.due, 0);
        assert!(world.stub.calls().is_empty());
    }

    async fn a_claim_of_a_day_ago_is_judged_by_the_stricter_of_what_is_frozen_and_what_is_registered(db: TestDb) {
        // Frozen as natural; the code that runs now says that a repeat may be a second effect.
        let world = World::new(&db, Stub::new(KIND, never())).await;
        world.crash(&key("m1"), new(natural())).await;
        let pass = world.sweep_after(&key("m1"), past_lease()).await;
        assert_eq!(pass, only(|p| (p.doubted, p.escalated) = (1, 1)));
        // And the other way round.
        let other = World::new(&db, Stub::new(KIND, keyed())).await;
        other.crash(&key("m2"), new(never())).await;
        assert_eq!(other.sweep_after(&key("m2"), past_lease()).await.escalated, 1);
        assert!(world.stub.calls().is_empty() && other.stub.calls().is_empty());
    }
}
