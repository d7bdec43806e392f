//! The outside of one claim: a provider with a key window, a network that lands requests late, and holders that stall,
//! crash and lose answers. Honest: everything that is declared is true.

use std::time::Duration;

use super::kit::*;
use crate::claim::Token;
use crate::declared::{Declared, RepeatSafety};
use crate::state::{Finding, Outcome};
use crate::time::Timestamp;

/// One effect that happened.
pub(super) struct Effect {
    pub(super) id: String,
    pub(super) at: Timestamp,
    /// Sent under a repeat that a person granted.
    pub(super) granted: bool,
}

/// What the provider answered to a request.
#[derive(Clone)]
enum Answer {
    Done(String),
    Refused,
    NotProcessed,
}

pub(super) struct Provider {
    /// How long a key is remembered after its first arrival.
    window: Option<Duration>,
    /// Whether a refusal is stored under the key and replayed.
    pub(super) stores_refusals: bool,
    /// Refused for good: nothing under this key is performed any more.
    pub(super) closed: bool,
    first_arrival: Option<Timestamp>,
    stored: Option<Answer>,
    pub(super) effects: Vec<Effect>,
}

impl Provider {
    fn receive(&mut self, now: Timestamp, granted: bool, dice: &mut fastrand::Rng) -> Answer {
        // Its limiter runs before anything is executed or looked up.
        if dice.u8(..8) == 0 {
            return Answer::NotProcessed;
        }
        let window = self.window.unwrap_or(Duration::ZERO);
        if self.first_arrival.is_none_or(|first| now >= first.plus(window)) {
            (self.first_arrival, self.stored) = (Some(now), None);
        }
        if let Some(answer) = &self.stored {
            return answer.clone();
        }
        if self.closed || dice.u8(..4) == 0 {
            self.closed |= dice.u8(..4) == 0;
            if self.stores_refusals {
                self.stored = Some(Answer::Refused);
            }
            return Answer::Refused;
        }
        let id = format!("p{}", self.effects.len());
        self.effects.push(Effect { id: id.clone(), at: now, granted });
        self.stored = Some(Answer::Done(id.clone()));
        Answer::Done(id)
    }

    /// The ids that a look at that moment must show. Later ones may show too.
    pub(super) fn visible(&self, at: Timestamp, lag: Duration) -> Vec<String> {
        self.effects.iter().filter(|e| e.at.plus(lag) <= at).map(|e| e.id.clone()).collect()
    }
}

pub(super) enum Stage {
    /// Taken; nothing handed to the client yet.
    Ready,
    /// Handed over; given up at that moment if no answer came.
    Sent { gives_up: Timestamp, answer: Option<Outcome> },
    /// Knows how its attempt ended.
    Ended(Outcome),
}

pub(super) struct Holder {
    pub(super) fence: u64,
    pub(super) token: Token,
    pub(super) granted: bool,
    pub(super) send_until: Timestamp,
    pub(super) stage: Stage,
}

struct Request {
    token: Token,
    granted: bool,
    lands: Timestamp,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) dice: fastrand::Rng,
    pub(super) provider: Provider,
    pub(super) holders: Vec<Holder>,
    requests: Vec<Request>,
    /// How long after it was given up a request may still take effect.
    pub(super) horizon: Duration,
}

impl World {
    pub(super) fn new(mut dice: fastrand::Rng, declared: &Declared, horizon: Duration) -> Self {
        let window = match declared.repeat {
            RepeatSafety::Keyed { window } => Some(window),
            RepeatSafety::Natural | RepeatSafety::Never => None,
        };
        let stores_refusals = window.is_some() && dice.bool();
        let provider = Provider {
            window,
            stores_refusals,
            closed: false,
            first_arrival: None,
            stored: None,
            effects: Vec::new(),
        };
        Self { now: at(0), dice, provider, holders: Vec::new(), requests: Vec::new(), horizon }
    }

