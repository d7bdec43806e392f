//! What the seed decides: who gets which message how often and in which order, and when a service is killed.

use std::collections::HashSet;

use super::faults::dice;
use super::messages::{Message, Messages};

/// Instances that both get every message.
pub(super) const SERVICES: usize = 2;
/// Copies of a message for each service.
const COPIES_MAX: u32 = 5;
/// Redelivered messages come this many messages later, in the mean: some at once, some long after.
const LATER_MEAN: f64 = 40.0;
/// One message in so many comes to both services at the same time, as after a rebalance or a lock that ran out; of the others, one service
/// hears first, and the other so many messages later.
const AT_ONCE_ONE_IN: u32 = 6;
const OTHER_LATER: f64 = 25.0;
/// A kill for that many messages, within these bounds: enough to be no accident, few enough to end in time.
const MESSAGES_PER_KILL: usize = 20;
const KILLS_MIN: usize = 3;
const KILLS_MAX: usize = 12;

/// A delivery to one of the services.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) service: usize,
    pub(super) message: Message,
    /// May come while the other service still has the same message. Any other copy waits until nobody has it.
    pub(super) overlaps: bool,
}

/// One SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    /// Due with the delivery of this number.
    pub(super) with: usize,
    /// The service that is hit; in a call, the one that has a request open if this one has none.
    pub(super) service: usize,
    /// Waits until the downstream holds an open request of the service.
    pub(super) in_call: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) deliveries: Vec<Planned>,
    /// Delivered when everything before is acknowledged, so that it is certain which of two contents came first.
    pub(super) last: Vec<Planned>,
    pub(super) kills: Vec<Kill>,
}

impl Plan {
    pub(super) fn new(seed: u64, messages: &Messages) -> Self {
        let mut dice = dice(seed, &["plan"]);
        let mut timed: Vec<(f64, Planned)> = Vec::new();
        let mut now = 0.0;
        for message in &messages.distinct {
            now += 1.0;
            let at_once = dice.u32(..AT_ONCE_ONE_IN) == 0;
            let first = dice.usize(..SERVICES);
            for service in 0..SERVICES {
                let mut at = if at_once || service == first { now } else { now + OTHER_LATER };
                for copy in 0..dice.u32(1..=COPIES_MAX) {
                    let overlaps = at_once && copy == 0;
                    timed.push((at, Planned { service, message: message.clone(), overlaps }));
                    at -= LATER_MEAN * (1.0 - dice.f64()).ln();
                }
            }
        }
        for message in &messages.repeated {
            let (service, message) = (dice.usize(..SERVICES), message.clone());
            let planned = Planned { service, message, overlaps: false };
            timed.push((now * dice.f64(), planned));
        }
        timed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let deliveries: Vec<_> = timed.into_iter().map(|(_, planned)| planned).collect();
        let both = |message: &Message| {
            (0..SERVICES)
                .map(|service| Planned { service, message: message.clone(), overlaps: false })
                .collect::<Vec<_>>()
        };
        let kills = kills(&mut dice, &deliveries);
        Self { deliveries, last: messages.mismatches.iter().flat_map(both).collect(), kills }
    }
}

/// Evenly spread over the moments at which a message comes for the first time, since those lead to calls; three of four in a call.
fn kills(dice: &mut fastrand::Rng, deliveries: &[Planned]) -> Vec<Kill> {
    let mut known = HashSet::new();
    let firsts: Vec<usize> =
        (0..deliveries.len()).filter(|at| known.insert(deliveries[*at].message.id())).collect();
    let count = (firsts.len() / MESSAGES_PER_KILL).clamp(KILLS_MIN, KILLS_MAX);
    (0..count)
        .map(|n| {
            let from = n * firsts.len() / count;
            let to = ((n + 1) * firsts.len() / count).max(from + 1);
            let at = dice.usize(from..to).min(firsts.len().saturating_sub(1));
            Kill { with: firsts[at], service: dice.usize(..SERVICES), in_call: n % 4 != 3 }
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_fixes_the_plan_and_every_message_comes_to_both() {
        let messages = Messages::load(None).expect("bundled");
        let plan = Plan::new(7, &messages);
        let shown = |plan: &Plan| format!("{plan:?}");
        assert_eq!(shown(&plan), shown(&Plan::new(7, &messages)));
        assert_ne!(shown(&plan), shown(&Plan::new(8, &messages)));
        for message in &messages.distinct {
            for service in 0..SERVICES {
                let copies =
                    plan.deliveries.iter().filter(|d| d.service == service && d.message == *message).count();
                assert!((1..=5).contains(&copies), "{copies}");
            }
        }
        assert!(plan.kills.iter().filter(|k| k.in_call).count() * 2 >= plan.kills.len());
        assert!(plan.kills.iter().all(|k| k.with < plan.deliveries.len()));
        assert!(plan.kills.is_sorted_by_key(|k| k.with));
    }
}
