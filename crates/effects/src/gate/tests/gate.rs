use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use earmark_claim::{ErrorClass, Failure, Receipt};

use crate::gate::{Gate, Gates, Halt, Limits, Says, says};

const PATIENT: Duration = Duration::from_secs(60);

fn gate(limits: Limits) -> Arc<Gate> {
    assert_eq!(limits.faults(), Vec::<String>::new());
    Arc::new(Gate::new("stripe", &limits))
}

fn fails() -> Result<Receipt, Failure> {
    Err(Failure::unknown("timeout"))
}

fn answers() -> Result<Receipt, Failure> {
    Ok(Receipt::new(None, None))
}

#[test]
fn what_an_outcome_says_about_the_provider() {
    let fault = Failure::not_sent(ErrorClass::ORIGIN_NOT_ALLOWED);
    for (outcome, expected) in [
        (answers(), Says::Answers),
        (Err(Failure::refused("declined")), Says::Answers),
        (Err(Failure::unknown("accepted").with_provider_ref(Some("ch_1".into()))), Says::Answers),
        (Err(Failure::unknown("http_503")), Says::Fails),
        (Err(Failure::unknown(ErrorClass::TIMEOUT)), Says::Fails),
        (Err(Failure::unknown(ErrorClass::PANIC)), Says::Fails),
        (Err(Failure::not_sent("connect")), Says::Fails),
        (Err(Failure::not_sent(ErrorClass::OPERATOR)), Says::Fails),
        (Err(Failure::not_sent(ErrorClass::TOO_LATE)), Says::Nothing),
        (Err(Failure::not_sent("before_send")), Says::Nothing),
        (Err(fault), Says::Nothing),
    ] {
        assert_eq!(says(&outcome), expected, "{outcome:?}");
    }
}

#[tokio::test]
async fn an_open_breaker_lets_nobody_in_and_a_call_that_is_not_made_costs_no_sample() {
    let limits = Limits { breaker_failures: 2, breaker_sample_every: PATIENT, ..Limits::default() };
    let gate = gate(limits);
    for _ in 0..2 {
        assert!(!gate.is_failing());
        gate.admit(PATIENT).await.unwrap().end(&fails());
    }
    assert!(gate.is_failing());
    let refused = gate.admit(PATIENT).await.err();
    assert!(matches!(refused, Some(Halt::Failing { next_in }) if next_in <= PATIENT), "{refused:?}");
    assert!(gate.admit_look().await.is_ok(), "a question is no call");

    gate.breaker().not_sampled(Duration::ZERO);
    assert_eq!(gate.halted(), None, "a sample is due");
    drop(gate.admit(PATIENT).await.unwrap());
    let sample = gate.admit(PATIENT).await.expect("the duplicate's sample");
    assert!(gate.admit(PATIENT).await.is_err());
    sample.end(&answers());
    assert!(!gate.is_failing());
    assert!(gate.admit(PATIENT).await.is_ok());
}

#[tokio::test]
async fn no_more_calls_are_under_way_than_there_are_places() {
    let gate = gate(Limits { concurrent_calls: Some(3), ..Limits::default() });
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
        calls.spawn(async move {
            let mut pass = gate.admit(PATIENT).await.expect("a place in time");
            pass.begin();
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            pass.end(&answers());
        });
    }
    calls.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);

    let all = [gate.admit(PATIENT).await, gate.admit(PATIENT).await, gate.admit(PATIENT).await];
    let refused = gate.admit(Duration::ZERO).await.err();
    assert_eq!(refused, Some(Halt::Limited { next_in: Duration::ZERO }));
    drop(all);
    assert!(gate.admit(Duration::ZERO).await.is_ok(), "a place that was not used is free");
}

#[tokio::test]
async fn who_would_have_to_wait_too_long_for_a_turn_does_not_wait() {
    let gate = gate(Limits { calls_per_second: Some(0.01), ..Limits::default() });
    drop(gate.admit(Duration::ZERO).await.expect("a duplicate's turn"));
    gate.admit(Duration::ZERO).await.expect("the turn that it did not use").end(&answers());
    let refused = gate.admit(PATIENT).await.err();
    assert!(matches!(refused, Some(Halt::Limited { next_in }) if next_in > PATIENT), "{refused:?}");
    assert!(gate.admit_look().await.is_err(), "a question is a call to the provider, too");
}

#[tokio::test]
async fn a_pause_reaches_gates_that_are_there_and_those_that_come() {
    let gates = Gates::new([("stripe".to_owned(), Limits::default())].into(), PATIENT);
    let there = gates.of("stripe");
    gates.set_paused(HashSet::from(["stripe".to_owned(), "mailer".to_owned()]));
    for gate in [there.clone(), gates.of("mailer")] {
        assert_eq!(gate.halted(), Some(Halt::Paused));
        assert_eq!(gate.admit(PATIENT).await.err(), Some(Halt::Paused));
        assert_eq!(gate.admit_look().await.err(), Some(Halt::Paused));
    }
    assert!(gates.of("another").admit(PATIENT).await.is_ok());
    gates.set_paused(HashSet::from(["mailer".to_owned()]));
    assert!(there.admit(PATIENT).await.is_ok());
    assert!(gates.of("mailer").admit(PATIENT).await.is_err());
}

#[tokio::test]
async fn a_pause_that_comes_during_a_wait_is_obeyed() {
    let gate = gate(Limits { concurrent_calls: Some(1), ..Limits::default() });
    let place = gate.admit(PATIENT).await.unwrap();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.admit(PATIENT).await.err() }
    });
    tokio::task::yield_now().await;
    gate.set_paused(true);
    place.end(&answers());
    assert_eq!(waiting.await.unwrap(), Some(Halt::Paused));
}

#[test]
fn limits_that_would_stop_everything_or_say_nothing_are_refused() {
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits.faults().join("; ")
    };
    assert_eq!(with(|_| {}), "");
    for (change, says) in [
        ((|l| l.calls_per_second = Some(0.0)) as fn(&mut Limits), "one call in a day"),
        (|l| l.calls_per_second = Some(f64::NAN), "one call in a day"),
        (|l| l.burst = Some(5), "without calls_per_second"),
        (|l| (l.calls_per_second, l.burst) = (Some(1.0), Some(0)), "burst is zero"),
        (|l| l.concurrent_calls = Some(0), "concurrent_calls must be"),
        (|l| l.patience = Duration::from_secs(7200), "more than an hour"),
        (|l| l.breaker_failures = 0, "breaker_failures is zero"),
        (|l| l.breaker_sample_every = Duration::ZERO, "breaker_sample_every is zero"),
    ] {
        assert!(with(change).contains(says), "{}", with(change));
    }
}
