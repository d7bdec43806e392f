//! How an attempt ends.

use super::kit::*;
use crate::claim::Token;
use crate::state::State::{Abandoned, Confirmed, Escalated, InDoubt, InFlight, Retryable};
use crate::state::{Closed, ClosedBy, Event, Facts, Outcome, Refused, State, Taking, Verb, next};

fn in_flight() -> Facts {
    facts(InFlight).with(|f| f.due_at = Some(at(NOW + 40)))
}

fn weak() -> [Outcome; 5] {
    [refused(), replayed(), not_sent(), unknown(), accepted_as("a")]
}

#[test]
fn done_confirms_with_the_providers_id_and_clears_the_failure() {
    let f = in_flight().class("timeout");
    let m = settle(&f, done_as("a"));
    let g = after(&f, &m);
    assert_eq!((m.verb, g.state, m.set.closed), (Verb::Confirm, Confirmed, Closed::By(ClosedBy::Answer)));
    assert_eq!((g.provider_ref.as_deref(), g.error_class), (Some("a"), None));
}

#[test]
fn a_first_attempts_refusal_abandons_and_needs_no_cover() {
    for f in [in_flight(), in_flight().natural(), in_flight().keyed(200)] {
        let m = settle(&f, refused());
        assert_eq!((m.verb, m.to, m.set.closed), (Verb::Refuse, Abandoned, Closed::By(ClosedBy::Refused)));
    }
}

#[test]
fn a_refusal_after_doubt_covers_earlier_attempts_only_if_it_is_replayed_and_the_window_is_open() {
    let keyed = in_flight().doubt().keyed(200);
    assert_eq!(settle(&keyed, replayed()).to, Abandoned);
    for (f, answer) in [
        (keyed.clone(), refused()),                         // not marked as replayed
        (keyed.clone().now(1100), replayed()),              // the window has ended
        (keyed.with(|f| f.window_from = None), replayed()), // no window on file
        (in_flight().doubt(), replayed()),                  // no key, nothing to replay
        (in_flight().doubt().natural(), replayed()),
    ] {
        let m = settle(&f, answer);
        assert_eq!((m.verb, m.to, m.set.doubt), (Verb::RefusedInDoubt, InDoubt, true), "{f:?}");
    }
}

#[test]
fn a_replayed_refusal_covers_until_the_window_ends_and_no_longer() {
    let f = in_flight().doubt().keyed(200);
    assert_eq!(settle(&f.clone().now(1099), replayed()).to, Abandoned);
    assert_eq!(settle(&f.now(1100), replayed()).to, InDoubt);
}

#[test]
fn not_sent_makes_it_retryable_and_gives_the_attempt_back() {
    let f = in_flight().attempts(2);
    let g = after(&f, &settle(&f, not_sent()));
    assert_eq!((g.state, g.attempts, g.doubt), (Retryable, 1, false));
    assert_eq!(g.due_at, Some(f.now.plus(secs(AGAIN))));
}

#[test]
fn not_sent_after_doubt_without_a_grant_stays_in_doubt() {
    let f = in_flight().doubt();
    let m = settle(&f, not_sent());
    assert_eq!((m.verb, m.to, m.set.doubt), (Verb::NotSentInDoubt, InDoubt, true));
}

#[test]
fn not_sent_leaves_the_granted_repeat() {
    let f = in_flight().doubt().granted();
    let g = after(&f, &settle(&f, not_sent()));
    assert_eq!((g.state, g.repeats_granted, g.doubt), (Retryable, 1, true));
}

#[test]
fn every_end_but_not_sent_takes_the_granted_repeat() {
    let f = in_flight().doubt().granted().on_file("a").keyed(200);
    for outcome in [done(), refused(), replayed(), unknown(), done_as("b")] {
        assert_eq!(settle(&f, outcome.clone()).set.repeats_granted, 0, "{outcome:?}");
    }
    let over = f.clone().now(NOW + 40);
    assert_eq!(made(next(&over, &Event::LeaseOver)).set.repeats_granted, 0);
    assert_eq!(evidence(&f, found(&["b"])).set.repeats_granted, 0);
}

#[test]
fn unknown_puts_it_in_doubt_and_keeps_the_id_of_an_accepted_request() {
    let f = in_flight();
    let g = after(&f, &settle(&f, accepted_as("a")));
    assert_eq!((g.state, g.provider_ref.as_deref()), (InDoubt, Some("a")));
    assert!(!g.doubt, "only a later attempt makes this one an earlier one");
    assert_eq!(g.due_at, Some(f.now.plus(secs(AGAIN))));
}

