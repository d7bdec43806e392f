//! One claim in an honest but hostile world: seeded random walks in which two services, a sweeper, an owner and a person
//! with stale pages act through [`next`] and [`decide`] alone. What the tests promise holds after every step.

use super::kit::*;
use super::world::{Holder, Stage, World};
use crate::claim::Token;
use crate::declared::{Declared, ProbeTerms, RepeatSafety};
use crate::policy::{Act, decide};
use crate::state::{Event, Facts, Finding, Move, Room, Ruling, Seen, State, Taking, Verb, next};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

struct Look {
    fence: u64,
    begun_at: Timestamp,
    finding: Finding,
}

struct Page {
    seen: Seen,
    /// What the person knew when looking, where the page let the person rule.
    ids: Option<Vec<String>>,
    looked: bool,
}

pub(super) struct Walk {
    w: World,
    pub(super) f: Facts,
    plan: Plan,
    looks: Vec<Look>,
    pages: Vec<Page>,
    /// "Not done" was ruled, and accepted, of what had happened.
    wrong_no: bool,
    webhooks_seen: usize,
    backup: Option<Facts>,
    tokens: u64,
    pub(super) made: BTreeMap<(Verb, State), u32>,
    pub(super) trace: Option<Vec<String>>,
}

/// What may be wrong with the world.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The person is wrong at times: rules that it did not happen, or has it repeated, though it did.
    pub(super) person_errs: bool,
}

const LEASE: Room = Room { lease: secs(25), margin: secs(1) };

