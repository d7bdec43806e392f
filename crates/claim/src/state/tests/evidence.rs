//! Facts about the effect, whoever brings them: never lost, never refused.

use super::kit::*;
use crate::state::State::{Abandoned, Confirmed, Escalated, Held, InDoubt, InFlight, Retryable};
use crate::state::{Closed, ClosedBy, Event, Facts, Finding, Ruling, State, Verb, next};

const OPEN: [State; 5] = [Held, InFlight, Retryable, InDoubt, Escalated];

/// The three ways in which a provider's id comes in: evidence, a look, a late answer.
fn ways(f: &Facts, id: &str) -> [crate::state::Move; 4] {
    [
        evidence(f, found(&[id])),
        look(f, found(&[id])),
        settle_late(f, done_as(id)),
        settle_late(f, accepted_as(id)),
    ]
}

#[test]
fn evidence_that_it_was_done_confirms_every_open_claim() {
    for state in OPEN {
        let m = evidence(&facts(state), found(&["a"]));
        let g = after(&facts(state), &m);
        assert_eq!((m.verb, g.state), (Verb::EvidenceDone, Confirmed), "{state}");
        assert_eq!(m.set.closed, Closed::By(ClosedBy::Evidence), "{state}");
        assert_eq!(g.provider_ref.as_deref(), Some("a"), "{state}");
    }
}

#[test]
fn evidence_while_in_flight_ends_the_attempt_with_its_lease_since_its_holder_may_still_be_calling() {
    let f = facts(InFlight).with(|f| f.due_at = Some(at(NOW + 40))).on_file("a");
    for m in [evidence(&f, found(&["a"])), evidence(&f, found(&["b"]))] {
        assert_eq!(after(&f, &m).last_end_at, Some(at(NOW + 40)), "{:?}", m.verb);
    }
}

#[test]
fn a_contradicted_claim_is_left_only_by_a_ruling() {
    let f = facts(Escalated).contradicted();
    for m in [
        evidence(&f, found(&[])),
        look(&f, found(&["a"])),
        settle(&f, done()),
        settle_late(&f, done()),
        evidence(&f, Finding::Refused { covers_all: true }),
        look(&f, Finding::NotDone),
    ] {
        assert!(!m.moves() && m.set.contradicted, "{m:?}");
    }
    for ruling in [rule_done(), Ruling::NotDone, Ruling::Repeat] {
        assert!(!made(rule(&f, ruling)).set.contradicted);
    }
}

#[test]
fn evidence_that_an_abandoned_claim_was_done_is_a_contradiction() {
    for f in [facts(Abandoned), facts(Abandoned).natural(), facts(Abandoned).doubt()] {
        for m in [
            evidence(&f, found(&[])),
            evidence(&f, found(&["a"])),
            look(&f, found(&[])),
            settle(&f, done()),
            settle_late(&f, done_as("a")),
        ] {
            let g = after(&f, &m);
            assert_eq!((m.verb, g.state, g.contradicted, g.doubt), (Verb::Contradict, Escalated, true, true));
            assert_eq!(m.set.closed, Closed::Reopen);
        }
    }
}

#[test]
fn two_different_provider_ids_move_every_state_to_escalated_contradicted() {
    for state in State::ALL {
        let f = facts(state).on_file("a");
        for m in ways(&f, "b") {
            let g = after(&f, &m);
            assert_eq!((m.verb, g.state, g.contradicted, g.doubt), (Verb::Contradict, Escalated, true, true));
            assert_eq!(g.provider_ref.as_deref(), Some("a"), "{state}: the first one stays on file");
        }
    }
}

#[test]
fn two_ids_from_one_look_or_one_piece_of_evidence_contradict_and_the_first_is_filed() {
    for state in State::ALL {
        let f = facts(state);
        for m in [look(&f, found(&["a", "b"])), evidence(&f, found(&["a", "b"]))] {
            assert_eq!((m.verb, m.to, m.set.contradicted), (Verb::Contradict, Escalated, true), "{state}");
            assert_eq!(m.set.provider_ref.as_deref(), Some("a"), "{state}");
        }
        assert_ne!(look(&f, found(&["a", "a"])).verb == Verb::Contradict, state != Abandoned);
    }
}

