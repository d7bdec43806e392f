//! What a person decides.

use super::kit::*;
use crate::state::State::{Abandoned, Confirmed, Escalated, InDoubt, InFlight, Retryable};
use crate::state::{
    Closed, ClosedBy, Event, Facts, Finding, Move, Refused, Ruling, Seen, State, Taking, Verb, next,
};
use std::time::Duration;

const WAITING: [Ruling; 2] = [Ruling::NotDone, Ruling::Repeat];

fn rule_as(f: &Facts, ruling: &Ruling, horizon: Option<Duration>, looked: bool) -> Result<Move, Refused> {
    next(f, &Event::Rule { seen: seen(f), ruling: ruling.clone(), horizon, looked })
}

/// From when the ruling is allowed, as the page says it.
fn allowed_from(answer: Result<Move, Refused>) -> crate::time::Timestamp {
    match refusal(answer) {
        Refused::NotYet { from, .. } => from,
        other => panic!("{other}"),
    }
}

#[test]
fn a_person_rules_done_at_any_time() {
    let f = facts(Escalated).no_horizon().now(LAST_END);
    let g = after(&f, &made(rule(&f, Ruling::Done { provider_ref: Some("a".to_owned()) })));
    assert_eq!((g.state, g.provider_ref.as_deref(), g.ruled_at), (Confirmed, Some("a"), Some(f.now)));
    let f = f.on_file("a");
    let m = made(rule(&f, rule_done()));
    assert_eq!((m.verb, m.set.closed), (Verb::RuleDone, Closed::By(ClosedBy::Ruling)));
    assert_eq!(m.set.provider_ref.as_deref(), Some("a"), "the id on file stays");
}

#[test]
fn not_done_abandons_and_repeat_makes_retryable_with_one_grant() {
    let f = facts(Escalated);
    let m = made(rule(&f, Ruling::NotDone));
    assert_eq!((m.verb, m.to, m.set.closed), (Verb::RuleNotDone, Abandoned, Closed::By(ClosedBy::Ruling)));
    let g = after(&f, &made(rule(&f, Ruling::Repeat)));
    assert_eq!((g.state, g.repeats_granted, g.ruled_at), (Retryable, 1, Some(f.now)));
    assert!(g.is_due());
}

#[test]
fn a_second_ruling_renews_the_permission_and_does_not_add_one() {
    let f = facts(Escalated).granted();
    assert_eq!(made(rule(&f, Ruling::Repeat)).set.repeats_granted, 1);
}

#[test]
fn the_doubt_is_kept_through_rulings() {
    for ruling in [rule_done(), Ruling::NotDone, Ruling::Repeat] {
        assert!(made(rule(&facts(Escalated), ruling.clone())).set.doubt, "{ruling:?}");
    }
}

#[test]
fn not_done_and_repeat_wait_for_the_last_attempts_end_and_the_landing_horizon() {
    let from = LAST_END + HORIZON as i64;
    for ruling in WAITING {
        let f = facts(Escalated).now(from - 1);
        assert_eq!(allowed_from(rule(&f, ruling.clone())), at(from), "{ruling:?}");
        assert!(rule(&f.now(from), ruling).is_ok());
    }
}

#[test]
fn they_wait_for_the_probes_lag_too_if_that_is_what_the_person_looked_at() {
    let from = LAST_END + (HORIZON + LAG) as i64;
    for ruling in WAITING {
        let f = facts(Escalated).search().now(from - 1);
        assert_eq!(allowed_from(rule_as(&f, &ruling, None, true)), at(from), "{ruling:?}");
        assert!(rule_as(&f, &ruling, None, false).is_ok(), "who looked elsewhere need not wait for it");
        assert!(rule_as(&f.now(from), &ruling, None, true).is_ok());
    }
}

#[test]
fn where_no_horizon_is_declared_the_person_states_one_of_at_least_the_call_timeout_and_it_is_kept() {
    let f = facts(Escalated).no_horizon();
    for ruling in WAITING {
        for short in [None, Some(secs(0)), Some(secs(TIMEOUT - 1))] {
            let why = refusal(rule_as(&f, &ruling, short, false));
            assert!(
                matches!(why, Refused::HorizonNeeded { at_least } if at_least == secs(TIMEOUT)),
                "{why:?}"
            );
        }
        let m = made(rule_as(&f, &ruling, Some(secs(TIMEOUT)), false));
        assert_eq!(after(&f, &m).declared.landing_horizon, Some(secs(TIMEOUT)), "{ruling:?}");
        let late = rule_as(&f, &ruling, Some(secs(80)), false);
        assert_eq!(allowed_from(late), at(LAST_END + 80), "and it counts at once");
    }
}

#[test]
fn a_person_cannot_shorten_a_declared_horizon() {
    let f = facts(Escalated).now(LAST_END + HORIZON as i64 - 1);
    for ruling in WAITING {
        assert_eq!(
            allowed_from(rule_as(&f, &ruling, Some(secs(TIMEOUT)), false)),
            at(LAST_END + HORIZON as i64)
        );
    }
}

