//! Builders of facts and events, and what the store's one update makes of a row.

use std::time::Duration;

use crate::claim::Token;
use crate::declared::{Declared, ProbeTerms, RepeatSafety};
use crate::failure::ErrorClass;
use crate::state::{
    Due, Event, Facts, Finding, LastEnd, Move, Outcome, Refused, Room, Ruling, Seen, State, Taking, Window,
    next,
};
use crate::time::Timestamp;

/// Seconds after an arbitrary moment that the stored form allows.
pub(crate) const fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + secs * 1_000_000)
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn token(n: u8) -> Token {
    Token([n; 16])
}

/// The present of every row of [`facts`].
pub(crate) const NOW: i64 = 1000;
pub(crate) const LAST_END: i64 = 950;
pub(crate) const WINDOW_FROM: i64 = 900;
pub(crate) const TIMEOUT: u64 = 10;
pub(crate) const HORIZON: u64 = 30;
pub(crate) const LAG: u64 = 5;
/// A look begun later than this is proof, where the probe's "not found" is.
pub(crate) const PROOF_FROM: i64 = LAST_END + (HORIZON + LAG) as i64;
pub(crate) const AGAIN: u64 = 7;
pub(crate) const ROOM: Room = Room { lease: secs(60), margin: secs(1) };

/// A `Never` effect without a probe, in that state: due, young, quiet (nothing can land any more), no doubt but what
/// the state implies.
pub(crate) fn facts(state: State) -> Facts {
    let held = state == State::Held;
    let open = state.is_due_some_day();
    Facts {
        now: at(NOW),
        state,
        doubt: state == State::Escalated,
        contradicted: false,
        fence: if held { 0 } else { 3 },
        token: token(3),
        revision: 9,
        due_at: open.then_some(at(NOW - 10)),
        not_before: None,
        send_by: None,
        created_at: at(0),
        window_from: (!held).then_some(at(WINDOW_FROM)),
        last_end_at: (!held).then_some(at(LAST_END)),
        attempts: u32::from(!held),
        repeats_granted: 0,
        ruled_at: None,
        looks: 0,
        error_class: None,
        provider_ref: None,
        declared: Declared {
            repeat: RepeatSafety::Never,
            landing_horizon: Some(secs(HORIZON)),
            probe: None,
            call_timeout: secs(TIMEOUT),
            attempts_max: 3,
            age_max: secs(5000),
        },
        purged: false,
    }
}

/// Small changes to a row, in chains.
pub(crate) trait Case: Sized {
    fn with(self, change: impl FnOnce(&mut Facts)) -> Facts;

    fn keyed(self, window: u64) -> Facts {
        self.with(|f| f.declared.repeat = RepeatSafety::Keyed { window: secs(window) })
    }
    fn natural(self) -> Facts {
        self.with(|f| f.declared.repeat = RepeatSafety::Natural)
    }
    fn doubt(self) -> Facts {
        self.with(|f| f.doubt = true)
    }
    fn granted(self) -> Facts {
        self.with(|f| f.repeats_granted = 1)
    }
    fn contradicted(self) -> Facts {
        self.with(|f| (f.contradicted, f.doubt) = (true, true))
    }
    /// A probe whose "not found" is proof.
    fn proof(self) -> Facts {
        self.probe(true)
    }
    /// A probe whose "not found" says nothing.
    fn search(self) -> Facts {
        self.probe(false)
    }
    fn probe(self, not_found_is_proof: bool) -> Facts {
        let terms = ProbeTerms { lag: secs(LAG), not_found_is_proof, looks_max: 2 };
        self.with(|f| f.declared.probe = Some(terms))
    }
    fn now(self, secs: i64) -> Facts {
        self.with(|f| f.now = at(secs))
    }
    fn send_by(self, secs: i64) -> Facts {
        self.with(|f| f.send_by = Some(at(secs)))
    }
    fn on_file(self, id: &str) -> Facts {
        self.with(|f| f.provider_ref = Some(id.to_owned()))
    }
    fn class(self, class: &str) -> Facts {
        self.with(|f| f.error_class = Some(class.into()))
    }
    fn aged(self) -> Facts {
        self.with(|f| f.declared.age_max = secs(NOW as u64))
    }
    fn attempts(self, n: u32) -> Facts {
        self.with(|f| f.attempts = n)
    }
    fn no_horizon(self) -> Facts {
        self.with(|f| f.declared.landing_horizon = None)
    }
}

impl Case for Facts {
    fn with(mut self, change: impl FnOnce(&mut Facts)) -> Facts {
        change(&mut self);
        self
    }
}

// ---- events ----------------------------------------------------------------------------------------------

pub(crate) fn done() -> Outcome {
    Outcome::Done { provider_ref: None }
}
pub(crate) fn done_as(id: &str) -> Outcome {
    Outcome::Done { provider_ref: Some(id.to_owned()) }
}
/// A refusal that speaks for its own attempt.
pub(crate) fn refused() -> Outcome {
    Outcome::Refused { covers_earlier: false, class: "declined".into() }
}
/// A refusal that the provider stores under the key and replays.
pub(crate) fn replayed() -> Outcome {
    Outcome::Refused { covers_earlier: true, class: "declined".into() }
}
pub(crate) fn not_sent() -> Outcome {
    Outcome::NotSent { class: "connect".into() }
}
pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown { provider_ref: None, class: "reset".into() }
}
pub(crate) fn accepted_as(id: &str) -> Outcome {
    Outcome::Unknown { provider_ref: Some(id.to_owned()), class: "accepted".into() }
}
pub(crate) fn found(ids: &[&str]) -> Finding {
    Finding::Done { ids: ids.iter().map(|&id| id.to_owned()).collect() }
}

