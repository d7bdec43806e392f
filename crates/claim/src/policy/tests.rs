//! The rules of the sweep, row by row, and what the machine says to what they decide.

use super::*;
use crate::declared::{Declared, ProbeTerms, RepeatSafety};
use crate::state::State::{Abandoned, Confirmed, Escalated, Held, InDoubt, InFlight, Retryable};
use crate::state::tests::kit::*;
use crate::state::{Event, next};

fn decided(f: &Facts) -> Act {
    decide(f, ROOM)
}

#[test]
fn what_is_not_due_is_left_alone() {
    for state in [Held, InFlight, Retryable, InDoubt] {
        let f = facts(state).natural().with(|f| f.due_at = Some(at(NOW + 1)));
        assert_eq!(decided(&f), Act::Nothing, "{state}");
        assert_ne!(decided(&f.now(NOW + 1)), Act::Nothing, "{state}");
    }
    for state in [Escalated, Confirmed, Abandoned] {
        assert_eq!(decided(&facts(state)), Act::Nothing, "{state}");
    }
}

#[test]
fn an_attempt_that_nobody_settled_is_put_in_doubt_before_anything_else() {
    for f in [facts(InFlight), facts(InFlight).aged(), facts(InFlight).send_by(1).natural()] {
        assert_eq!(decided(&f), Act::Doubt);
    }
}

#[test]
fn a_held_claim_is_performed_unless_its_send_by_has_passed() {
    assert_eq!(decided(&facts(Held)), Act::Perform(Taking::Begin));
    assert_eq!(decided(&facts(Held).aged()), Act::Perform(Taking::Begin));
    assert_eq!(decided(&facts(Held).send_by(NOW)), Act::Expire);
}

#[test]
fn a_retryable_claim_expires_first_then_is_escalated_then_taken() {
    let all = facts(Retryable).aged().attempts(3).with(|f| f.error_class = Some(fault()));
    assert_eq!(decided(&all.clone().send_by(NOW)), Act::Expire);
    assert_eq!(decided(&all), Act::Escalate(Cause::Fault));
    assert_eq!(decided(&facts(Retryable).attempts(3).aged()), Act::Escalate(Cause::AttemptsUsed));
    assert_eq!(decided(&facts(Retryable).aged()), Act::Escalate(Cause::AgeUsed));
    assert_eq!(decided(&facts(Retryable).attempts(2)), Act::Perform(Taking::Take));
    assert_eq!(decided(&facts(Retryable).doubt().granted().attempts(3)), Act::Perform(Taking::Take));
}

#[test]
fn with_the_providers_id_on_file_it_is_asked_before_it_is_called_again() {
    for f in [facts(InDoubt).natural(), facts(InDoubt).keyed(200)] {
        assert_eq!(decided(&f), Act::Perform(Taking::Redrive));
        assert_eq!(decided(&f.clone().proof()), Act::Perform(Taking::Redrive), "no id: the redrive answers");
        assert_eq!(decided(&f.clone().on_file("a")), Act::Perform(Taking::Redrive), "nobody to ask");
        let accepted = f.on_file("a").proof();
        assert_eq!(decided(&accepted), Act::Look);
        assert_eq!(decided(&accepted.with(|f| f.looks = 2)), Act::Perform(Taking::Redrive));
    }
}

#[test]
fn a_natural_effect_in_doubt_is_redriven_while_attempts_age_and_send_by_allow() {
    let f = facts(InDoubt).natural();
    assert_eq!(decided(&f.clone().attempts(3)), Act::Escalate(Cause::AttemptsUsed));
    assert_eq!(decided(&f.clone().aged()), Act::Escalate(Cause::AgeUsed));
    assert_eq!(decided(&f.clone().send_by(NOW)), Act::Escalate(Cause::SendByPassed));
    assert_eq!(decided(&f.send_by(NOW + 1)), Act::Perform(Taking::Redrive));
}

#[test]
fn a_keyed_effect_in_doubt_is_redriven_only_while_the_window_is_open_at_sending() {
    let f = facts(InDoubt).keyed(200);
    assert_eq!(decided(&f.clone().now(1100 - 40 - 1 - 1)), Act::Perform(Taking::Redrive));
    assert_eq!(decided(&f.clone().now(1100 - 40 - 1)), Act::Escalate(Cause::WindowOver));
    assert_eq!(decided(&f.clone().now(1100).search()), Act::Look);
    assert_eq!(decided(&f.clone().attempts(3)), Act::Escalate(Cause::AttemptsUsed));
    assert_eq!(decided(&f.clone().aged()), Act::Escalate(Cause::AgeUsed));
    assert_eq!(decided(&f.send_by(NOW)), Act::Escalate(Cause::SendByPassed));
}

