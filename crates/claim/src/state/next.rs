//! The edges and their guards. The only place that knows them.

use super::event::{Event, Finding, Outcome, Ruling, Seen, Taking};
use super::facts::{Facts, Room};
use super::moves::{Changes, Closed, ClosedBy, Due, LastEnd, Move, Refused, Window};
use super::{State, Verb};
use crate::declared::RepeatSafety;
use crate::failure::ErrorClass;
use crate::time::Timestamp;
use State::{Abandoned, Confirmed, Escalated, Held, InDoubt, InFlight, Retryable};
use std::time::Duration;

/// Judges an event: the move it makes, or why it makes none.
///
/// Total: every event in every state has an answer. Evidence is never refused; where it moves nothing, the
/// answer is a [`Move`] from a state to itself, so that it is kept.
///
/// # Errors
/// [`Refused`], which says what would be needed. Nothing is written for a refused event.
pub fn next(f: &Facts, event: &Event) -> Result<Move, Refused> {
    let made = match event {
        Event::Taking { how, room } => taking(f, *how, *room)?,
        Event::Settle { fence, token, outcome, again_in } => {
            if *fence == f.fence && *token == f.token {
                settle(f, outcome, *again_in)
            } else {
                late(f, outcome)
            }
        }
        Event::LeaseOver => lease_over(f)?,
        Event::Expire => expire(f)?,
        Event::Cancel => cancel(f)?,
        Event::Look { fence, begun_at, finding, again_in } => look(f, *fence, *begun_at, finding, *again_in),
        Event::Escalate => escalate(f)?,
        Event::Rule { seen, ruling, horizon, looked } => rule(f, *seen, ruling, *horizon, *looked)?,
        Event::Evidence { finding, known } => evidence(f, finding, *known),
    };
    debug_assert!(made.is_legal(), "{made:?} is not in EDGES");
    Ok(made)
}

// ---- becoming the holder ---------------------------------------------------------------------------------

fn taking(f: &Facts, how: Taking, room: Room) -> Result<Move, Refused> {
    let (verb, doubt) = match (how, f.state) {
        (Taking::Begin, Held) => (Verb::Begin, false),
        (Taking::Take, Retryable) => (Verb::Take, f.doubt),
        (Taking::Redrive, InDoubt) => (Verb::Redrive, true),
        (Taking::Begin, state) => return Err(wrong(state, "held")),
        (Taking::Take, state) => return Err(wrong(state, "retryable")),
        (Taking::Redrive, state) => return Err(wrong(state, "in_doubt")),
    };
    if let Some(from) = f.not_before.filter(|t| f.now < *t) {
        return Err(Refused::NotYet { from, why: "the claim is not to be sent before" });
    }
    if f.send_by_passed() {
        return Err(Refused::NothingLeft { why: "send-by has passed" });
    }
    if how != Taking::Begin {
        if let Some(from) = f.due_at.filter(|t| f.now < *t) {
            return Err(Refused::NotYet { from, why: "the claim is not due" });
        }
        if let Some(class) = f.error_class.clone().filter(ErrorClass::no_retry_mends) {
            return Err(Refused::NoRetryMends { class });
        }
        if !f.attempts_left() {
            return Err(Refused::AttemptsUsed { attempts: f.attempts });
        }
        if !f.age_left() {
            return Err(Refused::AgeUsed);
        }
    }
    // I4: an attempt before this one may have acted; is a repeat harmless?
    if doubt && f.repeats_granted == 0 && f.declared.repeat == RepeatSafety::Never {
        return Err(Refused::RepeatNotSafe {
            why: "the provider does not deduplicate, and no person ruled a repeat",
        });
    }
    if f.send_until(doubt, room) <= f.now {
        return Err(Refused::NothingLeft {
            why: "the key window is over, or the lease is not longer than the call",
        });
    }
    Ok(Move {
        only_if_due: how != Taking::Begin,
        not_after: f.send_limit(doubt, room.margin),
        set: Changes {
            doubt,
            taking: true,
            due: Due::In(room.lease),
            window: Window::StartUnlessSet,
            attempts: f.attempts.saturating_add(1),
            looks: 0, // looks count for the newest fence only
            ..keep(f)
        },
        ..go(f, verb, InFlight)
    })
}

