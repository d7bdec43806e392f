//! Asking the provider.

use super::kit::*;
use crate::state::State::{Abandoned, Confirmed, InDoubt, Retryable};
use crate::state::{Closed, ClosedBy, Facts, Finding, State, Taking, Verb};

/// In doubt after a redrive, with a probe whose "not found" is proof.
fn in_doubt() -> Facts {
    facts(InDoubt).doubt().proof()
}

fn not_done(f: &Facts, fence: u64, begun_at: i64) -> crate::state::Move {
    look_of(f, fence, at(begun_at), Finding::NotDone)
}

#[test]
fn not_done_as_proof_makes_it_retryable_and_clears_the_doubt() {
    let f = in_doubt();
    let m = not_done(&f, f.fence, PROOF_FROM + 1);
    let g = after(&f, &m);
    assert_eq!((m.verb, g.state, g.doubt), (Verb::FoundNotDone, Retryable, false));
    assert!(g.is_due());
}

#[test]
fn a_look_is_proof_only_if_it_began_later_than_the_newest_end_and_horizon_and_lag() {
    let f = in_doubt();
    for begun in [0, LAST_END, LAST_END + HORIZON as i64, PROOF_FROM - 1, PROOF_FROM] {
        let m = not_done(&f, f.fence, begun);
        assert!(!m.moves() && m.set.doubt && m.set.looks == 0, "begun at {begun}");
    }
    let just_later = crate::time::Timestamp::from_micros(at(PROOF_FROM).as_micros() + 1);
    assert!(look_of(&f, f.fence, just_later, Finding::NotDone).moves());
}

#[test]
fn a_look_for_an_earlier_fence_proves_nothing() {
    let f = in_doubt();
    let m = not_done(&f, f.fence - 1, NOW);
    assert!(!m.moves() && m.set.doubt && m.set.looks == 0);
}

#[test]
fn not_found_is_proof_only_where_it_is_declared_to_be() {
    let f = facts(InDoubt).doubt().search();
    let m = not_done(&f, f.fence, NOW);
    assert!(!m.moves() && m.set.doubt && m.set.looks == 0);
    assert_eq!(m.set.due, crate::state::Due::In(secs(AGAIN)), "it is looked again");
}

#[test]
fn an_undeclared_horizon_clears_nothing() {
    let f = in_doubt().no_horizon();
    let m = not_done(&f, f.fence, 1_000_000);
    assert!(!m.moves() && m.set.doubt && m.set.looks == 0);
    assert_eq!(f.proof_from(), None);
}

#[test]
fn only_looks_that_could_be_proof_are_counted_whatever_they_found() {
    let f = in_doubt();
    for finding in [Finding::CannotTell, Finding::Refused { covers_all: false }] {
        assert_eq!(look_of(&f, f.fence, at(PROOF_FROM + 1), finding.clone()).set.looks, 1, "{finding:?}");
        assert_eq!(look_of(&f, f.fence, at(PROOF_FROM), finding.clone()).set.looks, 0, "{finding:?} early");
        assert_eq!(look_of(&f, f.fence - 1, f.now, finding.clone()).set.looks, 0, "{finding:?} old fence");
    }
    assert!(f.clone().with(|f| f.looks = 1).looks_left());
    assert!(!f.with(|f| f.looks = 2).looks_left());
}

#[test]
fn each_taking_starts_the_looks_at_nothing() {
    let f = in_doubt().natural().with(|f| f.looks = 2);
    assert_eq!(made(take(&f, Taking::Redrive)).set.looks, 0);
    let f = facts(Retryable).with(|f| f.looks = 2);
    assert_eq!(made(take(&f, Taking::Take)).set.looks, 0);
}

#[test]
fn earlier_and_weaker_looks_confirm() {
    for f in [in_doubt(), facts(InDoubt).search(), in_doubt().no_horizon()] {
        for (fence, begun) in [(f.fence, 0), (f.fence - 1, NOW)] {
            let m = look_of(&f, fence, at(begun), found(&["a"]));
            assert_eq!(
                (m.verb, m.to, m.set.closed),
                (Verb::FoundDone, Confirmed, Closed::By(ClosedBy::Probe))
            );
            assert_eq!(m.set.provider_ref.as_deref(), Some("a"));
        }
    }
}

#[test]
fn a_final_refusal_of_all_attempts_abandons() {
    let f = in_doubt();
    let m = look(&f, Finding::Refused { covers_all: true });
    assert_eq!((m.verb, m.to), (Verb::FoundRefused, Abandoned));
    assert!(!look(&f, Finding::Refused { covers_all: false }).moves(), "an earlier attempt may have acted");
}

#[test]
fn a_refusal_found_for_an_earlier_fence_says_nothing_of_the_newest_attempt() {
    let f = in_doubt();
    assert!(!look_of(&f, f.fence - 1, f.now, Finding::Refused { covers_all: true }).moves());
}

#[test]
fn a_look_that_cannot_tell_is_no_new_fact() {
    assert!(!look(&in_doubt(), Finding::CannotTell).new_fact);
    assert!(look(&facts(InDoubt).search(), Finding::NotDone).new_fact);
}

#[test]
fn where_nothing_is_in_doubt_a_look_moves_nothing_but_by_done_and_is_kept() {
    for state in State::ALL.into_iter().filter(|s| *s != InDoubt) {
        let f = facts(state).proof();
        for finding in [Finding::NotDone, Finding::CannotTell, Finding::Refused { covers_all: true }] {
            let m = look(&f, finding.clone());
            assert_eq!((m.verb, m.moves()), (Verb::Look, false), "{finding:?} in {state}");
        }
        if !state.is_terminal() {
            assert_eq!(look(&f, found(&[])).to, Confirmed, "done in {state}");
        }
    }
}