#[test]
fn what_may_not_be_repeated_is_looked_for_until_looks_or_age_are_used_up() {
    for f in [facts(InDoubt).proof(), facts(InDoubt).search(), facts(InDoubt).keyed(1).proof()] {
        assert_eq!(decided(&f), Act::Look);
        assert_eq!(decided(&f.clone().with(|f| f.looks = 1)), Act::Look);
        assert_eq!(decided(&f.clone().with(|f| f.looks = 2)), Act::Escalate(Cause::LooksUsed));
        assert_eq!(decided(&f.aged()), Act::Escalate(Cause::AgeUsed));
    }
}

#[test]
fn what_may_not_be_repeated_and_cannot_be_asked_for_goes_to_a_person_at_once() {
    assert_eq!(decided(&facts(InDoubt)), Act::Escalate(Cause::NoRuleDecides));
}

#[test]
fn whatever_is_decided_the_machine_allows() {
    let mut dice = fastrand::Rng::with_seed(7);
    let mut acts = 0;
    for _ in 0..50_000 {
        let state = [Held, InFlight, Retryable, InDoubt][dice.usize(..4)];
        let mut f = facts(state);
        f = match dice.u8(..3) {
            0 => f,
            1 => f.natural(),
            _ => f.keyed(dice.u64(1..300)),
        };
        f.doubt = dice.bool();
        if state != Held {
            f.attempts = dice.u32(1..5);
            f.repeats_granted = u32::from(state != InDoubt && dice.bool());
        }
        f.looks = dice.u32(..4);
        if dice.bool() {
            f = f.probe(dice.bool());
        }
        f.send_by = dice.bool().then(|| at(NOW + dice.i64(-2..2)));
        f.error_class = dice.bool().then(fault);
        f.provider_ref = dice.bool().then(|| "a".to_owned());
        f.declared.age_max = secs(dice.u64(NOW as u64 - 1..NOW as u64 + 2));
        if broken_constraint(&f).is_some() {
            continue;
        }
        let event = match decided(&f) {
            Act::Doubt => Event::LeaseOver,
            Act::Expire => Event::Expire,
            Act::Perform(how) => Event::Taking { how, room: ROOM },
            Act::Escalate(_) => Event::Escalate,
            Act::Look => {
                assert!(f.declared.probe.is_some() && f.age_left(), "somebody to ask: {f:?}");
                continue;
            }
            Act::Nothing => panic!("a due claim is left lying: {f:?}"),
        };
        assert!(made(next(&f, &event)).moves(), "{event:?} of {f:?}");
        acts += 1;
    }
    assert!(acts > 10_000);
}

#[test]
fn backoff_is_anywhere_up_to_a_doubling_ceiling_and_a_longer_retry_after_wins() {
    let (base, max) = (secs(2), secs(60));
    for (tries, ceiling) in [(0, 2), (1, 4), (3, 16), (5, 60), (40, 60), (u32::MAX, 60)] {
        assert_eq!(backoff(tries, base, max, 0.0, None), secs(0), "{tries}");
        assert_eq!(backoff(tries, base, max, 1.0, None), secs(ceiling), "{tries}");
        assert_eq!(backoff(tries, base, max, 0.5, None), secs(ceiling) / 2, "{tries}");
    }
    assert_eq!(backoff(0, base, max, 1.0, Some(secs(90))), secs(90));
    assert_eq!(backoff(3, base, max, 1.0, Some(secs(1))), secs(16));
}

#[test]
fn the_first_look_that_can_be_proof_comes_no_later_than_needed_and_not_too_early() {
    let f = facts(InDoubt).proof().now(LAST_END);
    for wait in [1, 20, 36, 500] {
        let next_look = f.now.plus(look_again(&f, secs(wait)));
        assert!(next_look <= f.now.plus(secs(wait)) && next_look <= at(PROOF_FROM + 1));
    }
    let aimed = f.now.plus(look_again(&f, secs(500)));
    assert!(aimed > at(PROOF_FROM), "a look that begins on that moment proves nothing");
    assert_eq!(look_again(&facts(InDoubt).proof().now(PROOF_FROM + 1), secs(500)), secs(500));
    assert_eq!(look_again(&facts(InDoubt).search(), secs(500)), secs(500));
}