#[test]
fn a_ruling_names_state_fence_and_revision_and_loses_if_any_has_moved() {
    let f = facts(Escalated);
    let page = seen(&f);
    let stale = [
        Seen { state: InDoubt, ..page },
        Seen { fence: page.fence - 1, ..page },
        Seen { fence: page.fence + 1, ..page },
        Seen { revision: page.revision - 1, ..page },
        Seen { revision: page.revision + 1, ..page },
    ];
    for ruling in [rule_done(), Ruling::NotDone, Ruling::Repeat] {
        for seen in stale {
            let answer =
                next(&f, &Event::Rule { seen, ruling: ruling.clone(), horizon: None, looked: false });
            assert!(matches!(refusal(answer), Refused::Moved { .. }), "{ruling:?} on {seen:?}");
        }
    }
}

#[test]
fn a_new_fact_makes_a_persons_page_stale() {
    let f = facts(Escalated).on_file("a");
    let page = seen(&f);
    let g = after(&f, &evidence(&f, Finding::NotDone));
    let ruling = next(&g, &Event::Rule { seen: page, ruling: Ruling::Repeat, horizon: None, looked: false });
    assert!(matches!(refusal(ruling), Refused::Moved { .. }));
}

#[test]
fn nobody_rules_on_what_is_not_escalated() {
    for state in State::ALL.into_iter().filter(|s| *s != Escalated) {
        for ruling in [rule_done(), Ruling::NotDone, Ruling::Repeat] {
            let allowed = state == Abandoned && ruling == Ruling::Repeat;
            let answer = rule(&facts(state), ruling.clone());
            assert_eq!(answer.is_ok(), allowed, "{ruling:?} at {state}");
        }
    }
}

#[test]
fn an_abandoned_claim_is_repeated_by_a_ruling_only_if_it_carries_no_doubt() {
    let f = facts(Abandoned);
    let m = made(rule(&f, Ruling::Repeat));
    assert_eq!((m.to, m.set.repeats_granted, m.set.closed), (Retryable, 1, Closed::Reopen));
    assert!(matches!(refusal(rule(&f.doubt(), Ruling::Repeat)), Refused::WrongState { .. }));
}

#[test]
fn a_repeat_is_refused_at_a_purged_claim() {
    for f in [facts(Abandoned), facts(Escalated)] {
        let f = f.with(|f| f.purged = true);
        assert!(matches!(refusal(rule(&f, Ruling::Repeat)), Refused::Purged), "{}", f.state);
    }
    assert!(rule(&facts(Escalated).with(|f| f.purged = true), rule_done()).is_ok());
}

#[test]
fn a_repeat_is_not_granted_when_send_by_has_passed() {
    let why = refusal(rule(&facts(Escalated).send_by(NOW), Ruling::Repeat));
    assert!(matches!(why, Refused::NothingLeft { .. }), "{why:?}");
    assert!(rule(&facts(Escalated).send_by(NOW), Ruling::NotDone).is_ok());
}

#[test]
fn a_granted_repeat_waits_for_the_not_before_time() {
    let f = facts(Abandoned).with(|f| f.not_before = Some(at(NOW + 50)));
    assert_eq!(after(&f, &made(rule(&f, Ruling::Repeat))).due_at, Some(at(NOW + 50)));
}

#[test]
fn a_granted_repeat_forgets_the_fault_that_the_person_has_mended() {
    let f = facts(Escalated).with(|f| f.error_class = Some(fault()));
    let g = after(&f, &made(rule(&f, Ruling::Repeat)));
    assert!(take(&g, Taking::Take).is_ok());
}

#[test]
fn a_granted_repeat_permits_one_attempt_that_may_have_left_and_then_doubt_binds_again() {
    let escalated = facts(Escalated).attempts(3);
    let granted = after(&escalated, &made(rule(&escalated, Ruling::Repeat)));
    let first = after(&granted, &made(take(&granted, Taking::Take)));
    assert_eq!((first.state, first.doubt, first.repeats_granted), (InFlight, true, 1));
    // Not sent: the same grant permits the next attempt.
    let unsent = after(&first, &settle(&first, not_sent())).now(NOW + 10);
    let second = after(&unsent, &made(take(&unsent, Taking::Take)));
    // It may have left: the grant is gone, and only a person helps.
    let unknown = after(&second, &settle(&second, unknown())).now(NOW + 20);
    assert_eq!((unknown.state, unknown.doubt, unknown.repeats_granted), (InDoubt, true, 0));
    assert!(take(&unknown, Taking::Redrive).is_err());
    // Not even "not sent" makes it retryable now: an earlier attempt may have acted.
    let late = settle(&unknown, not_sent());
    assert!(!late.moves());
}

#[test]
fn the_window_of_a_granted_repeat_still_counts_from_the_first_attempt() {
    let escalated = facts(Escalated).keyed(100);
    let granted = after(&escalated, &made(rule(&escalated, Ruling::Repeat)));
    let flying = after(&granted, &made(take(&granted, Taking::Take)));
    assert_eq!(flying.window_from, Some(at(WINDOW_FROM)));
    let unknown = after(&flying, &settle(&flying, unknown())).now(NOW + 10);
    assert!(matches!(refusal(take(&unknown, Taking::Redrive)), Refused::NothingLeft { .. }));
}

#[test]
fn a_claim_of_which_nothing_was_ever_sent_is_ruled_at_once() {
    let f = facts(Escalated).no_horizon().with(|f| f.last_end_at = None);
    for ruling in WAITING {
        assert!(rule(&f, ruling).is_ok());
    }
}
