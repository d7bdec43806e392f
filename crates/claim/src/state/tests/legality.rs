//! Every state with every event: all rows of a small domain, and seeded random rows of a wide one.

use std::collections::BTreeSet;

use super::kit::*;
use crate::claim::Token;
use crate::state::{
    Closed, Event, Facts, Finding, Move, Refused, Room, Ruling, Seen, State, Taking, Verb, next,
};
use crate::{declared::RepeatSafety, state::EDGES};

/// A row of that state by a series of choices, `pick(n)` being one of `0..n`. Rows that the stored form refuses are
/// no rows. `wide`: with the columns that few rules read.
fn row(state: State, wide: bool, pick: &mut dyn FnMut(usize) -> usize) -> Option<Facts> {
    let mut f = facts(state);
    f = match pick(3) {
        0 => f,
        1 => f.natural(),
        _ => f.keyed(200),
    };
    f.doubt = pick(2) == 1;
    if state == State::Escalated {
        f.contradicted = pick(2) == 1;
    }
    if state != State::Held {
        f.repeats_granted = [0, 1][pick(2)];
        f.attempts = [0, 1, 3][pick(3)];
        f.window_from = [None, Some(at(100)), Some(at(WINDOW_FROM))][pick(3)];
        f.last_end_at = [None, Some(at(LAST_END)), Some(at(NOW - 2))][pick(3)];
    }
    if pick(2) == 1 {
        f = f.proof();
    }
    f.provider_ref = [None, Some("a".to_owned())][pick(2)].clone();
    if f.due_at.is_some() {
        f.due_at = [f.due_at, Some(at(NOW + 40))][pick(2)];
    }
    f.send_by = [None, Some(at(NOW - 1))][pick(2)];
    if matches!(state, State::Retryable | State::InDoubt) {
        f.error_class = [None, Some(fault())][pick(2)].clone();
    }
    if wide {
        f.fence = if state == State::Held { 0 } else { [1, 3][pick(2)] };
        f.declared.landing_horizon = [None, Some(secs(HORIZON)), Some(secs(u64::MAX))][pick(3)];
        f.declared.call_timeout = [secs(TIMEOUT), secs(u64::MAX)][pick(2)];
        f.declared.repeat = match (f.declared.repeat, pick(2)) {
            (RepeatSafety::Keyed { .. }, 1) => RepeatSafety::Keyed { window: std::time::Duration::MAX },
            (repeat, _) => repeat,
        };
        if let Some(probe) = &mut f.declared.probe {
            probe.not_found_is_proof = pick(2) == 1;
        }
        f.send_by = [None, Some(at(NOW - 1)), Some(at(NOW)), Some(at(NOW + 5))][pick(4)];
        f.not_before = [None, Some(at(NOW + 5))][pick(2)];
        f.ruled_at = [None, Some(at(NOW - 3))][pick(2)];
        f.declared.age_max = secs([5000, NOW as u64][pick(2)]);
        f.looks = [0, 2, u32::MAX][pick(3)];
        f.attempts = if state == State::Held { 0 } else { [f.attempts, u32::MAX][pick(2)] };
        f.purged = state.is_terminal() && pick(2) == 1;
    }
    (broken_constraint(&f).is_none() && !idle_grant(&f)).then_some(f)
}

/// A grant unspent where the newest attempt has ended without sparing it: no series of moves leads there.
fn idle_grant(f: &Facts) -> bool {
    f.repeats_granted > 0 && (f.state == State::InDoubt || f.state.is_terminal())
}

/// Runs `visit` for every series of choices, by an odometer.
fn every(mut visit: impl FnMut(&mut dyn FnMut(usize) -> usize)) {
    let mut wheels: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut at = 0;
        visit(&mut |n| {
            if at == wheels.len() {
                wheels.push((0, n));
            }
            at += 1;
            wheels[at - 1].0
        });
        wheels.truncate(at);
        while wheels.last().is_some_and(|(digit, n)| digit + 1 == *n) {
            wheels.pop();
        }
        let Some((digit, _)) = wheels.last_mut() else { return };
        *digit += 1;
    }
}

fn findings() -> [Finding; 7] {
    [
        found(&[]),
        found(&["a"]),
        found(&["a", "b"]),
        Finding::Refused { covers_all: true },
        Finding::Refused { covers_all: false },
        Finding::NotDone,
        Finding::CannotTell,
    ]
}

