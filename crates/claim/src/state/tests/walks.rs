//! Many walks: what is promised holds after every step of all of them.

use std::collections::BTreeMap;

use super::walk::{Plan, Walk};
use crate::state::{EDGES, State, Verb};

const HONEST: Plan = Plan { person_errs: false };

/// What a series of walks has done: how often each move was made out of each state.
type Tally = BTreeMap<(Verb, State), u32>;

/// Walks from a seed on; the first violation, with its seed and all that led to it.
fn walks(first: u64, count: u64, plan: Plan, tally: &mut Tally) -> Result<u32, String> {
    let mut steps = 0;
    for seed in first..first + count {
        let mut walk = Walk::new(seed, plan, false);
        match walk.run() {
            Ok(n) => steps += n,
            Err(what) => {
                let mut again = Walk::new(seed, plan, true);
                let _ = again.run();
                let trace = again.trace.unwrap_or_default().join("\n");
                return Err(format!("SEED={seed}: {what}\n{:?}\n{trace}", again.f.declared));
            }
        }
        for (made, n) in walk.made {
            *tally.entry(made).or_default() += n;
        }
    }
    Ok(steps)
}

#[test]
fn never_two_effects_never_a_false_answer_and_nothing_stuck() {
    // A seed of the day beside the fixed ones, printed when it fails.
    let of_the_day = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| fastrand::u64(1 << 32..1 << 48));
    let mut tally = Tally::new();
    let steps = [(0, 15_000), (of_the_day, 5_000)].map(|(first, count)| {
        walks(first, count, HONEST, &mut tally).unwrap_or_else(|violation| panic!("{violation}"))
    });
    assert!(steps.iter().sum::<u32>() > 1_000_000, "{steps:?}");
    // In an honest world nothing contradicts, and nothing has happened where a claim is held or to be tried again.
    // Every other edge must have been walked many times.
    let dishonest = |(verb, from): (Verb, State)| {
        verb == Verb::Contradict
            || verb == Verb::EvidenceDone && matches!(from, State::Held | State::Retryable)
    };
    for (verb, from, _) in EDGES.iter().filter(|(verb, from, _)| !dishonest((*verb, *from))) {
        let times = tally.get(&(*verb, *from)).copied().unwrap_or_default();
        assert!(times > 20, "{} from {from} was made {times} times only: {tally:#?}", verb.as_str());
    }
}

#[test]
fn a_wrong_ruling_doubles_at_most_once_and_is_never_made_worse_by_a_false_answer_or_hidden() {
    let plan = Plan { person_errs: true };
    walks(1 << 20, 30_000, plan, &mut Tally::new()).unwrap_or_else(|violation| panic!("{violation}"));
}
