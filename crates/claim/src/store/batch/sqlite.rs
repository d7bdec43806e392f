//! SQLite: one statement for the claims and one for the outcomes, in one transaction; their values are JSON documents.
//!
//! Counted and not returned: a row that a statement returns crosses from the connection's thread by itself.

use sea_orm::{ConnectionTrait, DbErr};

use super::{Ours, Written, json};
use crate::store::bind::{Insert, statement};
use crate::store::connect::Pools;
use crate::store::dialect::Dialect;
use crate::store::ordinary::Confirm;

pub(super) async fn write(
    pools: &Pools,
    claims: &[&Insert],
    confirms: &[&Confirm],
) -> Result<Written, DbErr> {
    let dialect = Dialect::Sqlite;
    let tx = pools.begin_claim().await?;
    let mut written = Written { claims: Ours::none(), confirms: Ours::none(), at: None };
    if !confirms.is_empty() {
        let values = vec![json::confirms(confirms).into()];
        let done = tx.execute_raw(statement(dialect, dialect.sql().confirm_batch, values)).await?;
        written.confirms = Ours::counted(done.rows_affected(), confirms.len());
    }
    if !claims.is_empty() {
        let (rows, shapes) = json::claims(claims);
        let values = vec![rows.into(), shapes.into()];
        let made = tx.execute_raw(statement(dialect, dialect.sql().claim_batch, values)).await?;
        written.claims = Ours::counted(made.rows_affected(), claims.len());
    }
    tx.commit().await?;
    Ok(written)
}