pub(crate) fn take(f: &Facts, how: Taking) -> Result<Move, Refused> {
    next(f, &Event::Taking { how, room: ROOM })
}

/// The newest holder settles.
pub(crate) fn settle(f: &Facts, outcome: Outcome) -> Move {
    made(next(f, &Event::Settle { fence: f.fence, token: f.token, outcome, again_in: secs(AGAIN) }))
}

/// A holder settles that was fenced out.
pub(crate) fn settle_late(f: &Facts, outcome: Outcome) -> Move {
    let (fence, token) = (f.fence.saturating_sub(1), token(2));
    made(next(f, &Event::Settle { fence, token, outcome, again_in: secs(AGAIN) }))
}

/// A look for the newest fence, begun just now: late enough to be proof in a row of [`facts`].
pub(crate) fn look(f: &Facts, finding: Finding) -> Move {
    look_of(f, f.fence, f.now, finding)
}

pub(crate) fn look_of(f: &Facts, fence: u64, begun_at: Timestamp, finding: Finding) -> Move {
    made(next(f, &Event::Look { fence, begun_at, finding, again_in: secs(AGAIN) }))
}

pub(crate) fn evidence(f: &Facts, finding: Finding) -> Move {
    made(next(f, &Event::Evidence { finding, known: false }))
}

pub(crate) fn seen(f: &Facts) -> Seen {
    Seen { state: f.state, fence: f.fence, revision: f.revision }
}

/// A person rules on a fresh page, relying on no probe and stating no horizon.
pub(crate) fn rule(f: &Facts, ruling: Ruling) -> Result<Move, Refused> {
    next(f, &Event::Rule { seen: seen(f), ruling, horizon: None, looked: false })
}

pub(crate) fn rule_done() -> Ruling {
    Ruling::Done { provider_ref: None }
}

// ---- answers ---------------------------------------------------------------------------------------------

pub(crate) fn made(answer: Result<Move, Refused>) -> Move {
    answer.unwrap_or_else(|why| panic!("refused: {why}"))
}

/// The refusal, for `matches!`.
pub(crate) fn refusal(answer: Result<Move, Refused>) -> Refused {
    match answer {
        Err(why) => why,
        Ok(m) => panic!("not refused, but {} to {}", m.verb.as_str(), m.to),
    }
}

/// The row after the move: what the store's one update does, at that moment of the database's clock.
pub(crate) fn apply(f: &Facts, m: &Move, now: Timestamp, fresh: Token) -> Facts {
    let set = &m.set;
    Facts {
        now,
        state: m.to,
        doubt: set.doubt,
        contradicted: set.contradicted,
        fence: f.fence + u64::from(set.taking),
        token: if set.taking { fresh } else { f.token },
        revision: f.revision + u64::from(m.new_fact),
        due_at: match set.due {
            Due::Keep => f.due_at,
            Due::Never => None,
            Due::In(wait) => Some(now.plus(wait)),
        },
        window_from: match set.window {
            Window::Keep => f.window_from,
            Window::Clear => None,
            Window::StartUnlessSet => f.window_from.or(Some(now)),
        },
        last_end_at: match set.last_end {
            LastEnd::Keep => f.last_end_at,
            LastEnd::Now => Some(now),
            LastEnd::LeaseEnd => f.due_at,
        },
        attempts: set.attempts,
        repeats_granted: set.repeats_granted,
        ruled_at: if set.ruled { Some(now) } else { f.ruled_at },
        looks: set.looks,
        error_class: set.error_class.clone(),
        provider_ref: set.provider_ref.clone(),
        declared: Declared {
            landing_horizon: set.landing_horizon.or(f.declared.landing_horizon),
            ..f.declared.clone()
        },
        ..f.clone()
    }
}

/// The row right after the move.
pub(crate) fn after(f: &Facts, m: &Move) -> Facts {
    apply(f, m, f.now, token(9))
}

/// The stored form's constraints that tie columns to states; the first that is broken.
pub(crate) fn broken_constraint(f: &Facts) -> Option<&'static str> {
    let rules = [
        (f.due_at.is_some() == f.state.is_due_some_day(), "due_at is null exactly where nothing is due"),
        (!f.contradicted || f.state == State::Escalated, "contradicted only when escalated"),
        (!f.contradicted || f.doubt, "contradicted implies doubt"),
        (f.state != State::Held || f.fence == 0 && f.attempts == 0 && !f.doubt, "held: nothing was taken"),
        (
            f.state != State::Held
                || f.window_from.is_none() && f.last_end_at.is_none() && f.repeats_granted == 0,
            "held: nothing was sent and nothing is granted",
        ),
        (
            f.state != State::InFlight || f.fence >= 1 && f.attempts >= 1 && f.window_from.is_some(),
            "in_flight: a taking, an attempt and the window's start",
        ),
        (
            f.state != State::Retryable || !f.doubt || f.repeats_granted > 0,
            "retryable: doubt only with a grant unspent",
        ),
        (f.state != State::InDoubt || f.last_end_at.is_some(), "in_doubt: the attempt has ended"),
        // Escalated too: a tombstone takes evidence, and what contradicts it reopens it without its request.
        (
            !f.purged || f.state.is_terminal() || f.state == State::Escalated,
            "a purged claim is never called again",
        ),
    ];
    rules.into_iter().find_map(|(holds, rule)| (!holds).then_some(rule))
}

pub(crate) fn fault() -> ErrorClass {
    ErrorClass::ORIGIN_NOT_ALLOWED.into()
}