// ---- how an attempt ends ---------------------------------------------------------------------------------

/// The newest holder's settle.
fn settle(f: &Facts, outcome: &Outcome, again_in: Duration) -> Move {
    let in_flight = match f.state {
        InFlight => true,
        // Its own late answer, while nobody has taken since and no earlier attempt is in doubt.
        InDoubt if !f.doubt => false,
        _ => return late(f, outcome),
    };
    let ended = Changes { last_end: LastEnd::Now, ..keep(f) };
    // Any end but "not sent" spends the granted repeat.
    let spent = Changes { repeats_granted: f.repeats_granted.saturating_sub(1), ..ended.clone() };
    match outcome {
        Outcome::Done { provider_ref } => {
            let provider_ref = match ids(f, provider_ref.iter()) {
                Ids::Conflict(id) => return contradict(f, Changes { provider_ref: id, ..spent }),
                Ids::File(id) => id,
            };
            go_with(
                f,
                Verb::Confirm,
                Confirmed,
                closed(ClosedBy::Answer, Changes { provider_ref, error_class: None, ..spent }),
            )
        }
        Outcome::Refused { covers_earlier, class } => {
            let spent = Changes { error_class: Some(class.clone()), ..spent };
            if !f.doubt || (*covers_earlier && f.window_end().is_some_and(|end| f.now < end)) {
                go_with(f, Verb::Refuse, Abandoned, closed(ClosedBy::Refused, spent))
            } else {
                let set = Changes { due: Due::In(again_in), ..spent };
                go_with(f, Verb::RefusedInDoubt, InDoubt, set)
            }
        }
        Outcome::NotSent { class } => {
            let attempts = f.attempts.saturating_sub(1);
            let set = Changes {
                attempts,
                due: Due::In(again_in),
                error_class: Some(class.clone()),
                // With no attempt left that may have reached the provider, its window has not begun.
                window: if attempts == 0 && !f.doubt { Window::Clear } else { Window::Keep },
                ..ended
            };
            if f.doubt && f.repeats_granted == 0 {
                go_with(f, Verb::NotSentInDoubt, InDoubt, set)
            } else {
                go_with(f, Verb::NotSent, Retryable, set)
            }
        }
        Outcome::Unknown { provider_ref, class } => {
            let provider_ref = match ids(f, provider_ref.iter()) {
                Ids::Conflict(id) => return contradict(f, Changes { provider_ref: id, ..spent }),
                Ids::File(id) => id,
            };
            if !in_flight {
                let new_fact = provider_ref != f.provider_ref;
                return kept(f, Verb::LateAnswer, new_fact, Changes { provider_ref, ..keep(f) });
            }
            let error_class = Some(class.clone());
            let set = Changes { due: Due::In(again_in), provider_ref, error_class, ..spent };
            go_with(f, Verb::Unknown, InDoubt, set)
        }
    }
}

/// An answer under a fence that is not the newest any more, or after somebody else's: "done" is evidence, the rest
/// moves nothing and is kept.
fn late(f: &Facts, outcome: &Outcome) -> Move {
    match outcome {
        Outcome::Done { provider_ref } => {
            evidence(f, &Finding::Done { ids: provider_ref.iter().cloned().collect() }, false)
        }
        Outcome::Unknown { provider_ref: None, .. } => kept(f, Verb::LateAnswer, false, keep(f)),
        Outcome::Unknown { provider_ref: id @ Some(_), .. } => match ids(f, id.iter()) {
            Ids::Conflict(provider_ref) => contradict(f, Changes { provider_ref, ..cut_short(f) }),
            Ids::File(provider_ref) => {
                // Another "cannot tell" is no new fact; an id not yet on file is one.
                let new_fact = provider_ref != f.provider_ref;
                kept(f, Verb::LateAnswer, new_fact, Changes { provider_ref, ..keep(f) })
            }
        },
        Outcome::Refused { .. } | Outcome::NotSent { .. } => kept(f, Verb::LateAnswer, true, keep(f)),
    }
}

