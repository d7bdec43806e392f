//! SQLite: commits that fail without a word, and transactions that the library ends by itself.

use earmark_claim::{ANSWER_BYTES_MAX, Answer, Backoff, Error, Receipt, State};
use earmark_tests::claims::{
    LEASE, age, begin, count, eventually, host, host_with, key, never, new_claim, receipt, state, store,
    store_on, won,
};
use earmark_tests::{Backend, EmptyDb, TestDb};
use sea_orm::{ConnectionTrait, Statement, TransactionTrait};

fn sql(text: &str) -> Statement {
    Statement::from_string(sea_orm::DbBackend::Sqlite, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_whose_commit_failed_returns_its_row() {
    let db = EmptyDb::new(Backend::Sqlite).await;
    let writer = host_with(&db, "PRAGMA busy_timeout = 0").await;
    writer.execute_unprepared("CREATE TABLE marker (id INTEGER PRIMARY KEY)").await.unwrap();
    // The control: a rollback journal, and a reader whose shared lock keeps the commit out.
    let reader = host(&db).await;
    let reading = reader.begin().await.unwrap();
    reading.query_one_raw(sql("SELECT COUNT(*) FROM marker")).await.unwrap();
    let row = writer.query_one_raw(sql("INSERT INTO marker VALUES (1) RETURNING id")).await;
    assert!(matches!(row, Ok(Some(_))), "the control has changed: {row:?}");
    reading.rollback().await.unwrap();
    assert_eq!(count(&db, "marker").await, 0, "the control has changed: the row is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_does_not_keep_a_claims_commit_out() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = host(&db).await;
    let store = store(&db).await;
    let reading = host.begin().await.unwrap();
    reading.query_one_raw(sql("SELECT COUNT(*) FROM earmark_claim")).await.unwrap();
    drop(won(&store, &key("m1"), never()).await);
    assert_eq!(count(&db, "earmark_claim").await, 1);
    reading.rollback().await.unwrap();
}

/// A foreign key that is checked at the commit: the one way to make a commit fail on every machine alike.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_commit_fails_is_an_error() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = host(&db).await;
    host.execute_unprepared(
        "CREATE TABLE shop (id INTEGER PRIMARY KEY); PRAGMA foreign_keys = OFF; \
         CREATE TABLE marker (id INTEGER PRIMARY KEY, shop INTEGER REFERENCES shop (id) DEFERRABLE INITIALLY DEFERRED); \
         ALTER TABLE earmark_claim ADD COLUMN shop INTEGER NOT NULL DEFAULT 1 REFERENCES shop (id) \
             DEFERRABLE INITIALLY DEFERRED; \
         PRAGMA foreign_keys = ON",
    )
    .await
    .unwrap();
    let row = host.query_one_raw(sql("INSERT INTO marker VALUES (1, 1) RETURNING id")).await;
    assert!(matches!(row, Ok(Some(_))), "the control has changed: {row:?}");
    assert_eq!(count(&db, "marker").await, 0, "the control has changed: the row is there");
    let store = store(&db).await;
    for i in 0..3 {
        let refused = store.claim(&key("m1"), new_claim(never())).await;
        assert!(matches!(refused, Err(Error::Rejected { .. })), "{i}: {refused:?}");
        assert_eq!(count(&db, "earmark_claim").await, 0);
    }
    host.execute_unprepared("INSERT INTO shop VALUES (1)").await.unwrap();
    drop(won(&store, &key("m1"), never()).await);
    assert_eq!(count(&db, "earmark_claim").await, 1);
}

/// "Disk full" makes SQLite end the transaction by itself; the driver's own roll-back then fails and it counts one transaction too
/// many from then on: what looks like a commit is a savepoint's release.
#[tokio::test(flavor = "multi_thread")]
async fn after_sqlite_has_ended_a_transaction_by_itself_a_win_is_still_a_commit() {
    let db = TestDb::new(Backend::Sqlite).await;
    let own = host(&db).await;
    own.execute_unprepared("CREATE TABLE ballast (bytes BLOB)").await.unwrap();
    let cap = "PRAGMA max_page_count = 200";
    let full = host_with(&db, cap).await;
    let store = store_on(&full).await;
    drop(won(&store, &key("before"), never()).await);
    let settling = won(&store, &key("settling"), never()).await;
    // Fills the file to its last page.
    while full.execute_unprepared("INSERT INTO ballast VALUES (randomblob(3000))").await.is_ok() {}
    // The control: an update that finds no page. SQLite is in no transaction any more, and the driver thinks that it is.
    let tx = begin(&full).await;
    let grown = tx.execute_unprepared("UPDATE ballast SET bytes = zeroblob(400000) WHERE rowid = 1").await;
    assert!(grown.is_err(), "the control has changed: {grown:?}");
    let ended = tx.execute_unprepared("ROLLBACK").await;
    assert!(ended.is_err(), "the control has changed: SQLite left the transaction open");
    drop(tx);
    // The store's own update finds none either.
    let body = Answer::new("text/plain", vec![7u8; ANSWER_BYTES_MAX]);
    let settled = store.settle(settling, Ok(Receipt::<()>::new(Some(body), None)), Backoff::default()).await;
    assert!(matches!(&settled, Err(e) if e.is_transient()), "{settled:?}");
    // Somebody makes room.
    eventually("room", async || own.execute_unprepared("DELETE FROM ballast").await.is_ok()).await;
    // An operation that is refused, and so rolled back; then claims.
    assert_eq!(store.expire_due(&key("before")).await.unwrap(), None);
    for i in 0..5 {
        let key = key(&format!("after-{i}"));
        let claim = won(&store, &key, never()).await;
        let seen = own
            .query_one_raw(sql(&format!("SELECT 1 FROM earmark_claim WHERE message_id = 'after-{i}'")))
            .await
            .unwrap();
        assert!(seen.is_some(), "after-{i} was won and is not committed");
        let _ = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
        assert_eq!(state(&store, &key).await, State::Confirmed);
        assert_eq!(store.expire_due(&key).await.unwrap(), None);
    }
    age(&db, &key("before"), LEASE).await;
    assert_eq!(store.lease_over(&key("before")).await.unwrap(), Some(State::InDoubt));
}