#[test]
fn an_attempt_ends_with_its_settle() {
    for outcome in [done(), done_as("b"), refused(), not_sent(), unknown()] {
        for f in [in_flight(), in_flight().doubt(), in_flight().on_file("a")] {
            assert_eq!(after(&f, &settle(&f, outcome.clone())).last_end_at, Some(f.now), "{outcome:?}");
        }
    }
}

#[test]
fn an_attempt_that_nobody_settled_ends_with_its_lease_and_is_in_doubt() {
    let f = in_flight().now(NOW + 50);
    let m = made(next(&f, &Event::LeaseOver));
    let g = after(&f, &m);
    assert_eq!((m.verb, g.state, g.last_end_at), (Verb::LeaseOver, InDoubt, Some(at(NOW + 40))));
    assert!(m.only_if_due && g.is_due() && !g.doubt);
}

#[test]
fn a_holder_is_believed_until_its_lease_ends() {
    let why = refusal(next(&in_flight().now(NOW + 39), &Event::LeaseOver));
    assert!(matches!(why, Refused::NotYet { from, .. } if from == at(NOW + 40)), "{why:?}");
    assert!(next(&in_flight().now(NOW + 40), &Event::LeaseOver).is_ok());
    assert!(next(&facts(InDoubt), &Event::LeaseOver).is_err());
}

#[test]
fn the_newest_holders_late_answer_moves_a_claim_without_doubt_as_from_in_flight() {
    let f = facts(InDoubt);
    for (outcome, to) in [(done(), Confirmed), (refused(), Abandoned), (not_sent(), Retryable)] {
        assert_eq!(settle(&f, outcome.clone()).to, to, "{outcome:?}");
    }
    let m = settle(&f, unknown());
    assert_eq!((m.verb, m.moves(), m.new_fact), (Verb::LateAnswer, false, false));
    let m = settle(&f, accepted_as("a"));
    assert_eq!((m.moves(), m.new_fact, m.set.provider_ref.as_deref()), (false, true, Some("a")));
}

#[test]
fn the_newest_holders_late_answer_moves_a_claim_with_doubt_only_if_it_is_done() {
    let f = facts(InDoubt).doubt().keyed(200);
    for outcome in weak() {
        let m = settle(&f, outcome.clone());
        assert_eq!((m.verb, m.moves()), (Verb::LateAnswer, false), "{outcome:?}");
    }
    assert_eq!(settle(&f, done()).to, Confirmed);
}

#[test]
fn a_fenced_out_holder_moves_nothing_but_by_done_and_its_answer_is_kept() {
    for state in State::ALL {
        for outcome in weak() {
            let m = settle_late(&facts(state), outcome.clone());
            assert_eq!((m.verb, m.moves()), (Verb::LateAnswer, false), "{outcome:?} in {state}");
        }
        let m = settle_late(&facts(state), done());
        let to = match state {
            Abandoned => Escalated,
            _ => Confirmed,
        };
        assert_eq!(m.to, to, "done in {state}");
    }
}

#[test]
fn a_settle_is_known_by_fence_and_token_together() {
    let settle_as = |fence: u64, token: Token| {
        made(next(&in_flight(), &Event::Settle { fence, token, outcome: not_sent(), again_in: secs(AGAIN) }))
    };
    let f = in_flight();
    assert!(settle_as(f.fence, f.token).moves());
    assert!(!settle_as(f.fence, token(7)).moves(), "the fence alone may come again after a restore");
    assert!(!settle_as(f.fence - 1, f.token).moves());
}

#[test]
fn the_newest_holders_second_answer_after_the_claim_was_closed_or_is_tried_again_moves_nothing_but_by_done() {
    for state in [Retryable, Escalated, Confirmed, Abandoned] {
        for outcome in weak() {
            assert!(!settle(&facts(state), outcome.clone()).moves(), "{outcome:?} in {state}");
        }
    }
}

#[test]
fn another_late_cannot_tell_is_no_new_fact_and_its_id_is_one_only_once() {
    let f = facts(InDoubt).doubt();
    assert!(!settle_late(&f, unknown()).new_fact);
    assert!(settle_late(&f, accepted_as("a")).new_fact);
    assert!(!settle_late(&f.on_file("a"), accepted_as("a")).new_fact);
}

#[test]
fn an_attempt_that_was_not_sent_uses_up_age_and_no_attempts() {
    let mut f = facts(State::Held);
    f = after(&f, &made(take(&f, Taking::Begin)));
    for round in 0..20 {
        f = after(&f, &settle(&f, not_sent()));
        assert_eq!((f.state, f.attempts), (Retryable, 0), "round {round}");
        f = f.now(NOW + 100 * (round + 1));
        f = after(&f, &made(take(&f, Taking::Take)));
    }
    f = after(&f, &settle(&f, not_sent())).now(5000);
    assert!(matches!(refusal(take(&f, Taking::Take)), Refused::AgeUsed));
}
