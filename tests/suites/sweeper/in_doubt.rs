//! Claims in doubt: look, redrive, escalate, in the order of the table.

use std::time::Duration;

use earmark_claim::state::Finding;
use earmark_claim::{Declared, Failure, ProbeTerms, State};
use earmark_effects::stub::{Step, Stub};
use earmark_tests::claims::{key, keyed, natural, never};
use earmark_tests::{TestDb, per_backend};

use crate::kit::{KIND, LONG, World, new, only};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn with_probe(declared: Declared, proof: bool) -> Declared {
    let probe = ProbeTerms { lag: Duration::from_secs(5), not_found_is_proof: proof, looks_max: 2 };
    Declared { probe: Some(probe), age_max: DAY * 3, ..declared }
}

per_backend! {
    async fn an_effect_that_was_accepted_with_an_id_is_looked_for_before_it_is_called_again(db: TestDb) {
        let declared = with_probe(keyed(), true);
        let stub = Stub::new(KIND, declared.clone()).findings([Finding::CannotTell, Finding::Done { ids: vec!["ch_1".into()] }]);
        let world = World::probed(&db, stub).await;
        let accepted = Failure::unknown("accepted").with_provider_ref(Some("ch_1".into()));
        world.fail(&key("m1"), new(declared), accepted).await;
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.looked = 1));
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| (p.looked, p.confirmed) = (1, 1)));
        assert!(world.stub.calls().is_empty());
    }

    async fn a_keyed_effect_is_redriven_under_the_same_key_while_the_window_is_open(db: TestDb) {
        let stub = Stub::new(KIND, with_probe(keyed(), true)).script([Step::ActThenLose]);
        let world = World::probed(&db, stub).await;
        world.serve(&key("m1")).await;
        assert_eq!(world.state(&key("m1")).await, State::InDoubt);
        let pass = world.sweep_after(&key("m1"), LONG).await;
        assert_eq!(pass, only(|p| (p.performed, p.confirmed) = (1, 1)));
        let calls = world.stub.calls();
        assert_eq!((calls.len(), world.stub.looks()), (2, 0), "it answers the question, without a look");
        assert_eq!(calls[0], calls[1]);
        assert_eq!(world.stub.effects().len(), 1);
    }

    async fn a_window_that_is_over_is_never_called_into(db: TestDb) {
        let declared = Declared { age_max: DAY * 3, ..keyed() };
        let world = World::new(&db, Stub::new(KIND, declared.clone()).script([Step::ActThenLose])).await;
        world.serve(&key("m1")).await;
        // What a request still needs to land (the horizon, 10 s) and the margin (1 s) count, too.
        let pass = world.sweep_after(&key("m1"), DAY - Duration::from_secs(9)).await;
        assert_eq!(pass, only(|p| p.escalated = 1));
        assert_eq!(world.cause(&key("m1")).await, "window_over");
        assert_eq!(world.stub.calls().len(), 1);
        assert!(world.view(&key("m1")).await.facts.doubt);
    }

    async fn after_the_window_the_provider_is_asked(db: TestDb) {
        let world = World::probed(&db, Stub::new(KIND, with_probe(keyed(), false)).script([Step::ActThenLose])).await;
        world.serve(&key("m1")).await;
        let pass = world.sweep_after(&key("m1"), DAY * 2).await;
        assert_eq!(pass, only(|p| (p.looked, p.confirmed) = (1, 1)));
        assert_eq!(world.stub.calls().len(), 1);
    }

    async fn an_effect_without_a_key_is_looked_for_and_a_proof_that_it_did_not_happen_tries_it_again(db: TestDb) {
        let stub = Stub::new(KIND, with_probe(never(), true)).script([Step::Lose]);
        let world = World::probed(&db, stub).await;
        world.serve(&key("m1")).await;
        // Too early to be proof: the request may still land.
        let pass = world.sweep_after(&key("m1"), Duration::from_secs(9)).await;
        assert_eq!((pass.looked, pass.escalated), (1, 0));
        let view = world.view(&key("m1")).await;
        assert_eq!((view.facts.state, view.facts.looks), (State::InDoubt, 0), "it counts for nothing");
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.looked = 1));
        let view = world.view(&key("m1")).await;
        assert_eq!((view.facts.state, view.facts.doubt), (State::Retryable, false));
        assert_eq!(world.sweep().await, only(|p| (p.performed, p.confirmed) = (1, 1)));
        assert_eq!(world.stub.effects().len(), 1);
    }

    async fn looks_that_could_be_proof_are_counted_and_used_up(db: TestDb) {
        let stub = Stub::new(KIND, with_probe(never(), true))
            .script([Step::Lose])
            .findings([Finding::CannotTell, Finding::CannotTell]);
        let world = World::probed(&db, stub).await;
        world.serve(&key("m1")).await;
        for looks in 1..=2 {
            assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.looked = 1));
            assert_eq!(world.view(&key("m1")).await.facts.looks, looks);
        }
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.escalated = 1));
        assert_eq!(world.cause(&key("m1")).await, "looks_used");
        assert_eq!(world.stub.calls().len(), 1, "a repeat might be a second effect");
    }

    async fn looks_that_prove_nothing_go_on_until_the_age_is_used_up(db: TestDb) {
        let stub = Stub::new(KIND, with_probe(never(), false)).script([Step::Lose]);
        let world = World::probed(&db, stub).await;
        world.serve(&key("m1")).await;
        for _ in 0..4 {
            assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.looked = 1));
        }
        assert_eq!(world.sweep_after(&key("m1"), DAY * 3).await, only(|p| p.escalated = 1));
        assert_eq!(world.cause(&key("m1")).await, "age_used");
    }

    async fn what_no_rule_decides_goes_to_a_person_at_once(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never()).script([Step::ActThenLose])).await;
        world.serve(&key("m1")).await;
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.escalated = 1));
        assert_eq!(world.cause(&key("m1")).await, "no_rule_decides");
        assert_eq!(world.stub.calls().len(), 1);
    }

    async fn a_natural_effect_is_redriven(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural()).script([Step::ActThenLose, Step::Panic])).await;
        world.serve(&key("m1")).await;
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| p.performed = 1), "it panicked: in doubt again");
        assert_eq!(world.sweep_after(&key("m1"), LONG).await, only(|p| (p.performed, p.confirmed) = (1, 1)));
    }
}
