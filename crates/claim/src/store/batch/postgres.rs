//! PostgreSQL: claims and outcomes in one statement, whose values are arrays.

use std::collections::HashSet;

use sea_orm::{DbErr, RuntimeErr};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Encode, Postgres, Row, Type};

use super::{Ours, Written, shapes};
use crate::claim::Token;
use crate::store::bind::{Insert, content_type, kept, received, when};
use crate::store::connect::Pools;
use crate::store::dialect::Dialect;
use crate::store::ordinary::Confirm;
use crate::store::tx::{self, Tx};
use crate::time::Timestamp;

pub(super) async fn write(
    pools: &Pools,
    claims: &[&Insert],
    confirms: &[&Confirm],
) -> Result<Written, DbErr> {
    let sql = Dialect::Postgres.sql();
    let mut values = PgArguments::default();
    let text = if claims.is_empty() {
        sql.confirm_batch
    } else {
        bind_claims(&mut values, claims)?;
        sql.claim_batch
    };
    bind_confirms(&mut values, confirms)?;
    let asked = sqlx::query_with(text, values);
    let rows = if pools.autocommit_is_safe() {
        // Read to its end: see `insert_once`.
        let pool = pools.claims.get_postgres_connection_pool();
        tx::postgres::fetch_alone(&pools.kept_postgres, pool, asked).await?
    } else {
        let Tx::Postgres(tx) = pools.begin_claim().await? else {
            return Err(DbErr::Custom("a transaction of another database".into()));
        };
        let rows = tx.fetch_all(asked).await.map_err(failed)?;
        tx.commit().await?;
        rows
    };
    let row = rows.first().ok_or_else(|| DbErr::Custom("the answer to a batch".into()))?;
    let at: Option<i64> = row.try_get(1).map_err(failed)?;
    Ok(Written {
        claims: ours(row, 0, 2, claims.len())?,
        confirms: ours(row, 3, 4, confirms.len())?,
        at: at.map(Timestamp::from_micros),
    })
}

fn ours(row: &PgRow, count: usize, tokens: usize, asked: usize) -> Result<Ours, DbErr> {
    let written: i64 = row.try_get(count).map_err(failed)?;
    if usize::try_from(written) == Ok(asked) {
        return Ok(Ours::All);
    }
    let tokens: Option<Vec<Vec<u8>>> = row.try_get(tokens).map_err(failed)?;
    let read = |token: Vec<u8>| token.try_into().map(Token).map_err(|_| DbErr::Custom("a token".into()));
    Ok(Ours::These(tokens.unwrap_or_default().into_iter().map(read).collect::<Result<HashSet<_>, _>>()?))
}

/// In the order of the text: a value for each claim, then those that the claims of one kind share.
fn bind_claims(values: &mut PgArguments, claims: &[&Insert]) -> Result<(), DbErr> {
    let (shapes, places) = shapes(claims);
    // Arrays count from one; a batch has some hundred rows at most.
    let places: Vec<i32> = places.into_iter().map(|p| i32::try_from(p).unwrap_or(i32::MAX - 1) + 1).collect();
    let mut values = Columns { values, rows: claims };
    values.column(|i| i.key.tenant())?;
    values.column(|i| i.key.consumer())?;
    values.column(|i| i.key.message_id())?;
    values.column(|i| i.claim.summary.as_deref())?;
    values.column(|i| i.claim.business_ref.as_deref())?;
    values.column(|i| i.claim.amount.map(|m| m.minor))?;
    values.column(|i| i.claim.amount.as_ref().map(|m| m.currency.as_str()))?;
    values.column(|i| &i.token.0[..])?;
    values.column(|i| when(i.claim.not_before).0)?;
    values.column(|i| when(i.claim.not_before).1)?;
    values.column(|i| when(i.claim.send_by).0)?;
    values.column(|i| when(i.claim.send_by).1)?;
    values.column(|i| &i.claim.fingerprint.as_bytes()[..])?;
    values.column(|i| i.idempotency_key.as_str())?;
    values.column(|i| i.reference.as_str())?;
    values.column(|i| &i.claim.request[..])?;
    values.column(|i| i.claim.traceparent.as_deref())?;
    values.column(|i| i.claim.supersedes.as_ref().map(|r| r.as_str()))?;
    values.values.add(places).map_err(unbound)?;

    let mut values = Columns { values: values.values, rows: &shapes };
    values.column(|s| s.kind)?;
    values.column(|s| s.form)?;
    values.column(|s| s.downstream)?;
    values.column(|s| s.state())?;
    values.column(|s| i32::from(s.in_flight))?;
    values.column(|s| s.due_in)?;
    values.column(|s| s.request_type)?;
    values.column(|s| s.credential)?;
    values.column(|s| s.repeat_safety)?;
    values.column(|s| s.key_window)?;
    values.column(|s| s.landing_horizon)?;
    values.column(|s| s.probe_lag)?;
    values.column(|s| s.probe_proof)?;
    values.column(|s| i32::try_from(s.looks_max).unwrap_or(i32::MAX))?;
    values.column(|s| s.call_timeout)?;
    values.column(|s| i32::try_from(s.attempts_max).unwrap_or(i32::MAX))?;
    values.column(|s| s.age_max)
}

fn bind_confirms(values: &mut PgArguments, confirms: &[&Confirm]) -> Result<(), DbErr> {
    let mut values = Columns { values, rows: confirms };
    values.column(|c| c.key.tenant())?;
    values.column(|c| c.key.consumer())?;
    values.column(|c| c.key.message_id())?;
    values.column(|c| &c.facts.token.0[..])?;
    values.column(|c| c.provider_ref())?;
    values.column(|c| c.receipt.as_ref().map(kept))?;
    values.column(|c| c.receipt.as_ref().map(|r| content_type(&r.content_type)))?;
    values.column(|c| c.receipt.as_ref().map(received))?;
    values.column(|c| c.receipt.as_ref().map(|r| &r.digest[..]))
}

/// Adds arrays, one value for each row.
struct Columns<'v, 'r, R> {
    values: &'v mut PgArguments,
    rows: &'r [R],
}

impl<'r, R> Columns<'_, 'r, R> {
    fn column<T>(&mut self, value: impl Fn(&'r R) -> T) -> Result<(), DbErr>
    where
        T: 'r,
        Vec<T>: Encode<'r, Postgres> + Type<Postgres>,
    {
        let column: Vec<T> = self.rows.iter().map(value).collect();
        self.values.add(column).map_err(unbound)
    }
}

fn unbound(error: sqlx::error::BoxDynError) -> DbErr {
    failed(sqlx::Error::Encode(error))
}

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(error.into()))
}