fn lease_over(f: &Facts) -> Result<Move, Refused> {
    if f.state != InFlight {
        return Err(wrong(f.state, "in_flight"));
    }
    if let Some(from) = f.due_at.filter(|t| f.now < *t) {
        return Err(Refused::NotYet { from, why: "the holder is believed until its lease ends" });
    }
    let set = Changes {
        last_end: LastEnd::LeaseEnd,
        due: Due::In(Duration::ZERO),
        repeats_granted: f.repeats_granted.saturating_sub(1),
        error_class: Some(ErrorClass::LEASE_OVER.into()),
        ..keep(f)
    };
    Ok(Move { only_if_due: true, ..go_with(f, Verb::LeaseOver, InDoubt, set) })
}

// ---- without a call --------------------------------------------------------------------------------------

fn expire(f: &Facts) -> Result<Move, Refused> {
    if !matches!(f.state, Held | Retryable) {
        return Err(wrong(f.state, "held or retryable"));
    }
    match f.send_by {
        Some(send_by) if send_by <= f.now => Ok(give_up(f, Verb::Expire, ClosedBy::Expired)),
        Some(from) => Err(Refused::NotYet { from, why: "send-by has not passed" }),
        None => Err(wrong(f.state, "a send-by")),
    }
}

fn cancel(f: &Facts) -> Result<Move, Refused> {
    match f.state {
        Held | Retryable => Ok(give_up(f, Verb::Cancel, ClosedBy::Cancelled)),
        state => Err(wrong(state, "held or retryable, where provably nothing was sent")),
    }
}

/// Abandoned where provably nothing happened; where a doubt is carried, a person.
fn give_up(f: &Facts, verb: Verb, by: ClosedBy) -> Move {
    if f.doubt {
        go_with(f, verb, Escalated, Changes { due: Due::Never, ..keep(f) })
    } else {
        go_with(f, verb, Abandoned, closed(by, keep(f)))
    }
}

fn escalate(f: &Facts) -> Result<Move, Refused> {
    let set = Changes { due: Due::Never, doubt: f.doubt || f.state == InDoubt, ..keep(f) };
    match f.state {
        InDoubt => Ok(go_with(f, Verb::Escalate, Escalated, set)),
        Retryable if !f.age_left() || !f.attempts_left() || fault(f) => {
            Ok(go_with(f, Verb::Escalate, Escalated, set))
        }
        Retryable => Err(wrong(Retryable, "age or attempts used up, or a fault that no retry mends")),
        state => Err(wrong(state, "in_doubt or retryable")),
    }
}

fn fault(f: &Facts) -> bool {
    f.error_class.as_ref().is_some_and(ErrorClass::no_retry_mends)
}

// ---- looking and evidence --------------------------------------------------------------------------------