// ---- the stricter of two declarations --------------------------------------------------------------------

fn declared(dice: &mut fastrand::Rng) -> Declared {
    Declared {
        repeat: match dice.u8(..3) {
            0 => RepeatSafety::Never,
            1 => RepeatSafety::Natural,
            _ => RepeatSafety::Keyed { window: secs(dice.u64(50..300)) },
        },
        landing_horizon: dice.bool().then(|| secs(dice.u64(10..60))),
        probe: dice.bool().then(|| ProbeTerms {
            lag: secs(dice.u64(..9)),
            not_found_is_proof: dice.bool(),
            looks_max: dice.u32(1..4),
        }),
        call_timeout: secs(dice.u64(1..10)),
        attempts_max: dice.u32(1..4),
        age_max: secs(dice.u64(500..2000)),
    }
}

#[test]
fn the_stricter_of_two_declarations_allows_nothing_that_either_forbids() {
    let mut dice = fastrand::Rng::with_seed(11);
    for _ in 0..20_000 {
        let (a, b) = (declared(&mut dice), declared(&mut dice));
        let both = a.stricter(&b);
        assert_eq!(both, b.stricter(&a), "in either order");
        assert_eq!(a.stricter(&a), a);
        let row =
            |d: &Declared| facts(InDoubt).doubt().now(WINDOW_FROM + 60).with(|f| f.declared = d.clone());
        let redriven = |d: &Declared| take(&row(d), Taking::Redrive).is_ok();
        assert!(!redriven(&both) || redriven(&a) && redriven(&b), "redrive: {a:?} {b:?}");
        let send_until = |d: &Declared| row(d).send_until(true, ROOM);
        let never = both.repeat == RepeatSafety::Never;
        assert!(never || send_until(&both) <= send_until(&a).min(send_until(&b)), "{a:?} {b:?}");
        if let Some(proof) = row(&both).proof_from() {
            let each = [row(&a).proof_from(), row(&b).proof_from()];
            assert!(each.iter().all(|one| one.is_some_and(|one| one <= proof)), "proof: {a:?} {b:?}");
        }
        assert!(both.landing_horizon >= a.landing_horizon.max(b.landing_horizon), "rulings: {a:?} {b:?}");
    }
}

#[test]
fn a_horizon_that_a_person_stated_is_not_forgotten_because_the_code_declares_none() {
    let code = facts(InDoubt).no_horizon().proof().declared;
    let stated = Declared { landing_horizon: Some(secs(90)), ..code.clone() };
    let both = stated.stricter(&code);
    assert_eq!(both.landing_horizon, Some(secs(90)));
    assert!(both.probe.is_some_and(|p| !p.not_found_is_proof), "but it proves nothing by itself");
}

#[test]
fn a_declaration_that_cannot_work_is_refused_whole_with_every_fault() {
    let good = facts(Held).keyed(200).proof().declared;
    assert_eq!(good.faults(), Vec::<String>::new());
    let bad = Declared {
        repeat: RepeatSafety::Keyed { window: secs(0) },
        landing_horizon: Some(secs(0)),
        probe: good.probe.map(|p| ProbeTerms { looks_max: 0, ..p }),
        call_timeout: secs(0),
        attempts_max: 0,
        age_max: secs(0),
    };
    assert_eq!(bad.faults().len(), 5, "{:?}", bad.faults());
    let short = Declared { landing_horizon: Some(secs(TIMEOUT - 1)), ..good };
    assert_eq!(short.faults().len(), 1, "{:?}", short.faults());
}

#[test]
fn causes_are_words_of_their_own() {
    let all = [
        Cause::NoRuleDecides,
        Cause::WindowOver,
        Cause::AttemptsUsed,
        Cause::AgeUsed,
        Cause::LooksUsed,
        Cause::SendByPassed,
        Cause::Fault,
    ];
    let words: std::collections::BTreeSet<_> = all.iter().map(|c| c.as_str()).collect();
    assert_eq!(words.len(), all.len());
}
