use std::time::Duration;

use proptest::prelude::*;

use crate::gate::breaker::{Admits, Breaker};

const MAX: u32 = 3;
const EVERY: Duration = Duration::from_secs(5);

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn open_at(now: Duration) -> Breaker {
    let mut breaker = Breaker::new(MAX, EVERY);
    for n in 1..=MAX {
        assert_eq!(breaker.admits(now), Admits::Yes, "{n}");
        assert_eq!(breaker.failed(now), n == MAX, "{n}");
    }
    breaker
}

#[test]
fn it_opens_after_failures_in_a_row_and_lets_one_call_in_each_interval_through() {
    let mut breaker = open_at(at(10));
    assert_eq!(breaker.admits(at(10)), Admits::Not { next_in: EVERY });
    assert_eq!(breaker.admits(at(14)), Admits::Not { next_in: at(1) });
    assert_eq!(breaker.admits(at(15)), Admits::Sample);
    assert_eq!(breaker.admits(at(15)), Admits::Not { next_in: EVERY }, "one");
    assert!(!breaker.failed(at(16)), "it was open already");
    assert_eq!(breaker.admits(at(19)), Admits::Not { next_in: at(1) });
    assert_eq!(breaker.admits(at(20)), Admits::Sample, "a sample that never ends stops no other");
    assert!(breaker.answered());
    assert_eq!(breaker.admits(at(20)), Admits::Yes);
    assert!(!breaker.answered(), "it was closed already");
}

#[test]
fn an_answer_in_between_starts_the_row_anew() {
    let mut breaker = Breaker::new(MAX, EVERY);
    for _ in 0..10 {
        assert!(!breaker.failed(at(1)) && !breaker.failed(at(1)));
        assert!(!breaker.answered());
    }
    assert_eq!(breaker.admits(at(1)), Admits::Yes);
}

#[test]
fn a_sample_that_was_not_made_is_the_next_calls() {
    let mut breaker = open_at(at(0));
    assert_eq!(breaker.admits(at(5)), Admits::Sample);
    breaker.not_sampled(at(6));
    assert_eq!(breaker.rests(at(6)), None);
    assert_eq!(breaker.admits(at(6)), Admits::Sample);
}

proptest! {
    /// Against the definition: open exactly while the last calls to end have failed, `MAX` of them or more; and never two samples within
    /// one interval.
    #[test]
    fn it_is_open_exactly_after_so_many_failures_in_a_row(steps in proptest::collection::vec((0u64..4, 0u8..3), 0..200)) {
        let mut breaker = Breaker::new(MAX, EVERY);
        let (mut now, mut row, mut sampled) = (Duration::ZERO, 0, None);
        for (secs, step) in steps {
            now += at(secs);
            match step {
                0 => {
                    prop_assert_eq!(breaker.answered(), row >= MAX);
                    (row, sampled) = (0, None);
                }
                1 => {
                    row += 1;
                    let opens = breaker.failed(now);
                    prop_assert_eq!(opens, row == MAX);
                    if opens {
                        sampled = Some(now);
                    }
                }
                _ => {
                    let admits = breaker.admits(now);
                    prop_assert_eq!(admits == Admits::Yes, row < MAX);
                    if row >= MAX {
                        let due = sampled.is_none_or(|last| now >= last + EVERY);
                        prop_assert_eq!(admits == Admits::Sample, due);
                        if due {
                            sampled = Some(now);
                        }
                    }
                }
            }
            prop_assert_eq!(breaker.failures(), row);
        }
    }
}
