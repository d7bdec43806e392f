//! Becoming the holder.

use super::kit::*;
use crate::declared::RepeatSafety;
use crate::state::State::{Held, InDoubt, InFlight, Retryable};
use crate::state::{Event, Facts, Refused, Room, State, Taking, Verb, next};
use Taking::{Begin, Redrive, Take};

/// In doubt, keyed: the window runs from 900 to 1100, so sending must start before 1100 - (10 + 30) - 1.
fn keyed_in_doubt() -> Facts {
    facts(InDoubt).keyed(200)
}

#[test]
fn each_taking_leaves_its_own_state_and_no_other() {
    for state in State::ALL {
        for (how, from, verb) in
            [(Begin, Held, Verb::Begin), (Take, Retryable, Verb::Take), (Redrive, InDoubt, Verb::Redrive)]
        {
            let f = facts(state).natural();
            if state == from {
                let m = made(take(&f, how));
                assert_eq!((m.verb, m.to), (verb, InFlight));
            } else {
                assert!(matches!(refusal(take(&f, how)), Refused::WrongState { .. }), "{how:?} in {state}");
            }
        }
    }
}

#[test]
fn every_taking_grows_the_fence_by_one_and_writes_a_fresh_token() {
    for (state, how) in [(Held, Begin), (Retryable, Take), (InDoubt, Redrive)] {
        let f = facts(state).natural();
        let g = after(&f, &made(take(&f, how)));
        assert_eq!(g.fence, f.fence + 1, "{how:?}");
        assert_ne!(g.token, f.token, "{how:?}");
        assert_eq!(g.due_at, Some(f.now.plus(ROOM.lease)), "{how:?}");
        assert_eq!(g.attempts, f.attempts + 1, "{how:?}");
    }
}

#[test]
fn a_redrive_sets_the_doubt_and_a_first_attempt_carries_none() {
    for (state, how, doubt) in [(Held, Begin, false), (Retryable, Take, false), (InDoubt, Redrive, true)] {
        assert_eq!(made(take(&facts(state).natural(), how)).set.doubt, doubt, "{how:?}");
    }
}

#[test]
fn a_granted_repeat_carries_the_doubt_into_its_attempt() {
    assert!(made(take(&facts(Retryable).doubt().granted(), Take)).set.doubt);
}

#[test]
fn nothing_is_taken_before_it_is_due() {
    for (state, how) in [(Retryable, Take), (InDoubt, Redrive)] {
        let f = facts(state).natural().with(|f| f.due_at = Some(at(NOW + 1)));
        assert!(
            matches!(refusal(take(&f, how)), Refused::NotYet { from, .. } if from == at(NOW + 1)),
            "{how:?}"
        );
        let m = made(take(&f.now(NOW + 1), how));
        assert!(m.only_if_due, "{how:?}: the update asks again");
    }
}

#[test]
fn a_held_claim_begins_before_its_due_time_since_its_own_caller_performs_it() {
    let f = facts(Held).with(|f| f.due_at = Some(at(NOW + 60)));
    assert!(!made(take(&f, Begin)).only_if_due);
}

#[test]
fn nothing_is_sent_before_its_not_before_time() {
    for (state, how) in [(Held, Begin), (Retryable, Take), (InDoubt, Redrive)] {
        let f = facts(state).natural().with(|f| f.not_before = Some(at(NOW + 1)));
        assert!(matches!(refusal(take(&f, how)), Refused::NotYet { .. }), "{how:?}");
        assert!(take(&f.now(NOW + 1), how).is_ok(), "{how:?}");
    }
}

#[test]
fn a_repeat_that_may_double_is_refused() {
    let why = refusal(take(&facts(InDoubt), Redrive));
    assert!(matches!(why, Refused::RepeatNotSafe { .. }), "{why:?}");
}

#[test]
fn the_window_counts_from_the_first_attempt_that_may_have_reached_the_provider() {
    let first = facts(Held).keyed(200);
    let first = after(&first, &made(take(&first, Begin)));
    assert_eq!(first.window_from, Some(at(NOW)));
    let unknown = apply(&first, &settle(&first, unknown()), at(NOW + 20), token(9));
    let again = unknown.now(NOW + 40);
    let again = after(&again, &made(take(&again, Redrive)));
    assert_eq!(again.window_from, Some(at(NOW)), "not from the newest");
}

#[test]
fn attempts_that_sent_nothing_do_not_start_the_window() {
    let f = facts(InFlight).keyed(200);
    let unsent = after(&f, &settle(&f, not_sent()));
    assert_eq!((unsent.attempts, unsent.window_from), (0, None));
    let later = unsent.now(NOW + 500);
    assert_eq!(after(&later, &made(take(&later, Take))).window_from, Some(at(NOW + 500)));
}

#[test]
fn the_window_still_counts_from_an_attempt_that_may_have_reached_the_provider_when_a_later_one_was_not_sent()
{
    for f in [facts(InFlight).keyed(200).attempts(2), facts(InFlight).keyed(200).doubt()] {
        assert_eq!(after(&f, &settle(&f, not_sent())).window_from, Some(at(WINDOW_FROM)));
    }
}

#[test]
fn send_until_is_the_least_of_lease_window_and_send_by() {
    let lease = at(NOW + 60 - 10);
    let window = at(WINDOW_FROM + 150 - 40 - 1);
    let f = facts(InDoubt);
    assert_eq!(f.send_until(true, ROOM), lease);
    assert_eq!(f.clone().keyed(1000).send_until(true, ROOM), lease);
    assert_eq!(f.clone().keyed(150).send_until(true, ROOM), window);
    assert_eq!(f.clone().keyed(150).send_by(NOW + 7).send_until(true, ROOM), at(NOW + 7));
    assert_eq!(f.clone().send_by(NOW + 7).send_until(true, ROOM), at(NOW + 7));
    assert_eq!(f.keyed(150).send_by(NOW + 30).send_until(true, ROOM), window);
}

