//! Open at the start + new + reopened − closed = open at the end: finance trusts totals that foot.
//!
//! The two ends are found in different columns (the start from times, the end from states), the flows in between from
//! creation times, closing times and events. So a row whose columns contradict each other, or an event that is missing,
//! shows as a difference instead of passing unseen.

use std::collections::BTreeMap;

use super::scope::Scope;
use crate::report::input::ClaimRow;
use crate::report::model::{Cell, Flow, RollForward, Since};
use crate::report::money::Money;
use crate::report::untrusted::Untrusted;

#[derive(Default)]
struct Counts {
    opening: Sum,
    new: Sum,
    reopened: Sum,
    closed: Sum,
    closing: Sum,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    claims: i64,
    minor: i128,
}

pub(super) fn roll_forward(scope: &Scope<'_>) -> RollForward {
    let mut all = Counts::default();
    // No currency sorts after every currency.
    let mut by_currency: BTreeMap<(bool, &str), Counts> = BTreeMap::new();
    for c in &scope.claims {
        let currency = c.amount.as_ref().map_or("", |a| a.currency.as_str());
        let line = by_currency.entry((c.amount.is_none(), currency)).or_default();
        count(scope, c, line);
        count(scope, c, &mut all);
    }
    by_currency.retain(|_, counts| !counts.is_empty());
    let all = all.flow(None);
    let by_currency: Vec<Flow> = by_currency
        .into_iter()
        .map(|((none, currency), counts)| counts.flow((!none).then_some(currency)))
        .collect();
    let balanced = std::iter::once(&all).chain(&by_currency).all(|flow| flow.check.is_zero());
    RollForward { balanced, all, by_currency, since: since(scope) }
}

fn count<'a>(scope: &Scope<'a>, c: &'a ClaimRow, line: &mut Counts) {
    let (window, minor) = (scope.window, c.amount.as_ref().map_or(0, |a| i128::from(a.minor)));
    if scope.was_open(c, window.from) {
        line.opening.add(minor);
    }
    if window.holds(c.created_at) {
        line.new.add(minor);
    }
    for _ in scope.reopenings(c).iter().filter(|r| window.holds(r.at)) {
        line.reopened.add(minor);
    }
    for _ in scope.closings(c).filter(|t| window.holds(*t)) {
        line.closed.add(minor);
    }
    if scope.stood_open(c, window.to) {
        line.closing.add(minor);
    }
}

/// What lies between the window's end and the moment at which the rows were read.
fn since(scope: &Scope<'_>) -> Option<Since> {
    let to = scope.window.to;
    let reopenings = scope.claims.iter().flat_map(|c| scope.reopenings(c));
    (to < scope.as_of).then(|| Since {
        created: scope.claims.iter().filter(|c| c.created_at >= to).count() as u64,
        reopened: reopenings.filter(|r| r.at >= to).count() as u64,
        closed: scope.claims.iter().flat_map(|c| scope.closings(c)).filter(|t| *t >= to).count() as u64,
        open_now: scope.open().count() as u64,
    })
}

impl Sum {
    fn add(&mut self, minor: i128) {
        self.claims += 1;
        self.minor += minor;
    }

    fn cell(self, currency: Option<&str>) -> Cell {
        Cell { claims: self.claims, amount: currency.map(|code| Money::new(code, self.minor)) }
    }
}

impl Counts {
    fn is_empty(&self) -> bool {
        [self.opening, self.new, self.reopened, self.closed, self.closing].iter().all(|sum| sum.claims == 0)
    }

    fn flow(&self, currency: Option<&str>) -> Flow {
        let Self { opening, new, reopened, closed, closing } = *self;
        let check = Sum {
            claims: opening.claims + new.claims + reopened.claims - closed.claims - closing.claims,
            minor: opening.minor + new.minor + reopened.minor - closed.minor - closing.minor,
        };
        Flow {
            currency: currency.map(Untrusted::from),
            opening: opening.cell(currency),
            new: new.cell(currency),
            reopened: reopened.cell(currency),
            closed: closed.cell(currency),
            closing: closing.cell(currency),
            check: check.cell(currency),
        }
    }
}

impl Cell {
    fn is_zero(&self) -> bool {
        self.claims == 0 && self.amount.as_ref().is_none_or(|money| money.minor() == 0)
    }
}
