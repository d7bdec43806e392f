//! The queue by itself: cases, and random histories against a naive model.

mod model;

use std::marker::PhantomData;
use std::time::Duration;

use super::*;
use crate::Namespace;
use crate::acquire::held_facts;
use crate::claim::{Claim, Token};
use crate::key::{IdempotencyKey, Reference};
use crate::state::tests::kit::facts;
use crate::state::{Facts, Outcome, State, next};
use crate::store::bind::Note;
use crate::time::Timestamp;

type Answer<A> = oneshot::Receiver<Result<A, Error>>;

fn insert(name: &str) -> Arc<Insert> {
    let namespace = Namespace::new("shop").expect("a namespace");
    let key = ClaimKey::new("mail", name).expect("a key");
    let claim = crate::NewClaim::new("mail.welcome", "mailer", name, facts(State::Held).declared);
    Arc::new(Insert {
        token: Token([1; 16]),
        idempotency_key: IdempotencyKey::derive(&namespace, &key),
        reference: Reference::derive(&namespace, &key),
        in_flight: true,
        due_in: Duration::from_secs(60),
        key,
        claim,
    })
}

fn confirm(name: &str) -> Arc<Confirm> {
    let insert = insert(name);
    let zero = Timestamp::from_micros(0);
    let facts = Facts {
        state: State::InFlight,
        fence: 1,
        attempts: 1,
        window_from: Some(zero),
        ..held_facts(&insert)
    };
    let claim = Claim {
        key: insert.key.clone(),
        facts: Box::new(facts),
        idempotency_key: insert.idempotency_key.clone(),
        reference: insert.reference.clone(),
        kind: "mail.welcome".into(),
        fingerprint: Box::new(insert.claim.fingerprint),
        send_until: Instant::now(),
        believed_until: Instant::now(),
        state: PhantomData,
    };
    let event = claim.ended(Outcome::Done { provider_ref: None }, Duration::ZERO);
    let made = next(&claim.facts, &event).expect("a move");
    Arc::new(Confirm::of(&claim, made, &mut Note::default()).expect("the ordinary one"))
}

fn claiming(name: &str, bytes: usize, deadline: Instant) -> (Claiming, Answer<Inserted>) {
    let job = insert(name);
    let (answer, answered) = oneshot::channel();
    (Waiting { id: id_of(&job.key), job, bytes, deadline, answer }, answered)
}

fn confirming(name: &str, bytes: usize, deadline: Instant) -> (Confirming, Answer<bool>) {
    let job = confirm(name);
    let (answer, answered) = oneshot::channel();
    (Waiting { id: id_of(&job.key), job, bytes, deadline, answer }, answered)
}

/// A queue, and those who wait for it.
#[derive(Default)]
struct Bench {
    queue: Queue,
    claims: Vec<Answer<Inserted>>,
    confirms: Vec<Answer<bool>>,
}

impl Bench {
    fn claim(&mut self, name: &str, bytes: usize) {
        let (claim, answer) = claiming(name, bytes, Instant::now() + Duration::from_secs(10));
        self.queue.claims.push_back(claim);
        self.claims.push(answer);
    }

    fn confirm(&mut self, name: &str, bytes: usize) {
        let (confirm, answer) = confirming(name, bytes, Instant::now() + Duration::from_secs(10));
        self.queue.confirms.push_back(confirm);
        self.confirms.push(answer);
    }

    /// The message ids of the next batch: claims, outcomes. It stays under way.
    fn take(&mut self, lanes: Lanes) -> (Vec<String>, Vec<String>, Hold) {
        let batch = self.queue.take(lanes).batch;
        let hold = batch.hold();
        let claims = batch.claims.iter().map(|c| c.job.key.message_id().to_owned()).collect();
        let confirms = batch.confirms.iter().map(|c| c.job.key.message_id().to_owned()).collect();
        (claims, confirms, hold)
    }
}