impl Walk {
    pub(super) fn new(seed: u64, plan: Plan, traced: bool) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let repeat = match dice.u8(..5) {
            0 | 1 => RepeatSafety::Never,
            2 => RepeatSafety::Natural,
            _ => RepeatSafety::Keyed { window: secs(dice.u64(35..160)) },
        };
        let keyed = matches!(repeat, RepeatSafety::Keyed { .. });
        let declares = dice.u8(..4) > 0;
        let horizon = if declares || !keyed { secs(HORIZON) } else { secs(TIMEOUT) };
        let probe = (dice.u8(..3) > 0).then(|| ProbeTerms {
            lag: secs(LAG),
            not_found_is_proof: dice.bool(),
            looks_max: dice.u32(1..4),
        });
        let declared = Declared {
            repeat,
            landing_horizon: declares.then_some(horizon),
            probe,
            call_timeout: secs(TIMEOUT),
            attempts_max: dice.u32(1..5),
            age_max: secs(dice.u64(100..500)),
        };
        let send_by = (dice.u8(..4) == 0).then(|| at(dice.i64(20..200)));
        let not_before = (dice.u8(..8) == 0).then(|| at(dice.i64(1..30)));
        let w = World::new(dice, &declared, horizon);
        let f = facts(State::Held).with(|f| {
            f.now = at(0);
            f.declared = declared;
            (f.send_by, f.not_before) = (send_by, not_before);
            f.due_at = Some(not_before.unwrap_or(at(0)));
        });
        let trace = traced.then(Vec::new);
        Self {
            w,
            f,
            plan,
            looks: Vec::new(),
            pages: Vec::new(),
            wrong_no: false,
            webhooks_seen: 0,
            backup: None,
            tokens: 100,
            made: BTreeMap::new(),
            trace,
        }
    }

    fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>6}s {}", self.w.now.since(at(0)).as_secs_f64(), what(self));
            self.trace.get_or_insert_default().push(line);
        }
    }

    fn fresh(&mut self) -> Token {
        self.tokens += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.tokens.to_be_bytes());
        Token(bytes)
    }

    /// Judges an event on a fresh read and writes its move.
    fn happens(&mut self, event: &Event) -> Option<Move> {
        self.f.now = self.w.now;
        let answer = next(&self.f, event);
        self.note(|s| match &answer {
            Ok(m) => format!("{event:?}: {} -> {} ({})", m.from, m.to, m.verb.as_str()),
            Err(why) => format!("{event:?} at {}: {why}", s.f.state),
        });
        let made = answer.ok()?;
        *self.made.entry((made.verb, made.from)).or_default() += 1;
        let fresh = self.fresh();
        self.f = apply(&self.f, &made, self.w.now, fresh);
        Some(made)
    }

    fn take(&mut self, how: Taking) {
        self.f.now = self.w.now;
        let before = self.f.clone();
        if let Some(m) = self.happens(&Event::Taking { how, room: LEASE }) {
            let send_until = before.send_until(m.set.doubt, LEASE);
            let (fence, token) = (self.f.fence, self.f.token);
            let granted = before.repeats_granted > 0;
            self.w.holders.push(Holder { fence, token, granted, send_until, stage: Stage::Ready });
        }
    }

    fn step(&mut self) {
        match self.w.dice.u8(..24) {
            0..4 => self.time(),
            4..11 => self.holder(),
            11..15 => self.sweep(),
            15..17 => self.look_ends(),
            17..19 => self.person(),
            19 => self.webhook(),
            22 if self.f.state == State::InDoubt && self.w.chance(2) => self.look_begins(),
            20 if self.w.chance(6) => drop(self.happens(&Event::Cancel)),
            21 if self.w.chance(4) => drop(self.happens(&Event::Escalate)),
            22 if self.w.chance(2) => self.restore(),
            23 => self.take(Taking::Begin),
            _ => {}
        }
    }

    /// Some pause, or up to a moment on which a rule turns.
    fn time(&mut self) {
        let pause = [1, 3, 10, 30, 100][self.w.dice.usize(..5)];
        let instant = Duration::from_micros(1);
        let stated = self.f.declared.landing_horizon.unwrap_or(self.w.horizon);
        let turning = match self.w.dice.u8(..10) {
            0 => self.f.due_at,
            1 => self.w.holders.first().map(|h| h.send_until.minus(instant)),
            2 => self.f.proof_from().map(|from| from.plus(instant)),
            3 => self.f.rulable_from(stated, false).map(|from| from.plus(instant)),
            4 => self.f.send_limit(true, LEASE.margin).map(|limit| limit.minus(instant)),
            _ => None,
        };
        let to = turning.filter(|t| *t > self.w.now).unwrap_or(self.w.now.plus(secs(pause)));
        self.w.advance(to);
    }

    fn holder(&mut self) {
        if self.w.holders.is_empty() {
            return;
        }
        let which = self.w.dice.usize(..self.w.holders.len());
        if self.w.chance(20) {
            self.w.holders.swap_remove(which);
            return self.note(|_| "a holder crashes".to_owned());
        }
        let Some(outcome) = self.w.hold(which) else {
            let fence = self.w.holders[which].fence;
            return self.note(|_| format!("the holder of fence {fence} goes on"));
        };
        let Holder { fence, token, .. } = self.w.holders[which];
        // Its acknowledgement may be lost: then it settles once more.
        if !self.w.chance(8) {
            self.w.holders.swap_remove(which);
        }
        self.happens(&Event::Settle { fence, token, outcome, again_in: secs(3) });
    }

    fn sweep(&mut self) {
        self.f.now = self.w.now;
        match decide(&self.f, LEASE) {
            Act::Doubt => drop(self.happens(&Event::LeaseOver)),
            Act::Expire => drop(self.happens(&Event::Expire)),
            Act::Perform(how) => self.take(how),
            Act::Escalate(_) => drop(self.happens(&Event::Escalate)),
            Act::Look => self.look_begins(),
            Act::Nothing => {}
        }
    }

    fn look_begins(&mut self) {
        let Some(probe) = self.f.declared.probe else { return };
        let finding = self.w.look(probe.lag, probe.not_found_is_proof);
        self.note(|_| format!("a look begins and will find {finding:?}"));
        self.looks.push(Look { fence: self.f.fence, begun_at: self.w.now, finding });
    }

    fn look_ends(&mut self) {
        if self.looks.is_empty() {
            return;
        }
        let which = self.w.dice.usize(..self.looks.len());
        let Look { fence, begun_at, finding } = self.looks.swap_remove(which);
        self.happens(&Event::Look { fence, begun_at, finding, again_in: secs(20) });
    }

    /// Somebody opens a page, or rules on one that is open, however old.
    fn person(&mut self) {
        let stated = self.f.declared.landing_horizon.unwrap_or(self.w.horizon);
        let lag = self.f.declared.probe.map_or(secs(0), |p| p.lag);
        if self.pages.len() < 2 && self.w.chance(2) {
            let looked = self.w.chance(2) && self.f.declared.probe.is_some();
            let quiet = self.f.rulable_from(stated, looked).is_none_or(|from| from <= self.w.now);
            let ids = quiet.then(|| self.w.provider.visible(self.w.now, if looked { lag } else { secs(0) }));
            self.pages.push(Page { seen: seen(&self.f), ids, looked });
            return;
        }
        if self.pages.is_empty() {
            return;
        }
        let which = self.w.dice.usize(..self.pages.len());
        let page = self.pages.swap_remove(which);
        // Where the page said "not yet", the person looks again right before ruling.
        let lag = if page.looked { lag } else { secs(0) };
        let ids = page.ids.unwrap_or_else(|| self.w.provider.visible(self.w.now, lag));
        let errs = self.plan.person_errs && self.w.chance(2);
        let ruling = match ids.first().filter(|_| !errs) {
            Some(id) => Ruling::Done { provider_ref: Some(id.clone()) },
            None if self.w.chance(3) => Ruling::NotDone,
            None => Ruling::Repeat,
        };
        let event = Event::Rule {
            seen: page.seen,
            ruling: ruling.clone(),
            horizon: Some(stated),
            looked: page.looked,
        };
        if self.happens(&event).is_some() && errs && !self.w.provider.effects.is_empty() {
            self.wrong_no |= ruling == Ruling::NotDone;
        }
    }

    fn webhook(&mut self) {
        let effects = self.w.provider.effects.len();
        if effects == 0 {
            if self.w.provider.closed && self.w.provider.effects.is_empty() && self.w.chance(2) {
                let finding = Finding::Refused { covers_all: true };
                self.happens(&Event::Evidence { finding, known: false });
            }
            return;
        }
        let which = self.w.dice.usize(..effects);
        let finding = found(&[&self.w.provider.effects[which].id]);
        let known = which < self.webhooks_seen;
        self.webhooks_seen = self.webhooks_seen.max(which + 1);
        self.happens(&Event::Evidence { finding, known });
    }

    /// A backup of the open claim is taken, or comes back: all instances are stopped, the gap is declared.
    fn restore(&mut self) {
        if !self.f.state.is_due_some_day() && self.backup.is_none() {
            return;
        }
        let Some(backup) = self.backup.take() else {
            self.backup = Some(self.f.clone());
            return;
        };
        self.w.stop();
        self.looks.clear();
        self.pages.clear();
        self.webhooks_seen = 0;
        self.f = Facts {
            state: State::InDoubt,
            doubt: true,
            token: self.fresh(),
            due_at: Some(self.w.now),
            // Long ago: the window is closed.
            window_from: Some(Timestamp::from_micros(1_000_000_000_000_000)),
            last_end_at: Some(self.w.now),
            repeats_granted: 0,
            ..backup
        };
        self.note(|_| "restored from a backup".to_owned());
    }

    fn check(&self) -> Result<(), String> {
        let happened = self.w.provider.effects.len();
        let natural = self.f.declared.repeat == RepeatSafety::Natural;
        // Only a person who errs, and only by the one attempt that was granted, may double.
        let excused = self.w.provider.effects.iter().filter(|e| e.granted && self.plan.person_errs).count();
        if happened > 1 + excused && !natural {
            return Err(format!("{happened} effects"));
        }
        match self.f.state {
            State::Abandoned if happened > 0 && !self.wrong_no => {
                return Err("abandoned, but it happened".to_owned());
            }
            State::Confirmed if happened == 0 => return Err("confirmed, but it did not happen".to_owned()),
            _ => {}
        }
        broken_constraint(&self.f).map_or(Ok(()), |rule| Err(rule.to_owned()))
    }

    /// Everybody works honestly and nobody rules: the claim comes to an end or to a person.
    fn comes_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..400 {
            let due = self.f.due_at.unwrap_or(self.w.now).plus(secs(1));
            self.w.advance(due);
            self.sweep();
            while !self.looks.is_empty() {
                self.look_ends();
            }
            while !self.w.holders.is_empty() {
                self.holder();
                let soon = self.w.now.plus(secs(1));
                self.w.advance(soon);
            }
            self.check()?;
            if !self.f.state.is_due_some_day() {
                let later = self.w.now.plus(secs(1000));
                self.w.advance(later);
                self.check()?;
                return self.statement();
            }
        }
        Err(format!("stuck: {:?}", self.f))
    }

    /// In the end a statement lists every effect: none may stay denied, and no double unseen.
    fn statement(&mut self) -> Result<(), String> {
        let ids: Vec<String> = self.w.provider.effects.iter().map(|e| e.id.clone()).collect();
        for id in &ids {
            self.happens(&Event::Evidence { finding: found(&[id]), known: false });
        }
        let double = ids.len() > 1 && self.f.declared.repeat != RepeatSafety::Natural;
        match self.f.state {
            State::Escalated if !double || self.f.contradicted => Ok(()),
            State::Confirmed if !ids.is_empty() && !double => Ok(()),
            State::Abandoned if ids.is_empty() => Ok(()),
            state => Err(format!("{} effects on the statement, and the claim is {state}", ids.len())),
        }
    }

    pub(super) fn run(&mut self) -> Result<u32, String> {
        let steps = self.w.dice.u32(20..120);
        for _ in 0..steps {
            self.step();
            self.check()?;
        }
        self.comes_to_rest()?;
        Ok(steps)
    }
}