#[test]
fn the_window_binds_only_a_keyed_claim_that_carries_doubt_without_a_granted_repeat() {
    let bound = |f: &Facts, doubt| f.send_limit(doubt, ROOM.margin).is_some();
    assert!(bound(&keyed_in_doubt(), true));
    assert!(!bound(&keyed_in_doubt(), false));
    assert!(!bound(&keyed_in_doubt().granted(), true));
    assert!(!bound(&facts(InDoubt).natural(), true));
    assert!(!bound(&facts(InDoubt), true));
}

#[test]
fn call_timeout_and_landing_horizon_are_kept_free_before_the_windows_end() {
    let limit = |f: &Facts| f.send_limit(true, ROOM.margin);
    assert_eq!(limit(&keyed_in_doubt()), Some(at(1100 - 40 - 1)));
    let slow = keyed_in_doubt().with(|f| f.declared.call_timeout = secs(45));
    assert_eq!(limit(&slow), Some(at(1100 - 75 - 1)));
    assert_eq!(limit(&keyed_in_doubt().no_horizon()), Some(at(1100 - 20 - 1)));
}

#[test]
fn a_redrive_is_refused_from_the_moment_on_at_which_the_window_is_over_for_sending() {
    let last = 1100 - 40 - 1;
    let m = made(take(&keyed_in_doubt().now(last - 1), Redrive));
    assert_eq!(m.not_after, Some(at(last)), "the update must still come before it");
    for now in [last, last + 1, 2000] {
        let why = refusal(take(&keyed_in_doubt().now(now), Redrive));
        assert!(matches!(why, Refused::NothingLeft { .. }), "{why:?}");
    }
}

#[test]
fn a_window_whose_start_is_not_on_file_is_closed() {
    let f = keyed_in_doubt().with(|f| f.window_from = None);
    assert!(matches!(refusal(take(&f, Redrive)), Refused::NothingLeft { .. }));
}

#[test]
fn a_lease_that_leaves_no_time_to_send_is_refused() {
    for (state, how) in [(Held, Begin), (Retryable, Take), (InDoubt, Redrive)] {
        let room = |lease| Room { lease: secs(lease), margin: secs(1) };
        let taking = |lease| next(&facts(state).natural(), &Event::Taking { how, room: room(lease) });
        assert!(matches!(refusal(taking(TIMEOUT)), Refused::NothingLeft { .. }), "{how:?}");
        assert!(taking(TIMEOUT + 1).is_ok(), "{how:?}");
    }
}

#[test]
fn nothing_is_sent_from_send_by_on_whatever_was_granted() {
    for f in [facts(Held), facts(Retryable), facts(Retryable).doubt().granted(), facts(InDoubt).natural()] {
        let how = match f.state {
            Held => Begin,
            Retryable => Take,
            _ => Redrive,
        };
        assert!(matches!(refusal(take(&f.clone().send_by(NOW), how)), Refused::NothingLeft { .. }), "{f:?}");
        assert_eq!(made(take(&f.send_by(NOW + 1), how)).not_after, Some(at(NOW + 1)));
    }
}

#[test]
fn attempts_for_life_bind_every_taking_but_the_first_and_a_granted_one() {
    let used = |f: Facts| f.attempts(3);
    assert!(matches!(refusal(take(&used(facts(Retryable)), Take)), Refused::AttemptsUsed { attempts: 3 }));
    assert!(matches!(refusal(take(&used(keyed_in_doubt()), Redrive)), Refused::AttemptsUsed { .. }));
    assert!(take(&used(facts(Retryable).granted()), Take).is_ok());
    assert!(take(&facts(Retryable).attempts(2), Take).is_ok());
}

#[test]
fn a_granted_repeat_ignores_attempts_and_window() {
    let repeat = facts(Retryable).doubt().granted().attempts(99);
    assert!(take(&repeat.clone().keyed(1), Take).is_ok());
    assert_eq!(made(take(&repeat, Take)).set.repeats_granted, 1, "unspent until the attempt ends");
}

#[test]
fn age_binds_every_taking_but_the_first_and_counts_anew_from_a_ruling() {
    for (f, how) in [(facts(Retryable), Take), (facts(InDoubt).natural(), Redrive)] {
        let old = f.aged();
        assert!(matches!(refusal(take(&old, how)), Refused::AgeUsed), "{how:?}");
        assert!(take(&old.clone().now(NOW - 1), how).is_ok(), "{how:?}");
        assert!(take(&old.with(|f| f.ruled_at = Some(at(1))), how).is_ok(), "{how:?}");
    }
    assert!(take(&facts(Held).aged(), Begin).is_ok(), "a held claim has not been tried");
}

#[test]
fn a_fault_that_no_retry_mends_is_not_tried_again() {
    for (f, how) in [(facts(Retryable), Take), (facts(InDoubt).natural(), Redrive)] {
        let why = refusal(take(&f.with(|f| f.error_class = Some(fault())), how));
        assert!(matches!(why, Refused::NoRetryMends { .. }), "{why:?}");
    }
    assert!(take(&facts(Retryable).class("operator"), Take).is_ok());
}

#[test]
fn a_claim_that_carries_no_doubt_may_be_tried_again_whatever_a_repeat_would_do() {
    // Without a doubt every repeat safety may be tried again: nothing happened.
    for repeat in [RepeatSafety::Never, RepeatSafety::Natural, RepeatSafety::Keyed { window: secs(1) }] {
        assert!(take(&facts(Retryable).with(|f| f.declared.repeat = repeat), Take).is_ok());
    }
}