fn look(f: &Facts, fence: u64, begun_at: Timestamp, finding: &Finding, again_in: Duration) -> Move {
    if f.state != InDoubt {
        return match finding {
            Finding::Done { .. } => evidence(f, finding, false),
            _ => kept(f, Verb::Look, *finding != Finding::CannotTell, keep(f)),
        };
    }
    let newest = fence == f.fence;
    let could_be_proof = newest && f.proof_from().is_some_and(|from| begun_at > from);
    match finding {
        Finding::Done { ids: found } => match ids(f, found.iter()) {
            Ids::Conflict(provider_ref) => contradict(f, Changes { provider_ref, ..keep(f) }),
            Ids::File(provider_ref) => go_with(
                f,
                Verb::FoundDone,
                Confirmed,
                closed(ClosedBy::Probe, Changes { provider_ref, ..keep(f) }),
            ),
        },
        // A look for an earlier fence speaks for the attempts of its time, not for the newest.
        Finding::Refused { covers_all: true } if newest => {
            go_with(f, Verb::FoundRefused, Abandoned, closed(ClosedBy::Refused, keep(f)))
        }
        Finding::NotDone if could_be_proof => {
            let set = Changes { doubt: false, due: Due::In(Duration::ZERO), ..keep(f) };
            go_with(f, Verb::FoundNotDone, Retryable, set)
        }
        Finding::NotDone | Finding::CannotTell | Finding::Refused { .. } => {
            let looks = if could_be_proof { f.looks.saturating_add(1) } else { f.looks };
            let new_fact = *finding != Finding::CannotTell;
            kept(f, Verb::Look, new_fact, Changes { looks, due: Due::In(again_in), ..keep(f) })
        }
    }
}

fn evidence(f: &Facts, finding: &Finding, known: bool) -> Move {
    if known {
        return kept(f, Verb::Evidence, false, keep(f));
    }
    let covers_all = match finding {
        Finding::Done { ids: found } => return evidence_done(f, found),
        Finding::Refused { covers_all } => *covers_all,
        Finding::NotDone => false,
        Finding::CannotTell => return kept(f, Verb::Evidence, false, keep(f)),
    };
    if covers_all && f.state == InDoubt {
        return go_with(f, Verb::EvidenceRefused, Abandoned, closed(ClosedBy::Evidence, keep(f)));
    }
    kept(f, Verb::Evidence, true, keep(f))
}

fn evidence_done(f: &Facts, found: &[String]) -> Move {
    let provider_ref = match ids(f, found.iter()) {
        Ids::Conflict(provider_ref) => return contradict(f, Changes { provider_ref, ..cut_short(f) }),
        Ids::File(id) => id,
    };
    let set = Changes { provider_ref, ..cut_short(f) };
    match f.state {
        Abandoned => contradict(f, set),
        Confirmed => kept(f, Verb::Evidence, true, set),
        Escalated if f.contradicted => kept(f, Verb::Evidence, true, set),
        Held | InFlight | Retryable | InDoubt | Escalated => {
            go_with(f, Verb::EvidenceDone, Confirmed, closed(ClosedBy::Evidence, set))
        }
    }
}

/// The columns when something else than its settle or its lease ends an attempt: its holder may still be calling, so
/// the attempt ends with the lease, and it has spent the granted repeat. Elsewhere no attempt ends.
fn cut_short(f: &Facts) -> Changes {
    if f.state != InFlight {
        return keep(f);
    }
    let repeats_granted = f.repeats_granted.saturating_sub(1);
    Changes { last_end: LastEnd::LeaseEnd, repeats_granted, ..keep(f) }
}

/// Conflicting evidence: to a person, from every state. The first id known stays on file, so that a later one is
/// still seen to differ.
fn contradict(f: &Facts, set: Changes) -> Move {
    go_with(
        f,
        Verb::Contradict,
        Escalated,
        Changes { contradicted: true, doubt: true, due: Due::Never, ..set },
    )
}

enum Ids {
    /// Two different provider ids, which only a natural effect may have; the first one known.
    Conflict(Option<String>),
    /// The id to keep on file: the first one known.
    File(Option<String>),
}

fn ids<'a>(f: &Facts, found: impl Iterator<Item = &'a String>) -> Ids {
    let mut file = f.provider_ref.clone();
    for id in found {
        match &file {
            None => file = Some(id.clone()),
            Some(on_file) if on_file != id && f.declared.repeat != RepeatSafety::Natural => {
                return Ids::Conflict(file);
            }
            Some(_) => {}
        }
    }
    Ids::File(file)
}

// ---- a person --------------------------------------------------------------------------------------------

