//! What goes wrong at the downstream: for each request of a message, fixed by the seed.

use std::time::Duration;

use super::messages::{Kind, Message};

/// What the downstream does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Neither acts nor answers.
    Hang,
    /// Acts, and never answers.
    ActThenHang,
    /// Acts when the client has long given up, and never answers.
    ActLate,
    /// Acts, and the connection breaks before the answer.
    ActThenDrop,
    /// Answers 500 and does not act.
    Fail,
    /// Acts, and answers 500.
    ActThenFail,
    /// Acts, and answers 202: queued, ask again.
    Accepted,
}

/// Per mille of the requests. Dropped answers never become rarer; the rest spares requests that were repeated often, so that the demo ends.
const WEIGHTS: [(Fault, u32); 7] = [
    (Fault::ActThenDrop, 100),
    (Fault::ActThenFail, 35),
    (Fault::Fail, 35),
    (Fault::ActThenHang, 20),
    (Fault::Hang, 15),
    (Fault::ActLate, 15),
    (Fault::Accepted, 40),
];
const SPARED_FROM: u32 = 4;

/// Longer than any client of the demo waits.
pub(super) const LATE: Duration = Duration::from_millis(1_300);

/// What happens to one request: the fault, and how long the work and the answer take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) fault: Fault,
    pub(super) work: Duration,
    pub(super) answer: Duration,
}

/// The fate of the `arrival`th request for this message on one account.
pub(super) fn fate(seed: u64, message: &Message, arrival: u32) -> Fate {
    let mut dice = dice(seed, &[&message.tenant, &message.id, &arrival.to_string()]);
    let mut roll = dice.u32(..1000);
    let mut fault = Fault::None;
    for (candidate, weight) in WEIGHTS {
        if roll < weight {
            fault = candidate;
            break;
        }
        roll -= weight;
    }
    let spared = arrival >= SPARED_FROM && fault != Fault::ActThenDrop;
    // Only mail is queued: a charge is decided at once.
    if spared || (fault == Fault::Accepted && message.kind == Kind::Charge) {
        fault = Fault::None;
    }
    let mut millis = |from, to| Duration::from_millis(dice.u64(from..to));
    // Fast for a provider, long against the way of a signal.
    Fate { fault, work: millis(15, 45), answer: millis(10, 30) }
}

/// A generator of its own for each purpose, so that no choice depends on how many were made before (FNV-1a over the words).
pub(super) fn dice(seed: u64, words: &[&str]) -> fastrand::Rng {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
    for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    fastrand::Rng::with_seed(hash)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::super::messages::Messages;
    use super::*;

    #[test]
    fn fates_follow_from_the_seed_and_lose_one_answer_in_twenty_at_least() {
        let messages = Messages::load(None).expect("bundled").distinct;
        for seed in [0, 1, 42, u64::MAX] {
            let faults = || (1..4).flat_map(|n| messages.iter().map(move |m| fate(seed, m, n).fault));
            assert!(faults().eq(faults()));
            let lost = faults().filter(|f| *f == Fault::ActThenDrop).count();
            assert!(lost * 20 >= faults().count(), "{lost} of {} with seed {seed}", faults().count());
        }
    }
}
