//! MySQL, MariaDB: one statement for the claims or one for the outcomes, whose values are a JSON document.

use sea_orm::DbErr;

use super::{Ours, Written, json};
use crate::store::bind::{Insert, statement};
use crate::store::connect::Pools;
use crate::store::dialect::Dialect;
use crate::store::ordinary::Confirm;

/// How often a batch is written again that met a key which somebody else was making: the next time it is left out.
const RACES_MAX: u32 = 2;

pub(super) async fn write(
    pools: &Pools,
    claims: &[&Insert],
    confirms: &[&Confirm],
) -> Result<Written, DbErr> {
    let dialect = Dialect::MySql;
    // A batch is of the one or of the other: see `Lanes::Apart`.
    let (text, values, asked) = if confirms.is_empty() {
        let (rows, shapes) = json::claims(claims);
        (dialect.sql().claim_batch, vec![rows.into(), shapes.into()], claims.len())
    } else {
        (dialect.sql().confirm_batch, vec![json::confirms(confirms).into()], confirms.len())
    };
    let statement = statement(dialect, text, values);
    let mut races = 0;
    let affected = loop {
        match pools.execute_claim(statement.clone()).await {
            Ok(done) => break done.rows_affected(),
            Err(error) if races < RACES_MAX && dialect.is_unique_violation(&error) => races += 1,
            Err(error) => return Err(error),
        }
    };
    // Rows that the statement matched: the driver asks for that, and each of them changes.
    let ours = Ours::counted(affected, asked);
    Ok(if confirms.is_empty() {
        Written { claims: ours, confirms: Ours::none(), at: None }
    } else {
        Written { claims: Ours::none(), confirms: ours, at: None }
    })
}