fn events(f: &Facts) -> Vec<Event> {
    let mut all = vec![Event::LeaseOver, Event::Expire, Event::Cancel, Event::Escalate];
    for how in [Taking::Begin, Taking::Take, Taking::Redrive] {
        all.push(Event::Taking { how, room: ROOM });
    }
    all.push(Event::Taking { how: Taking::Begin, room: Room { lease: secs(TIMEOUT), margin: secs(1) } });
    for (fence, token) in [(f.fence, f.token), (f.fence.saturating_sub(1), token(2)), (f.fence, token(2))] {
        for outcome in [
            done(),
            done_as("b"),
            refused(),
            replayed(),
            not_sent(),
            unknown(),
            accepted_as("a"),
            accepted_as("b"),
        ] {
            all.push(Event::Settle { fence, token, outcome, again_in: secs(AGAIN) });
        }
    }
    for finding in findings() {
        for (fence, begun_at) in
            [(f.fence, f.now), (f.fence, at(LAST_END)), (f.fence.saturating_sub(1), f.now)]
        {
            all.push(Event::Look { fence, begun_at, finding: finding.clone(), again_in: secs(AGAIN) });
        }
        for known in [false, true] {
            all.push(Event::Evidence { finding: finding.clone(), known });
        }
    }
    for ruling in [rule_done(), Ruling::NotDone, Ruling::Repeat] {
        for (horizon, looked) in [(None, false), (Some(secs(TIMEOUT)), true), (Some(secs(90)), false)] {
            all.push(Event::Rule { seen: seen(f), ruling: ruling.clone(), horizon, looked });
        }
    }
    all.push(Event::Rule {
        seen: Seen { revision: 1, ..seen(f) },
        ruling: rule_done(),
        horizon: None,
        looked: false,
    });
    all
}

/// Whether an attempt of ours ends with this move, and no other way than "not sent".
fn spends(f: &Facts, m: &Move) -> bool {
    use Verb::{Confirm, Contradict, EvidenceDone, LeaseOver, Refuse, RefusedInDoubt, Unknown};
    m.to.is_terminal()
        || matches!(m.verb, Confirm | Refuse | RefusedInDoubt | Unknown | LeaseOver)
        || (f.state == State::InFlight && matches!(m.verb, Contradict | EvidenceDone))
}

/// What holds of every move. Returns the first rule that is broken.
fn broken_rule(f: &Facts, e: &Event, m: &Move) -> Option<&'static str> {
    use Verb::{
        Begin, Contradict, Escalate, FoundNotDone, Look, NotSent, NotSentInDoubt, Redrive, RuleDone,
        RuleNotDone, RuleRepeat, Take,
    };
    let fresh: Token = token(9);
    let g = apply(f, m, f.now, fresh);
    let taking = matches!(m.verb, Begin | Take | Redrive);
    let ruled = matches!(m.verb, RuleDone | RuleNotDone | RuleRepeat);
    let unsent = matches!(m.verb, NotSent | NotSentInDoubt);
    let ended = f.state == State::InFlight && m.to != State::InFlight;
    let own = matches!(e, Event::Settle { fence, token, .. } if *fence == f.fence && *token == f.token);
    let closes = match (f.state.is_terminal(), m.to.is_terminal()) {
        (false, true) => matches!(m.set.closed, Closed::By(_)),
        (true, false) => m.set.closed == Closed::Reopen,
        _ => m.set.closed == Closed::Keep,
    };
    let rules = [
        (m.is_legal() && m.from == f.state, "a move is an edge, or from a state to itself"),
        (!m.moves() || m.new_fact, "every move grows the revision"),
        (g.fence == f.fence + u64::from(taking), "the fence grows in takings and nowhere else"),
        ((g.token == fresh) == taking, "every taking and nothing else writes a fresh token"),
        (closes, "closed exactly while terminal"),
        (!f.doubt || g.doubt || m.verb == FoundNotDone, "only not done, as proof, clears a doubt"),
        (f.doubt || !g.doubt || matches!(m.verb, Redrive | Escalate | Contradict), "a doubt has a cause"),
        (!f.contradicted || g.contradicted || ruled, "contradicted is left by a ruling only"),
        (f.contradicted || !g.contradicted || m.verb == Contradict, "only conflicting evidence contradicts"),
        (g.repeats_granted <= f.repeats_granted || m.verb == RuleRepeat, "only a person grants a repeat"),
        (g.repeats_granted >= f.repeats_granted || spends(f, m), "not sent leaves the grant"),
        (!spends(f, m) || g.repeats_granted == 0, "any other end takes the grant"),
        (
            g.window_from == f.window_from
                || (taking && f.window_from.is_none())
                || (unsent && g.window_from.is_none()),
            "the window starts with the first attempt and never moves",
        ),
        (!taking || g.attempts >= f.attempts && g.attempts > 0, "a taking counts as an attempt"),
        (taking || g.attempts <= f.attempts, "only a taking adds an attempt"),
        (taking || g.attempts == f.attempts || unsent, "only not sent gives an attempt back"),
        (!taking || g.looks == 0, "each taking starts the looks at nothing"),
        (taking || g.looks >= f.looks, "looks are never forgotten under one fence"),
        (g.looks <= f.looks || m.verb == Look, "only a look counts as a look"),
        (!ended || g.last_end_at == f.due_at || own && g.last_end_at == Some(f.now), "an attempt's end"),
        (
            ended || g.last_end_at == f.last_end_at || own && f.state == State::InDoubt,
            "where no attempt ends, its end stays",
        ),
        (
            (g.ruled_at != f.ruled_at) == ruled || f.ruled_at == Some(f.now),
            "age counts anew from rulings only",
        ),
        (ruled || g.declared == f.declared, "what is declared stays, but for a stated horizon"),
        (
            f.provider_ref.is_none() || g.provider_ref == f.provider_ref || m.verb == RuleDone,
            "the first id stays on file",
        ),
        (
            m.moves()
                || m.verb == Contradict
                || (g.doubt, g.attempts, g.repeats_granted) == (f.doubt, f.attempts, f.repeats_granted),
            "what is kept moves nothing",
        ),
        (m.moves() || g.due_at == f.due_at || m.verb == Look, "only a look sets the next look"),
        (!idle_grant(&g), "no grant outlives the attempt that it was for"),
    ];
    rules.into_iter().find_map(|(holds, rule)| (!holds).then_some(rule)).or_else(|| broken_constraint(&g))
}

