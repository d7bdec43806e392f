//! What ends a claim, or hands it to a person, without a call.

use super::kit::*;
use crate::state::State::{Abandoned, Escalated, Held, InDoubt, Retryable};
use crate::state::{Closed, ClosedBy, Event, Facts, Refused, State, Verb, next};

fn cancel(f: &Facts) -> Result<crate::state::Move, Refused> {
    next(f, &Event::Cancel)
}

fn expire(f: &Facts) -> Result<crate::state::Move, Refused> {
    next(f, &Event::Expire)
}

fn escalate(f: &Facts) -> Result<crate::state::Move, Refused> {
    next(f, &Event::Escalate)
}

#[test]
fn where_nothing_was_sent_a_cancelled_or_expired_claim_is_abandoned() {
    for f in [facts(Held), facts(Retryable), facts(Retryable).granted()] {
        let m = made(cancel(&f));
        assert_eq!((m.verb, m.to, m.set.closed), (Verb::Cancel, Abandoned, Closed::By(ClosedBy::Cancelled)));
        let m = made(expire(&f.send_by(NOW)));
        assert_eq!((m.verb, m.to, m.set.closed), (Verb::Expire, Abandoned, Closed::By(ClosedBy::Expired)));
    }
}

#[test]
fn where_a_doubt_is_carried_a_cancelled_or_expired_claim_goes_to_a_person() {
    let f = facts(Retryable).doubt().granted().send_by(NOW);
    for m in [made(cancel(&f)), made(expire(&f))] {
        assert_eq!((m.to, m.set.doubt, m.set.closed), (Escalated, true, Closed::Keep), "{:?}", m.verb);
    }
}

#[test]
fn what_may_have_been_sent_is_neither_cancelled_nor_expired() {
    for state in State::ALL.into_iter().filter(|s| !matches!(s, Held | Retryable)) {
        assert!(matches!(refusal(cancel(&facts(state))), Refused::WrongState { .. }), "{state}");
        assert!(matches!(refusal(expire(&facts(state).send_by(1))), Refused::WrongState { .. }), "{state}");
    }
}

#[test]
fn a_claim_expires_at_its_send_by_and_not_before() {
    assert!(matches!(refusal(expire(&facts(Held).send_by(NOW + 1))), Refused::NotYet { .. }));
    assert!(expire(&facts(Held).send_by(NOW)).is_ok());
    assert!(expire(&facts(Held)).is_err(), "without a send-by nothing expires");
}

#[test]
fn escalating_out_of_in_doubt_sets_the_doubt_and_a_person_may_do_it_at_any_time() {
    for f in [facts(InDoubt), facts(InDoubt).with(|f| f.due_at = Some(at(NOW + 99)))] {
        let g = after(&f, &made(escalate(&f)));
        assert_eq!((g.state, g.doubt, g.due_at), (Escalated, true, None));
    }
}

#[test]
fn a_retryable_claim_is_escalated_when_age_or_attempts_are_used_up_or_no_retry_mends_it() {
    assert!(matches!(refusal(escalate(&facts(Retryable))), Refused::WrongState { .. }));
    for f in [
        facts(Retryable).aged(),
        facts(Retryable).attempts(3),
        facts(Retryable).with(|f| f.error_class = Some(fault())),
    ] {
        let g = after(&f, &made(escalate(&f)));
        assert_eq!((g.state, g.doubt), (Escalated, false), "no doubt comes from nowhere");
    }
}

#[test]
fn a_granted_repeat_outlives_used_up_attempts_but_not_used_up_age() {
    let granted = facts(Retryable).doubt().granted();
    assert!(escalate(&granted.clone().attempts(3)).is_err());
    let g = granted.aged();
    assert!(made(escalate(&g)).set.doubt, "the doubt is carried");
}

#[test]
fn age_counts_anew_from_the_last_ruling() {
    let f = facts(Retryable).aged();
    assert!(!f.age_left());
    assert!(f.clone().now(NOW - 1).age_left());
    let ruled = f.with(|f| f.ruled_at = Some(at(500)));
    assert!(ruled.age_left() && escalate(&ruled).is_err());
    assert!(ruled.clone().now(500 + NOW - 1).age_left());
    assert!(!ruled.now(500 + NOW).age_left());
}

#[test]
fn only_what_is_in_doubt_or_cannot_be_tried_again_is_escalated() {
    for state in State::ALL.into_iter().filter(|s| !matches!(s, InDoubt | Retryable)) {
        assert!(matches!(refusal(escalate(&facts(state).aged())), Refused::WrongState { .. }), "{state}");
    }
}
