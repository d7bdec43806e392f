//! A database as a service leaves it after a while: much is finished, some is old, a little is open.

use std::env;

use earmark_claim::{ClaimKey, ClaimStore, State};
use earmark_tests::claims::{in_state, key, never, store};
use earmark_tests::fill::{fill, text_and_number};
use earmark_tests::{Backend, TestDb};
use sea_orm::Value;

/// Due claims of the pair that does not flood.
pub const FEW: u64 = 10;
/// Escalated claims.
pub const ESCALATED: u64 = 20;

/// How many claims are finished. One in ten is a tombstone.
pub fn finished() -> u64 {
    from_environment("EARMARK_PLAN_ROWS", 20_000)
}

/// How many are due of the pair that floods.
pub fn flood() -> u64 {
    from_environment("EARMARK_PLAN_DUE", 2_000)
}

/// Everything that is open.
pub fn open() -> u64 {
    flood() + FEW + ESCALATED
}

fn from_environment(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is no number: {n}")))
}

/// Made a while ago, one after the other.
const LONG_AGO: &str = "e.created_at - 4000000000000 - {n}";
const CLOSED_LONG_AGO: &str = "e.closed_at - 4000000000000 - {n}";

/// The finished and the escalated ones of a hundred tenants, and what is due of two.
pub async fn set(db: &TestDb) -> ClaimStore {
    let store = with_finished(db).await;
    let concat = |text: &str| text_and_number(db.backend(), text, "{n}");
    in_state(db, &store, &key("escalated-0"), State::Escalated, never()).await;
    fill(db, "escalated-0", 1..ESCALATED, &[("message_id", &concat("escalated-"))]).await;
    in_state(db, &store, &key("due-0"), State::InDoubt, never()).await;
    due(db, "few-", FEW, "'b'").await;
    due(db, "flood-", flood(), "'a'").await;
    db.execute("DELETE FROM earmark_claim WHERE message_id = 'due-0'").await.unwrap();
    analyze(db).await;
    store
}

/// A store, and the finished claims alone: a hundred tenants', with an event of one in ten.
pub async fn with_finished(db: &TestDb) -> ClaimStore {
    let store = store(db).await;
    let concat = |text: &str| text_and_number(db.backend(), text, "{n}");
    in_state(db, &store, &key("done-0"), State::Confirmed, never()).await;
    let tenant = text_and_number(db.backend(), "t", "({n} % 100)");
    let (id, reference) = (concat("done-"), concat("R"));
    let old = [
        ("message_id", id.as_str()),
        ("tenant", &tenant),
        ("reference", &reference),
        ("provider_ref", &reference),
        ("created_at", LONG_AGO),
        ("closed_at", CLOSED_LONG_AGO),
    ];
    let tombstones = finished() / 10;
    fill(db, "done-0", tombstones..finished(), &old).await;
    let purged = [("purged_at", "e.closed_at"), ("request", "NULL"), ("receipt", "NULL")];
    fill(db, "done-0", 1..tombstones, &[&old[..], &purged].concat()).await;
    let events = "INSERT INTO earmark_event \
        (tenant, consumer, message_id, seq, at, fence, revision, name, from_state, to_state) \
        SELECT tenant, consumer, message_id, 1, created_at, 1, 1, 'mismatch', state, state \
        FROM earmark_claim WHERE message_id LIKE 'done-%7'";
    db.execute(events).await.unwrap();
    analyze(db).await;
    store
}

/// So many claims that are due, as `due-0` is, of these tenants.
pub async fn due(db: &TestDb, text: &str, n: u64, tenant: &str) {
    let id = text_and_number(db.backend(), text, "{n}");
    let set = [("message_id", id.as_str()), ("tenant", tenant), ("due_at", "e.due_at - {n}")];
    fill(db, "due-0", 0..n, &set).await;
}

/// The server looks at the tables by itself after a while; a test does not wait for it.
pub async fn analyze(db: &TestDb) {
    match db.backend() {
        Backend::Postgres => db.execute("ANALYZE").await.map(drop),
        Backend::MariaDb => db.execute("ANALYZE TABLE earmark_claim, earmark_event").await.map(drop),
        // Nobody does it there unless he is asked to: the plans must do without.
        Backend::Sqlite => Ok(()),
    }
    .unwrap();
}

/// A part of a key, as the store binds it.
pub fn part(db: &TestDb, text: &str) -> Value {
    match db.backend() {
        Backend::MariaDb => text.as_bytes().to_vec().into(),
        Backend::Postgres | Backend::Sqlite => text.into(),
    }
}

/// A key's parts.
pub fn parts(db: &TestDb, key: &ClaimKey) -> Vec<Value> {
    [key.tenant(), key.consumer(), key.message_id()].map(|text| part(db, text)).into()
}
