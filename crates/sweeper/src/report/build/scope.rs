//! The rows in order, by key, and what was open when.

use std::collections::HashMap;

use earmark_claim::Timestamp;

use crate::report::input::{ClaimRow, EventRow, Input, OrphanRow, Window};
use crate::report::model::{About, Name, Tally};
use crate::report::money::Money;
use crate::report::untrusted::{Untrusted, shown_key};

pub(super) type Key<'a> = (&'a str, &'a str, &'a str);

/// The rows, sorted and indexed.
pub(super) struct Scope<'a> {
    pub(super) as_of: Timestamp,
    /// Cut at `as_of`.
    pub(super) window: Window,
    /// By key, each once.
    pub(super) claims: Vec<&'a ClaimRow>,
    /// By time, then key.
    pub(super) events: Vec<&'a EventRow>,
    pub(super) orphans: Vec<&'a OrphanRow>,
    /// Rows that could not be read.
    pub(super) unreadable: &'a [Untrusted],
    /// Claim rows that came twice.
    pub(super) doubled: u64,
    by_key: HashMap<Key<'a>, &'a ClaimRow>,
    reopenings: HashMap<Key<'a>, Vec<Reopening>>,
}

/// A terminal claim became open again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reopening {
    pub(super) at: Timestamp,
    /// The closing that it undid.
    pub(super) undid: Timestamp,
    /// That moment is not on file and was inferred.
    pub(super) inferred: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn of(input: &'a Input) -> Self {
        let to = input.window.to.min(input.as_of);
        let window = Window { from: input.window.from.min(to), to };

        let mut claims: Vec<&ClaimRow> = input.claims.iter().collect();
        claims.sort_by_key(|c| claim_key(c));
        let read = claims.len();
        claims.dedup_by_key(|c| claim_key(c));
        let doubled = (read - claims.len()) as u64;
        let by_key: HashMap<_, _> = claims.iter().map(|&c| (claim_key(c), c)).collect();

        let mut events: Vec<&EventRow> = input.events.iter().collect();
        events.sort_by_key(|e| (e.at, event_key(e), e.seq));
        let mut orphans: Vec<&OrphanRow> = input.orphans.iter().collect();
        orphans.sort_by_key(|o| (o.at, o.id.raw()));

        let mut reopenings: HashMap<_, Vec<_>> = HashMap::new();
        for e in events.iter().filter(|e| e.from_state.is_terminal() && !e.to_state.is_terminal()) {
            let key = event_key(e);
            let reopening = Reopening::of(e, by_key.get(&key).copied());
            reopenings.entry(key).or_default().push(reopening);
        }
        let unreadable = &input.unreadable;
        Self { as_of: input.as_of, window, claims, events, orphans, unreadable, doubled, by_key, reopenings }
    }

    pub(super) fn claim(&self, key: Key<'_>) -> Option<&'a ClaimRow> {
        self.by_key.get(&key).copied()
    }

    /// By time.
    pub(super) fn reopenings(&self, c: &'a ClaimRow) -> &[Reopening] {
        self.reopenings.get(&claim_key(c)).map_or(&[], Vec::as_slice)
    }

    /// What the claim was at `t`, by the first thing that changed it since; `otherwise` where nothing did.
    fn open_at(&self, c: &'a ClaimRow, t: Timestamp, otherwise: bool) -> bool {
        let changed = self.reopenings(c).iter().find(|r| r.at >= t);
        c.created_at < t && changed.map_or(otherwise, |reopened| reopened.undid >= t)
    }

    /// Open at `t`, by its times.
    pub(super) fn was_open(&self, c: &'a ClaimRow, t: Timestamp) -> bool {
        self.open_at(c, t, c.closed_at.is_none_or(|closed| closed >= t))
    }

    /// Open at `t`, by its state.
    pub(super) fn stood_open(&self, c: &'a ClaimRow, t: Timestamp) -> bool {
        let closed_since = c.closed_at.is_some_and(|closed| closed >= t);
        self.open_at(c, t, !c.state.is_terminal() || closed_since)
    }

    /// Every closing of the claim that is known: the one that stands, and those that were undone.
    pub(super) fn closings(&self, c: &'a ClaimRow) -> impl Iterator<Item = Timestamp> + use<'_, 'a> {
        c.closed_at.into_iter().chain(self.reopenings(c).iter().map(|r| r.undid))
    }

    /// Open now or at the end of the window, or created or closed in it: what the verdict counts.
    pub(super) fn counted(&self) -> impl Iterator<Item = &'a ClaimRow> {
        self.claims.iter().copied().filter(|c| {
            !c.state.is_terminal()
                || self.window.holds(c.created_at)
                || self.closings(c).any(|t| self.window.holds(t))
                || self.stood_open(c, self.window.to)
        })
    }

    /// Open now.
    pub(super) fn open(&self) -> impl Iterator<Item = &'a ClaimRow> {
        self.claims.iter().copied().filter(|c| !c.state.is_terminal())
    }

    /// Events of the window.
    pub(super) fn in_window(&self) -> impl Iterator<Item = &'a EventRow> {
        self.events.iter().copied().filter(|e| self.window.holds(e.at))
    }
}

impl Reopening {
    fn of(e: &EventRow, claim: Option<&ClaimRow>) -> Self {
        if let Some(undid) = e.detail.closed_at {
            return Self { at: e.at, undid, inferred: false };
        }
        // An ordinary confirmation ends its attempt at the moment at which it closes the claim. Where a later attempt
        // has overwritten that, the creation is as good a guess as any moment before the window.
        let undid = claim.map_or(e.at, |c| {
            c.last_end_at.filter(|end| c.created_at <= *end && *end <= e.at).unwrap_or(c.created_at)
        });
        Self { at: e.at, undid, inferred: true }
    }
}

pub(super) fn claim_key(c: &ClaimRow) -> Key<'_> {
    (c.tenant.raw(), c.consumer.raw(), c.message_id.raw())
}

pub(super) fn event_key(e: &EventRow) -> Key<'_> {
    (e.tenant.raw(), e.consumer.raw(), e.message_id.raw())
}

pub(super) fn name(c: &ClaimRow) -> Name {
    named(Some(&c.reference), claim_key(c))
}

pub(super) fn named(reference: Option<&Untrusted>, (tenant, consumer, message_id): Key<'_>) -> Name {
    Name {
        reference: reference.cloned(),
        tenant: tenant.into(),
        consumer: consumer.into(),
        message_id: message_id.into(),
        shown: shown_key(tenant, consumer, message_id),
    }
}

pub(super) fn money(c: &ClaimRow) -> Option<Money> {
    c.amount.as_ref().map(|a| Money::new(a.currency.as_str(), a.minor))
}

pub(super) fn about(c: &ClaimRow) -> About {
    About {
        kind: c.kind.clone(),
        downstream: c.downstream.clone(),
        summary: c.summary.clone(),
        business_ref: c.business_ref.clone(),
        amount: money(c),
    }
}

impl Tally {
    /// Counts a claim.
    pub(super) fn add(&mut self, c: &ClaimRow) {
        self.claims += 1;
        match &c.amount {
            Some(amount) => self.amounts.add(&amount.currency, i128::from(amount.minor)),
            None => self.without_amount += 1,
        }
    }

    pub(super) fn of<'c>(claims: impl IntoIterator<Item = &'c ClaimRow>) -> Self {
        let mut tally = Self::default();
        claims.into_iter().for_each(|c| tally.add(c));
        tally
    }
}
