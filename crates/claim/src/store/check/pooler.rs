//! A pooler in transaction mode that nobody told us of.

use sqlx::{AssertSqlSafe, Row};

use crate::error::Error;
use crate::store::connect::{Pools, unreachable};
use crate::store::dialect::Dialect;

/// Whether one session sees what another has set for itself alone: then both are lent the same server, transaction by transaction. Poolers
/// lend the server that was given back last, so this finds them unless others are faster; it never suspects a server that nobody
/// shares. Undeclared, such a pooler would let a statement that is prepared on one server be executed under its name on another, where
/// that name may be another statement.
///
/// And whether a connection has what it was opened with: a pooler, of any mode, may have been told to drop that.
pub(super) async fn undeclared(pools: &Pools) -> Result<Option<String>, Error> {
    if pools.dialect != Dialect::Postgres || pools.pooler {
        return Ok(None);
    }
    let mark = format!("{:032x}", fastrand::u128(..));
    // As plain text, in one message: the only kind of statement that any pooler brings to the server whole.
    let set = AssertSqlSafe(format!(
        "SELECT current_setting('earmark.lane', true), set_config('earmark.session', '{mark}', false)"
    ));
    let get = "SELECT current_setting('earmark.session', true)";
    let mut one = pools.claims.get_postgres_connection_pool().acquire().await.map_err(unreachable)?;
    let mut other = pools.write.get_postgres_connection_pool().acquire().await.map_err(unreachable)?;
    let row = sqlx::raw_sql(set).fetch_one(&mut *one).await.map_err(unreachable)?;
    let lane: Option<String> = row.try_get(0).map_err(unreachable)?;
    let row = sqlx::raw_sql(get).fetch_one(&mut *other).await.map_err(unreachable)?;
    let seen: Option<String> = row.try_get(0).map_err(unreachable)?;
    Ok(if seen == Some(mark) {
        Some(format!(
            "a pooler in transaction mode stands before the server, and statements may be executed as others: {FIX}"
        ))
    } else if lane.as_deref() != Some("claims") {
        Some(format!("a pooler stands before the server and drops what connections are opened with: {FIX}"))
    } else {
        None
    })
}

const FIX: &str =
    "set pooler (in the configuration: [database] pooler = true), or connect to the server itself";
