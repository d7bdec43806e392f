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

use super::input::Input;
use super::model::{Identity, Report, SCHEMA};
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