const MIXED: Lanes = Lanes::Mixed(2);

#[test]
fn an_outcome_that_comes_last_is_in_the_next_batch() {
    let mut bench = Bench::default();
    for i in 0..2000 {
        bench.claim(&format!("m{i}"), 10);
    }
    bench.confirm("settled", 10);
    let (claims, confirms, _) = bench.take(MIXED);
    assert_eq!((claims.len(), confirms), (ROWS_MAX - 1, vec!["settled".to_owned()]));
    assert_eq!(claims[0], "m0");
    assert_eq!(claims[ROWS_MAX - 2], format!("m{}", ROWS_MAX - 2));
}

#[test]
fn outcomes_that_fill_a_batch_leave_the_claims_for_the_next() {
    let mut bench = Bench::default();
    bench.claim("m1", 10);
    for i in 0..=ROWS_MAX {
        bench.confirm(&format!("s{i}"), 10);
    }
    let (claims, confirms, _) = bench.take(MIXED);
    assert_eq!((claims.len(), confirms.len()), (0, ROWS_MAX));
    let (claims, confirms, _) = bench.take(MIXED);
    assert_eq!((claims.len(), confirms.len()), (1, 1));
}

#[test]
fn a_batch_is_bounded_in_bytes_but_a_single_row_is_always_taken() {
    let mut bench = Bench::default();
    bench.claim("huge", 3 * BYTES_MAX);
    bench.claim("a", BYTES_MAX / 2);
    bench.claim("b", BYTES_MAX / 2);
    bench.claim("c", 1);
    assert_eq!(bench.take(MIXED).0, ["huge"]);
    assert_eq!(bench.take(MIXED).0, ["a", "b"]);
    assert_eq!(bench.take(MIXED).0, ["c"]);
}

