//! From rows to the report. Pure: no clock, no database, the same input gives the same report.

mod ageing;
mod faults;
mod history;
mod outcome;
mod roll_forward;
mod rulings;
mod scope;
mod verdict;
mod worklist;

use std::time::Duration;

use super::input::{Input, PauseRow};
use super::model::{Identity, Pause, Report, Resumed, SCHEMA};
use super::untrusted::Untrusted;
use super::words::Moment;
use scope::Scope;

/// What the report is told beside the rows.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A claim due for longer than this has no handler.
    pub orphan_after: Duration,
    /// The safety margin of the service and the sweep before a key window's end, so that "repeat safe until" is the moment at
    /// which they stop, too.
    pub margin: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { orphan_after: Duration::from_secs(3600), margin: Duration::from_secs(1) }
    }
}

/// Builds the report. Total: whatever the rows hold, a report comes out, and says what is wrong with them.
pub fn build(input: &Input, options: &Options) -> Report {
    let scope = Scope::of(input);
    let roll_forward = roll_forward::roll_forward(&scope);
    let needs_a_person = worklist::needs_a_person(&scope, options);
    let decisions = history::decisions(&scope);
    let faults = faults::faults(&scope, &roll_forward, &decisions);
    Report {
        schema: SCHEMA,
        identity: identity(input, &scope),
        verdict: verdict::verdict(&scope, &needs_a_person, &faults),
        faults,
        pauses: pauses(&scope, input),
        roll_forward,
        causes: worklist::causes(&scope),
        needs_a_person,
        perhaps_twice: worklist::perhaps_twice(&scope),
        done_unsent: history::done_unsent(&scope),
        waiting: ageing::waiting(&scope),
        no_handler: ageing::no_handler(&scope, options),
        mismatches: history::mismatches(&scope),
        orphans: history::orphans(&scope),
        decisions,
        outcomes: outcome::outcomes(&scope),
        ageing: ageing::ageing(&scope),
    }
}

/// Those that stand first, then by time; what began after the window's end or ended before its start is none of its business.
fn pauses(scope: &Scope<'_>, input: &Input) -> Vec<Pause> {
    let overlaps = |p: &&PauseRow| {
        let ended_before = p.resumed.as_ref().is_some_and(|(at, ..)| *at < scope.window.from);
        p.at <= scope.as_of && !ended_before && (p.resumed.is_none() || p.at < scope.window.to)
    };
    let mut pauses: Vec<&PauseRow> = input.pauses.iter().filter(overlaps).collect();
    pauses.sort_by_key(|p| (p.resumed.is_some(), p.at, p.downstream.raw()));
    let resumed = |(at, actor, reason): &(_, Untrusted, Untrusted)| Resumed {
        at: Moment(*at),
        actor: actor.clone(),
        reason: reason.clone(),
    };
    let pause = |p: &PauseRow| Pause {
        downstream: p.downstream.clone(),
        at: Moment(p.at),
        actor: p.actor.clone(),
        reason: p.reason.clone(),
        resumed: p.resumed.as_ref().map(resumed),
    };
    pauses.into_iter().map(pause).collect()
}

fn identity(input: &Input, scope: &Scope<'_>) -> Identity {
    Identity {
        as_of: Moment(scope.as_of),
        from: Moment(scope.window.from),
        to: Moment(scope.window.to),
        cut: input.window.to > input.as_of,
        database: input.scope.database.clone(),
        namespace: input.scope.namespace.clone(),
        version: input.scope.version.clone(),
        non_durable: input.scope.allow_non_durable,
    }
}
