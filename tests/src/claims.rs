//! Short ways to make claims in tests.

use std::time::Duration;

use earmark_claim::{Claim, ClaimKey, ClaimStore, Declared, InFlight, NewClaim, RepeatSafety, StoreOptions};

use crate::TestDb;

/// A lease that no test waits for.
pub const LEASE: Duration = Duration::from_secs(60);

/// An effect that the provider does not deduplicate, with a horizon and no probe.
pub fn never() -> Declared {
    Declared {
        repeat: RepeatSafety::Never,
        landing_horizon: Some(Duration::from_secs(10)),
        probe: None,
        call_timeout: Duration::from_secs(5),
        attempts_max: 5,
        age_max: Duration::from_secs(24 * 3600),
    }
}

/// An effect whose provider remembers our key for a day.
pub fn keyed() -> Declared {
    Declared { repeat: RepeatSafety::Keyed { window: Duration::from_secs(24 * 3600) }, ..never() }
}

/// An effect that may be repeated at will.
pub fn natural() -> Declared {
    Declared { repeat: RepeatSafety::Natural, ..never() }
}

/// A claim of that effect with a small request.
pub fn new_claim(declared: Declared) -> NewClaim {
    NewClaim::new("mail.welcome", "mailer", r#"{"to":"a@example.org"}"#, declared)
}

/// The key of a message for the consumer `mail`.
pub fn key(message_id: &str) -> ClaimKey {
    ClaimKey::new("mail", message_id).expect("a key")
}

/// A store on the test's database, with a lease of [`LEASE`].
pub async fn store(db: &TestDb) -> ClaimStore {
    store_with(db, StoreOptions::new(LEASE)).await
}

/// A store on the test's database.
pub async fn store_with(db: &TestDb, options: StoreOptions) -> ClaimStore {
    ClaimStore::connect(db.url(), options)
        .await
        .unwrap_or_else(|e| panic!("{}", earmark_claim::failure::chain(&e)))
}

/// Claims a new key; any other answer fails the test.
pub async fn won(store: &ClaimStore, key: &ClaimKey, declared: Declared) -> Claim<InFlight> {
    match store.claim(key, new_claim(declared)).await.expect("a claim") {
        earmark_claim::Claimed::Won(claim) => claim,
        other => panic!("{key} was not won: {other:?}"),
    }
}

/// Ages a claim by hand: every time of its row moves into the past, as if that long had passed. Production SQL has no bound clock.
pub async fn age(db: &TestDb, key: &ClaimKey, by: Duration) {
    let micros = by.as_micros();
    let columns = ["due_at", "not_before", "send_by", "created_at", "window_from", "last_end_at", "ruled_at"];
    let set = columns.map(|c| format!("{c} = {c} - {micros}")).join(", ");
    let rows = db
        .execute(&format!(
            "UPDATE earmark_claim SET {set} WHERE consumer = '{}' AND message_id = '{}'",
            key.consumer(),
            key.message_id()
        ))
        .await
        .expect("an update");
    assert_eq!(rows, 1, "{key} is there");
}