#[test]
fn one_key_is_in_one_batch_and_once() {
    let mut bench = Bench::default();
    for name in ["a", "b", "a", "c", "a"] {
        bench.claim(name, 1);
    }
    bench.confirm("c", 1);
    // Those that stay keep their order, and what is behind them goes on.
    let (claims, confirms, first) = bench.take(MIXED);
    assert_eq!((claims, confirms), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
    let (claims, confirms, second) = bench.take(MIXED);
    assert!(claims.is_empty() && confirms.is_empty());
    bench.queue.release(&second);
    bench.queue.release(&first);
    let (claims, _, first) = bench.take(MIXED);
    assert_eq!(claims, ["a", "c"]);
    bench.queue.release(&first);
    assert_eq!(bench.take(MIXED).0, ["a"]);
}

#[test]
fn an_abandoned_claim_is_dropped_and_an_abandoned_outcome_is_written() {
    let mut bench = Bench::default();
    for name in ["a", "b"] {
        bench.claim(name, 1);
        bench.confirm(&format!("s-{name}"), 1);
    }
    bench.claims.remove(0);
    bench.confirms.remove(0);
    let taken = bench.queue.take(MIXED);
    assert_eq!(taken.abandoned, 1);
    let names: Vec<_> = taken.batch.claims.iter().map(|c| c.job.key.message_id()).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(taken.batch.confirms.len(), 2);
}

#[test]
fn apart_one_batch_of_claims_goes_beside_one_of_outcomes() {
    let mut bench = Bench::default();
    for i in 0..3 {
        bench.claim(&format!("m{i}"), 1);
        bench.confirm(&format!("s{i}"), 1);
    }
    let (claims, confirms, of_confirms) = bench.take(Lanes::Apart);
    assert_eq!((claims.len(), confirms.len()), (0, 3));
    let (claims, confirms, of_claims) = bench.take(Lanes::Apart);
    assert_eq!((claims.len(), confirms.len()), (3, 0));
    bench.claim("m4", 1);
    bench.confirm("s4", 1);
    let (claims, confirms, nothing) = bench.take(Lanes::Apart);
    assert!(claims.is_empty() && confirms.is_empty());
    bench.queue.release(&nothing);
    bench.queue.release(&of_claims);
    let (claims, confirms, _) = bench.take(Lanes::Apart);
    assert_eq!((claims.len(), confirms.len()), (1, 0), "outcomes are under way still");
    bench.queue.release(&of_confirms);
    let (claims, confirms, _) = bench.take(Lanes::Apart);
    assert_eq!((claims.len(), confirms.len()), (0, 1));
}

#[test]
fn whoever_has_waited_too_long_is_taken_out_in_order_but_for_outcomes_that_nobody_waits_for() {
    let mut bench = Bench::default();
    let begun = Instant::now();
    let at = |secs| begun + Duration::from_secs(secs);
    for (name, secs) in [("a", 1), ("b", 2), ("c", 3)] {
        let (claim, answer) = claiming(name, 1, at(secs));
        bench.queue.claims.push_back(claim);
        bench.claims.push(answer);
        let (confirm, answer) = confirming(name, 1, at(secs));
        bench.queue.confirms.push_back(confirm);
        bench.confirms.push(answer);
    }
    assert_eq!(bench.queue.next_deadline(), Some(at(1)));
    assert!(bench.queue.take_late(begun, at(10)).is_empty());
    bench.confirms.remove(0);
    let late = bench.queue.take_late(at(2), at(12));
    let names = |batch: &Batch| {
        let claims: Vec<_> = batch.claims.iter().map(|c| c.job.key.message_id().to_owned()).collect();
        let confirms: Vec<_> = batch.confirms.iter().map(|c| c.job.key.message_id().to_owned()).collect();
        (claims, confirms)
    };
    assert_eq!(names(&late), (vec!["a".into(), "b".into()], vec!["b".into()]));
    assert_eq!(bench.queue.next_deadline(), Some(at(3)));
    let late = bench.queue.take_late(at(4), at(14));
    assert_eq!(names(&late), (vec!["c".into()], vec!["c".into()]));
    // No deadline in the past is left to wake up for.
    assert_eq!(bench.queue.next_deadline(), Some(at(12)));
    assert_eq!(names(&bench.queue.take(MIXED).batch), (vec![], vec!["a".into()]));
    assert_eq!(bench.queue.next_deadline(), None);
}

#[test]
fn rows_behind_many_of_a_key_that_is_being_written_wait_no_longer_than_that() {
    let mut bench = Bench::default();
    bench.claim("hot", 1);
    let (_, _, hold) = bench.take(MIXED);
    for _ in 0..LOOKED_AT_MAX {
        bench.claim("hot", 1);
    }
    bench.claim("other", 1);
    assert!(bench.take(MIXED).0.is_empty(), "what is looked at is bounded");
    bench.queue.release(&hold);
    assert_eq!(bench.take(MIXED).0, ["hot"]);
    assert_eq!(bench.queue.claims.len(), LOOKED_AT_MAX);
}

#[test]
fn claims_whose_keys_turn_out_to_be_held_leave_the_queue_and_the_others_keep_their_order() {
    let mut bench = Bench::default();
    for name in ["a", "held", "b", "held", "c"] {
        bench.claim(name, 1);
    }
    let id = bench.queue.claims[1].id;
    bench.queue.blocked.insert(id, (1, Arc::new(Semaphore::new(1))));
    let taken = bench.queue.take(MIXED);
    let names = |claims: &[Claiming]| -> Vec<String> {
        claims.iter().map(|c| c.job.key.message_id().to_owned()).collect()
    };
    assert_eq!(
        (names(&taken.held_up), names(&taken.batch.claims)),
        (vec!["held".into(), "held".into()], vec!["a".into(), "b".into(), "c".into()])
    );
    assert_eq!((taken.abandoned, bench.queue.claims.len(), bench.queue.held_up()), (0, 0, 1));
}