    /// One chance in so many.
    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.dice.u32(..one_in) == 0
    }

    /// Anywhere from `low` to `high`, and often exactly there.
    fn between(&mut self, low: Timestamp, high: Timestamp) -> Timestamp {
        match self.dice.u8(..4) {
            0 => low,
            1 => high,
            _ => Timestamp::from_micros(self.dice.i64(low.as_micros()..=high.as_micros())),
        }
    }

    pub(super) fn nothing_can_land(&self) -> bool {
        self.requests.is_empty() && !self.holders.iter().any(|h| matches!(h.stage, Stage::Ready))
    }

    /// All instances are stopped: whatever they were calling is given up now.
    pub(super) fn stop(&mut self) {
        self.holders.clear();
        let latest = self.now.plus(self.horizon);
        self.requests.iter_mut().for_each(|r| r.lands = r.lands.min(latest));
    }

    /// Time passes: what lands by then takes effect, in order.
    pub(super) fn advance(&mut self, to: Timestamp) {
        self.requests.sort_by_key(|r| r.lands);
        while self.requests.first().is_some_and(|r| r.lands <= to) {
            let request = self.requests.remove(0);
            self.now = self.now.max(request.lands);
            let answer = self.provider.receive(request.lands, request.granted, &mut self.dice);
            self.deliver(&request, answer);
        }
        self.now = self.now.max(to);
    }

    fn deliver(&mut self, request: &Request, answer: Answer) {
        let (lost, accepted) = (self.chance(3), self.chance(6));
        let covers_earlier = self.provider.stores_refusals;
        let Some(holder) = self.holders.iter_mut().find(|h| h.token == request.token) else { return };
        let Stage::Sent { gives_up, answer: slot } = &mut holder.stage else { return };
        if lost || request.lands > *gives_up {
            return;
        }
        *slot = Some(match answer {
            Answer::Done(id) if accepted => accepted_as(&id),
            Answer::Done(id) => done_as(&id),
            Answer::Refused => Outcome::Refused { covers_earlier, class: "declined".into() },
            Answer::NotProcessed => not_sent(),
        });
    }

    /// One step of one holder; an outcome once it knows one.
    pub(super) fn hold(&mut self, which: usize) -> Option<Outcome> {
        let now = self.now;
        let timeout = secs(TIMEOUT);
        match &self.holders[which].stage {
            Stage::Ready => {
                // The last look, right before the request is handed over.
                if now >= self.holders[which].send_until || self.chance(8) {
                    self.holders[which].stage = Stage::Ended(not_sent());
                    return None;
                }
                let gives_up = self.between(now, now.plus(timeout));
                let latest = gives_up.plus(self.horizon);
                // An answer in time, a landing after it was given up, or lost on the way.
                let lands = match self.dice.u8(..5) {
                    0 => None,
                    1 | 2 => Some(self.between(gives_up, latest)),
                    _ => Some(self.between(now, gives_up)),
                };
                let Holder { token, granted, .. } = self.holders[which];
                self.requests.extend(lands.map(|lands| Request { token, granted, lands }));
                self.holders[which].stage = Stage::Sent { gives_up, answer: None };
                None
            }
            Stage::Sent { gives_up, answer } => {
                let outcome = match answer {
                    Some(answer) => answer.clone(),
                    None if now >= *gives_up => unknown(),
                    None => return None,
                };
                self.holders[which].stage = Stage::Ended(outcome);
                None
            }
            Stage::Ended(outcome) => Some(outcome.clone()),
        }
    }

    /// What a look that begins now will report.
    pub(super) fn look(&mut self, lag: Duration, authoritative: bool) -> Finding {
        let early = if self.chance(2) { lag } else { Duration::ZERO };
        let ids = self.provider.visible(self.now.plus(early), lag);
        if self.chance(8) {
            Finding::CannotTell
        } else if !authoritative && self.chance(3) {
            Finding::NotDone
        } else if !ids.is_empty() {
            Finding::Done { ids }
        } else if self.provider.effects.is_empty() && self.nothing_can_land() && self.chance(4) {
            // True of every attempt made so far; a later one may still act.
            Finding::Refused { covers_all: true }
        } else {
            Finding::NotDone
        }
    }
}
