//! Lists and totals of claims, for people and gauges. They read what is open by its indexes, and never lock.

use std::time::Duration;

use sea_orm::{QueryResult, Value};

use crate::error::Error;
use crate::state::State;
use crate::store::row::{ClaimView, text, text_opt};
use crate::store::{ClaimStore, bind};
use crate::time::{Timestamp, micros};

/// Which claims a list is about: everything that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this state; `None`: open, whatever the state.
    pub state: Option<State>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this handler.
    pub consumer: Option<String>,
    /// Of this operation.
    pub kind: Option<String>,
    /// Of this provider.
    pub downstream: Option<String>,
    /// With this class of the newest failure.
    pub error_class: Option<String>,
    /// Made at least that long ago.
    pub older_than: Option<Duration>,
}

/// What a list found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listing {
    /// Open ones by deadline (the end of the key window or send-by, whichever passes first), then by age; finished ones by when they
    /// were closed, newest first. Without receipts.
    pub claims: Vec<ClaimView>,
    /// Rows that cannot be read, each with its key and why.
    pub unreadable: Vec<String>,
}

/// Open claims of one consumer, kind, downstream, state and currency.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenTally {
    /// Which handler.
    pub consumer: String,
    /// Which operation.
    pub kind: String,
    /// Which provider.
    pub downstream: String,
    /// The state, as stored.
    pub state: String,
    /// The currency of the amounts.
    pub currency: Option<String>,
    /// How many.
    pub claims: u64,
    /// How long ago the oldest of them may first have reached the provider, or was made.
    pub oldest_age: Duration,
    /// The sum of the amounts: for a gauge, which is a floating-point number anyway.
    pub minor: f64,
}

impl ClaimStore {
    /// The first `most` claims that a filter finds. A row that cannot be read takes no other with it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &Filter, most: u32) -> Result<Listing, Error> {
        let (dialect, sql) = (self.dialect(), self.dialect().sql());
        let state: Value = filter.state.map(|s| s.as_str().to_owned()).into();
        let (sql, mut values) = match filter.state {
            Some(closed) if closed.is_terminal() => (sql.list_closed, vec![state]),
            _ => (sql.list_open, vec![state.clone(), state]),
        };
        let mut twice = |value: Value| values.extend([value.clone(), value]);
        twice(dialect.key_value_opt(filter.tenant.as_deref()));
        twice(dialect.key_value_opt(filter.consumer.as_deref()));
        twice(filter.kind.clone().into());
        twice(filter.downstream.clone().into());
        twice(filter.error_class.clone().into());
        twice(filter.older_than.map(micros).into());
        values.push(i64::from(most).into());
        let statement = bind::statement(dialect, sql, values);
        let db = self.inner.db.clone();
        let rows = self.inner.writer.run(async move { db.read("list", statement).await }).await?;
        let (claims, unreadable) = readable(&rows);
        Ok(Listing { claims, unreadable })
    }

    /// How many claims are open, how old and of what amount, in one statement.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_tallies(&self) -> Result<Vec<OpenTally>, Error> {
        let statement = bind::statement(self.dialect(), self.dialect().sql().open_tallies, Vec::new());
        let db = self.inner.db.clone();
        let rows = self.inner.writer.run(async move { db.read("open tallies", statement).await }).await?;
        rows.iter().map(tally).collect()
    }
}

/// The rows that can be read, and what is wrong with the others.
pub(crate) fn readable(rows: &[QueryResult]) -> (Vec<ClaimView>, Vec<String>) {
    let (mut claims, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match ClaimView::read(row) {
            Ok(view) => claims.push(view),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    (claims, unreadable)
}

fn tally(row: &QueryResult) -> Result<OpenTally, Error> {
    let read = || -> Result<OpenTally, sea_orm::DbErr> {
        let now = Timestamp::from_micros(row.try_get_by("now_at")?);
        let claims: i64 = row.try_get_by("claims")?;
        Ok(OpenTally {
            consumer: text(row, "consumer")?,
            kind: text(row, "kind")?,
            downstream: text(row, "downstream")?,
            state: text(row, "state")?,
            currency: text_opt(row, "currency")?,
            claims: u64::try_from(claims).unwrap_or_default(),
            oldest_age: now.since(Timestamp::from_micros(row.try_get_by("oldest")?)),
            minor: row.try_get_by::<Option<f64>, _>("minor")?.unwrap_or_default(),
        })
    };
    read().map_err(|e| Error::Malformed { key: "of a total".into(), what: e.to_string() })
}
