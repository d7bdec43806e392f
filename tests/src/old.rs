//! Many claims, and old ones.

use std::time::Duration;

use earmark_claim::{ClaimKey, ClaimStore, PurgeRules, Timestamp};

use crate::TestDb;
use crate::claims::age;
use crate::fill::{fill, text_and_number};

/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// Rules that make tombstones of what was closed a day ago, and keep those.
pub fn after_a_day() -> PurgeRules {
    PurgeRules::new(DAY, None, []).expect("rules")
}

/// Ages a claim by hand, the moment at which it was closed included.
pub async fn age_closed(db: &TestDb, key: &ClaimKey, by: Duration) {
    age(db, key, by).await;
    let micros = by.as_micros();
    let (consumer, message_id) = (key.consumer(), key.message_id());
    db.execute(&format!(
        "UPDATE earmark_claim SET closed_at = closed_at - {micros} WHERE consumer = '{consumer}' AND message_id = '{message_id}'"
    ))
    .await
    .expect("an update");
}

/// Makes a tombstone of a finished claim, as time and a purge would.
pub async fn purge(db: &TestDb, store: &ClaimStore, key: &ClaimKey) {
    age_closed(db, key, DAY * 2).await;
    let done = store.purge_batch(&after_a_day(), Timestamp::default(), 100).await.expect("a purge");
    assert_eq!(done.claims, 1, "{key}");
}

/// Makes `PREFIX1` to `PREFIXn-1` out of `PREFIX0`.
pub async fn copy(db: &TestDb, prefix: &str, n: u32) {
    copy_apart(db, prefix, n, Duration::ZERO).await;
}

/// The same, each closed by so much later than the one before it.
pub async fn copy_apart(db: &TestDb, prefix: &str, n: u32, apart: Duration) {
    let id = text_and_number(db.backend(), prefix, "{n}");
    let closed_at = format!("e.closed_at + {} * {{n}}", apart.as_micros());
    let set = [("message_id", id.as_str()), ("closed_at", &closed_at)];
    fill(db, &format!("{prefix}0"), 1..u64::from(n), &set).await;
}