fn rule(
    f: &Facts,
    seen: Seen,
    ruling: &Ruling,
    horizon: Option<Duration>,
    looked: bool,
) -> Result<Move, Refused> {
    seen.holds(f)?;
    let again = *ruling == Ruling::Repeat;
    match f.state {
        Escalated => {}
        Abandoned if again && !f.doubt => {}
        Abandoned if again => return Err(wrong(Abandoned, "an abandoned claim that carries no doubt")),
        state => return Err(wrong(state, "escalated (escalate a claim in doubt by hand first)")),
    }
    if again && f.purged {
        return Err(Refused::Purged);
    }
    let ruled = Changes { ruled: true, contradicted: false, ..keep(f) };
    if let Ruling::Done { provider_ref } = ruling {
        let provider_ref = provider_ref.clone().or_else(|| f.provider_ref.clone());
        return Ok(go_with(
            f,
            Verb::RuleDone,
            Confirmed,
            closed(ClosedBy::Ruling, Changes { provider_ref, ..ruled }),
        ));
    }
    // "Not done" and "repeat" wait until nothing can land any more.
    let mut ruled = ruled;
    if f.state == Escalated && f.last_end_at.is_some() {
        let horizon = match (f.declared.landing_horizon, horizon) {
            (Some(declared), stated) => declared.max(stated.unwrap_or(Duration::ZERO)),
            (None, Some(stated)) if stated >= f.declared.call_timeout => stated,
            (None, _) => return Err(Refused::HorizonNeeded { at_least: f.declared.call_timeout }),
        };
        if let Some(from) = f.rulable_from(horizon, looked).filter(|from| f.now < *from) {
            return Err(Refused::NotYet {
                from,
                why: "until then a request that was given up may still take effect",
            });
        }
        ruled.landing_horizon = Some(horizon);
    }
    if !again {
        return Ok(go_with(f, Verb::RuleNotDone, Abandoned, closed(ClosedBy::Ruling, ruled)));
    }
    if f.send_by_passed() {
        return Err(Refused::NothingLeft { why: "send-by has passed" });
    }
    // One attempt that may have left. A second ruling renews the permission, it does not add one.
    let wait = f.not_before.map_or(Duration::ZERO, |from| from.since(f.now));
    let set = Changes { repeats_granted: 1, due: Due::In(wait), error_class: None, ..ruled };
    Ok(go_with(f, Verb::RuleRepeat, Retryable, set))
}

// ---- building a move -------------------------------------------------------------------------------------

const fn wrong(state: State, needs: &'static str) -> Refused {
    Refused::WrongState { state, needs }
}

/// The columns as they are.
fn keep(f: &Facts) -> Changes {
    Changes {
        doubt: f.doubt,
        contradicted: f.contradicted,
        taking: false,
        due: Due::Keep,
        window: Window::Keep,
        last_end: LastEnd::Keep,
        attempts: f.attempts,
        repeats_granted: f.repeats_granted,
        ruled: false,
        looks: f.looks,
        closed: Closed::Keep,
        error_class: f.error_class.clone(),
        provider_ref: f.provider_ref.clone(),
        landing_horizon: None,
    }
}

/// Into a terminal state: nothing is due, no conflict is marked, no grant is left.
fn closed(by: ClosedBy, set: Changes) -> Changes {
    Changes { closed: Closed::By(by), due: Due::Never, contradicted: false, repeats_granted: 0, ..set }
}

fn go(f: &Facts, verb: Verb, to: State) -> Move {
    go_with(f, verb, to, keep(f))
}

fn go_with(f: &Facts, verb: Verb, to: State, set: Changes) -> Move {
    let reopens = f.state.is_terminal() && !to.is_terminal();
    let set = if reopens { Changes { closed: Closed::Reopen, ..set } } else { set };
    Move { verb, from: f.state, to, new_fact: true, only_if_due: false, not_after: None, set }
}

/// Nothing moves. A terminal state stays closed as it was.
fn kept(f: &Facts, verb: Verb, new_fact: bool, set: Changes) -> Move {
    Move { new_fact, ..go_with(f, verb, f.state, set) }
}
