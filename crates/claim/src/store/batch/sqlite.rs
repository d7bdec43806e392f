//! SQLite: one statement for the claims and one for the outcomes, in one transaction; their values are JSON documents.

use std::collections::HashSet;

use sea_orm::{ConnectionTrait, DbErr, QueryResult};

use super::{Ours, Written, json};
use crate::claim::Token;
use crate::store::bind::{Insert, statement};
use crate::store::connect::Pools;
use crate::store::dialect::Dialect;
use crate::store::ordinary::Confirm;
use crate::time::Timestamp;

pub(super) async fn write(
    pools: &Pools,
    claims: &[&Insert],
    confirms: &[&Confirm],
) -> Result<Written, DbErr> {
    let dialect = Dialect::Sqlite;
    let tx = pools.begin_claim().await?;
    let (mut made, mut done) = (Vec::new(), Vec::new());
    if !confirms.is_empty() {
        let values = vec![json::confirms(confirms).into()];
        done = tx.query_all_raw(statement(dialect, dialect.sql().confirm_batch, values)).await?;
    }
    if !claims.is_empty() {
        let (rows, shapes) = json::claims(claims);
        let values = vec![rows.into(), shapes.into()];
        made = tx.query_all_raw(statement(dialect, dialect.sql().claim_batch, values)).await?;
    }
    tx.commit().await?;
    let at = made.first().map(|row| row.try_get_by_index::<i64>(1)).transpose()?;
    Ok(Written {
        claims: ours(&made, claims.len())?,
        confirms: ours(&done, confirms.len())?,
        at: at.map(Timestamp::from_micros),
    })
}

fn ours(rows: &[QueryResult], asked: usize) -> Result<Ours, DbErr> {
    if rows.len() == asked {
        return Ok(Ours::All);
    }
    let token = |row: &QueryResult| -> Result<Token, DbErr> {
        let bytes: Vec<u8> = row.try_get_by_index(0)?;
        bytes.try_into().map(Token).map_err(|_| DbErr::Custom("a token".into()))
    };
    Ok(Ours::These(rows.iter().map(token).collect::<Result<HashSet<_>, _>>()?))
}