#[test]
fn the_holders_own_answer_with_another_id_than_the_one_on_file_contradicts() {
    for f in [facts(InFlight).on_file("a"), facts(InDoubt).on_file("a")] {
        for outcome in [done_as("b"), accepted_as("b")] {
            assert_eq!(settle(&f, outcome.clone()).verb, Verb::Contradict, "{outcome:?} in {}", f.state);
        }
        assert_eq!(settle(&f, done_as("a")).to, Confirmed);
    }
}

#[test]
fn a_natural_effect_may_have_many_ids() {
    for state in State::ALL.into_iter().filter(|s| *s != Abandoned) {
        let f = facts(state).natural().on_file("a");
        for m in ways(&f, "b") {
            assert_ne!(m.verb, Verb::Contradict, "{state}");
            assert_eq!(m.set.provider_ref.as_deref(), Some("a"), "{state}");
        }
    }
    assert_eq!(settle(&facts(InFlight).natural().on_file("a"), done_as("b")).to, Confirmed);
}

#[test]
fn an_id_that_came_with_a_contradiction_is_on_file_so_that_a_second_one_is_still_seen_to_differ() {
    let abandoned = facts(Abandoned);
    let contradicted = after(&abandoned, &evidence(&abandoned, found(&["a"])));
    let ruled = after(&contradicted, &made(rule(&contradicted, rule_done())));
    assert_eq!((ruled.state, ruled.provider_ref.as_deref()), (Confirmed, Some("a")));
    assert_eq!(evidence(&ruled, found(&["b"])).verb, Verb::Contradict);
}

#[test]
fn the_same_id_again_at_a_confirmed_claim_is_kept_and_moves_nothing() {
    let f = facts(Confirmed).on_file("a");
    for m in ways(&f, "a") {
        assert!(!m.moves() && !m.set.contradicted, "{:?}", m.verb);
    }
}

#[test]
fn a_tombstone_still_takes_evidence_and_is_contradicted_by_it() {
    let purged = |f: Facts| f.with(|f| f.purged = true);
    assert_eq!(evidence(&purged(facts(Abandoned)), found(&[])).to, Escalated);
    assert_eq!(evidence(&purged(facts(Confirmed).on_file("a")), found(&["b"])).to, Escalated);
    assert!(evidence(&purged(facts(Confirmed)), Finding::NotDone).new_fact);
}

#[test]
fn evidence_of_a_final_refusal_of_all_attempts_abandons_what_is_in_doubt_and_nothing_else() {
    for state in State::ALL {
        let m = evidence(&facts(state), Finding::Refused { covers_all: true });
        if state == InDoubt {
            assert_eq!((m.verb, m.to), (Verb::EvidenceRefused, Abandoned));
        } else {
            assert_eq!((m.verb, m.moves(), m.new_fact), (Verb::Evidence, false, true), "{state}");
        }
    }
    assert!(!evidence(&facts(InDoubt).doubt(), Finding::Refused { covers_all: false }).moves());
}

#[test]
fn evidence_that_it_was_not_done_is_kept_and_clears_nothing() {
    for state in State::ALL {
        let f = facts(state).proof();
        let m = evidence(&f, Finding::NotDone);
        assert_eq!((m.verb, m.moves(), m.new_fact, m.set.doubt), (Verb::Evidence, false, true, f.doubt));
    }
}

#[test]
fn a_repeated_webhook_is_no_new_fact_and_moves_nothing() {
    for state in State::ALL {
        for finding in [found(&["a"]), found(&["b"]), Finding::Refused { covers_all: true }] {
            let f = facts(state).on_file("a");
            let m = made(next(&f, &Event::Evidence { finding, known: true }));
            assert!(!m.moves() && !m.new_fact, "{state}");
        }
    }
    assert!(!evidence(&facts(InDoubt), Finding::CannotTell).new_fact);
}
