use std::time::Duration;

use proptest::prelude::*;

use crate::gate::bucket::Bucket;

const LONG: Duration = Duration::from_secs(3600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn turns_come_evenly_after_a_burst() {
    let bucket = Bucket::new(10.0, Some(3));
    let turns: Vec<_> = (0..6).map(|_| bucket.take(ms(1000), LONG).unwrap().at).collect();
    assert_eq!(turns, [1000, 1000, 1000, 1100, 1200, 1300].map(ms));
    assert_eq!(bucket.take(ms(1000), ms(399)).unwrap_err(), ms(400), "too long, and it says how long");
    assert_eq!(bucket.take(ms(1000), ms(400)).unwrap().at, ms(1400), "who was refused took nothing");
    let rested: Vec<_> = (0..4).map(|_| bucket.take(ms(60_000), LONG).unwrap().at).collect();
    assert_eq!(rested, [60_000, 60_000, 60_000, 60_100].map(ms), "rest earns a burst and no more");
}

#[test]
fn a_burst_is_one_seconds_worth_unless_named() {
    for (rate, burst) in [(25.0, 25), (0.5, 1), (1.0, 1), (1.5, 2)] {
        let bucket = Bucket::new(rate, None);
        let at_once = (0..100).filter(|_| bucket.take(ms(0), Duration::ZERO).is_ok()).count();
        assert_eq!(at_once, burst, "{rate}");
    }
}

#[test]
fn a_turn_that_was_not_used_is_handed_out_again_unless_others_stand_behind_it() {
    let bucket = Bucket::new(1.0, Some(1));
    let first = bucket.take(ms(0), LONG).unwrap();
    bucket.give_back(first);
    let again = bucket.take(ms(0), LONG).unwrap();
    assert_eq!(again.at, ms(0));
    let behind = bucket.take(ms(0), LONG).unwrap();
    bucket.give_back(again);
    assert_eq!(behind.at, ms(1000));
    assert_eq!(bucket.take(ms(0), LONG).unwrap().at, ms(2000), "not the turn of the one behind");
}

proptest! {
    /// In any stretch of time no more turns lie than a burst and what the rate earns in it.
    #[test]
    fn no_stretch_of_time_holds_more_turns_than_the_rate_and_a_burst(
        rate in 1u32..50,
        burst in 1u32..10,
        steps in proptest::collection::vec((0u64..300, any::<bool>()), 1..150),
    ) {
        let bucket = Bucket::new(f64::from(rate), Some(burst));
        let (mut now, mut turns) = (Duration::ZERO, Vec::new());
        for (wait, used) in steps {
            now += ms(wait);
            let slot = bucket.take(now, LONG).unwrap();
            prop_assert!(slot.at >= now);
            if used { turns.push(slot.at) } else { bucket.give_back(slot) }
        }
        turns.sort();
        for (i, from) in turns.iter().enumerate() {
            for (n, to) in turns[i..].iter().enumerate() {
                let earned = (*to - *from).as_secs_f64() * f64::from(rate);
                // A nanosecond of rounding for each turn.
                #[allow(clippy::cast_precision_loss)]
                let held = n as f64 + 1.0;
                prop_assert!(held <= f64::from(burst) + earned + 1e-3, "{held} turns, {earned} earned");
            }
        }
    }
}
