//! A batch, written: one row by the single-row statement, more by one statement for all, in the form that each database takes fastest.

#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod json;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::collections::HashSet;

use sea_orm::DbErr;

use super::bind::{Insert, Shape};
use super::connect::Pools;
use super::dialect::Dialect;
use super::group::{Batch, Lanes};
use super::ordinary::Confirm;
use super::write::Db;
use crate::claim::Token;
use crate::time::Timestamp;

/// What a committed batch wrote.
pub(super) struct Written {
    pub(super) claims: Ours,
    pub(super) confirms: Ours,
    /// The clock of the claims, where the database returns it.
    pub(super) at: Option<Timestamp>,
}

/// Which rows of a batch were written.
pub(super) enum Ours {
    All,
    These(HashSet<Token>),
    /// Some of them: the database says how many, and not which.
    #[cfg_attr(not(any(feature = "mysql", feature = "sqlite")), allow(dead_code))]
    Some,
}

impl Ours {
    /// Whether a row was written; `None`: nobody knows before it is read.
    pub(super) fn knows(&self, token: &Token) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::These(tokens) => Some(tokens.contains(token)),
            Self::Some => None,
        }
    }

    /// Whether anything was written, as far as is known.
    pub(super) fn is_any(&self) -> bool {
        match self {
            Self::All | Self::Some => true,
            Self::These(tokens) => !tokens.is_empty(),
        }
    }

    /// Where the database only counts.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    fn counted(affected: u64, asked: usize) -> Self {
        match usize::try_from(affected) {
            Ok(0) => Self::none(),
            Ok(all) if all == asked => Self::All,
            _ => Self::Some,
        }
    }

    fn one(written: bool) -> Self {
        if written { Self::All } else { Self::none() }
    }

    fn none() -> Self {
        Self::These(HashSet::new())
    }
}

impl Dialect {
    /// How many batches are under way at once. Two keep two cores busy, more only make each of them smaller; SQLite has one writer.
    /// MySQL has no statement that inserts and updates.
    pub(super) const fn lanes(self, write_connections: u32) -> Lanes {
        match self {
            Self::Postgres => Lanes::Mixed(write_connections as usize),
            Self::MySql => Lanes::Apart,
            Self::Sqlite => Lanes::Mixed(1),
        }
    }
}

/// Writes a batch and commits it. After an error nothing of it is committed, or nobody knows.
pub(super) async fn write(db: &Db, batch: &Batch) -> Result<Written, DbErr> {
    match (&batch.claims[..], &batch.confirms[..]) {
        ([claim], []) => {
            let inserted = db.insert_once(&claim.job).await?;
            Ok(Written {
                claims: Ours::one(inserted.is_some()),
                confirms: Ours::none(),
                at: inserted.flatten(),
            })
        }
        ([], [confirm]) => {
            let confirmed = db.confirm_once(&confirm.job).await?;
            Ok(Written { claims: Ours::none(), confirms: Ours::one(confirmed), at: None })
        }
        (claims, confirms) => {
            let claims: Vec<&Insert> = claims.iter().map(|claim| &*claim.job).collect();
            let confirms: Vec<&Confirm> = confirms.iter().map(|confirm| &*confirm.job).collect();
            many(&db.pools, &claims, &confirms).await
        }
    }
}

/// What claims have in common, each once, and for each claim the place of its own, from zero.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]
fn shapes<'a>(claims: &[&'a Insert]) -> (Vec<Shape<'a>>, Vec<usize>) {
    let mut shapes: Vec<Shape<'a>> = Vec::new();
    let mut places = Vec::with_capacity(claims.len());
    for insert in claims {
        let shape = Shape::of(insert);
        let known = shapes.iter().position(|s| *s == shape);
        places.push(known.unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        }));
    }
    (shapes, places)
}

#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(unused_variables, clippy::unused_async)
)]
async fn many(pools: &Pools, claims: &[&Insert], confirms: &[&Confirm]) -> Result<Written, DbErr> {
    match pools.dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => postgres::write(pools, claims, confirms).await,
        #[cfg(feature = "mysql")]
        Dialect::MySql => mysql::write(pools, claims, confirms).await,
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => sqlite::write(pools, claims, confirms).await,
        #[cfg(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")))]
        _ => Err(DbErr::Custom("a store of a database whose feature is off".into())),
    }
}