fn judge(f: &Facts, e: &Event, reached: &mut BTreeSet<(Verb, State, State)>) {
    match next(f, e) {
        Ok(m) => {
            if let Some(rule) = broken_rule(f, e, &m) {
                panic!("{rule}\nfacts {f:?}\nevent {e:?}\nmove {m:?}");
            }
            if m.moves() {
                reached.insert((m.verb, m.from, m.to));
            }
        }
        Err(why) => {
            let evidence = matches!(e, Event::Settle { .. } | Event::Look { .. } | Event::Evidence { .. });
            assert!(!evidence, "evidence is never refused: {why}\nfacts {f:?}\nevent {e:?}");
            if let Refused::NotYet { from, .. } = why {
                assert!(f.now < from, "not yet, but from {from} on: {f:?} {e:?}");
            }
        }
    }
}

#[test]
fn every_event_in_every_state_has_an_answer_that_the_stored_form_allows_and_every_edge_is_reached() {
    let (mut reached, mut rows) = (BTreeSet::new(), 0u32);
    for state in State::ALL {
        every(|pick| {
            if let Some(f) = row(state, false, pick) {
                rows += 1;
                events(&f).iter().for_each(|e| judge(&f, e, &mut reached));
            }
        });
    }
    assert!(rows > 3_000, "the domain has shrunk to {rows} rows");
    let edges: BTreeSet<_> = EDGES.iter().copied().collect();
    assert_eq!(edges.len(), EDGES.len(), "an edge is named twice");
    assert_eq!(reached, edges);
}

#[test]
fn random_rows_of_a_wide_domain_break_no_rule_either() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut reached = BTreeSet::new();
    for _ in 0..4_000 {
        let state = State::ALL[dice.usize(..State::ALL.len())];
        if let Some(f) = row(state, true, &mut |n| dice.usize(..n)) {
            events(&f).iter().for_each(|e| judge(&f, e, &mut reached));
        }
    }
}

#[test]
fn words_of_states_and_verbs_are_read_back_and_never_shared() {
    for state in State::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
    assert!("done".parse::<State>().is_err());
    let words: BTreeSet<_> = Verb::ALL.iter().map(|v| v.as_str()).collect();
    assert_eq!(words.len(), Verb::ALL.len());
    assert!(words.iter().all(|w| w.len() <= 32), "the stored form has room for 32 bytes");
}
