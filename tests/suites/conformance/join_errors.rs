//! What ends a caller's transaction: said as what it is, so that the caller knows whether to run it again.

use earmark_claim::{Claimed, Error, Joined, State};
use earmark_tests::claims::{
    LEASE, age, begin, begin_at, host, joined, key, never, new_claim, soon, store, won,
};
use earmark_tests::{Backend, TestDb};
use sea_orm::{ConnectionTrait, IsolationLevel};

#[tokio::test(flavor = "multi_thread")]
async fn postgres_ends_a_transaction_with_an_older_snapshot_and_that_is_said() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    let (host, store) = (host(&db).await, store(&db).await);
    for (id, level) in [("rr", IsolationLevel::RepeatableRead), ("s", IsolationLevel::Serializable)] {
        let tx = begin_at(&host, Some(level)).await;
        tx.execute_unprepared("SELECT 1 FROM earmark_meta").await.unwrap();
        drop(won(&store, &key(id), never()).await);
        let answer = store.claim_in(&tx, &key(id), new_claim(never())).await;
        assert!(matches!(answer, Err(Error::RetryTransaction(_))), "{answer:?}");
        tx.rollback().await.unwrap();
        // Again, as the error says.
        let tx = begin_at(&host, Some(level)).await;
        let answer = store.claim_in(&tx, &key(id), new_claim(never())).await.unwrap();
        assert!(matches!(answer, Joined::Lost(Claimed::InFlight { .. })), "{answer:?}");
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_a_transaction_that_read_first_and_the_error_says_how_to_begin() {
    let db = TestDb::new(Backend::Sqlite).await;
    db.execute("CREATE TABLE shop_order (id INTEGER PRIMARY KEY)").await.unwrap();
    let (host, store) = (host(&db).await, store(&db).await);
    let tx = sea_orm::TransactionTrait::begin(&host).await.unwrap();
    let read = sea_orm::Statement::from_string(host.get_database_backend(), "SELECT * FROM shop_order");
    tx.query_all_raw(read).await.unwrap();
    drop(won(&store, &key("other"), never()).await);
    let answer = soon("the refusal", store.claim_in(&tx, &key("m1"), new_claim(never()))).await;
    let Err(error @ Error::SqliteNotImmediate(_)) = answer else { panic!("{answer:?}") };
    assert!(error.to_string().contains("SqliteTransactionMode::Immediate"), "{error}");
}

/// Two transactions that claim two keys in opposite order: one of them is ended by the server.
async fn deadlock(backend: Backend) {
    if !Backend::all().contains(&backend) {
        return;
    }
    let db = TestDb::new(backend).await;
    let (host, store) = (host(&db).await, store(&db).await);
    let (one, two) = (begin(&host).await, begin(&host).await);
    let _ = joined(&store, &one, &key("a"), never()).await;
    let _ = joined(&store, &two, &key("b"), never()).await;
    let (a, b) = (key("a"), key("b"));
    let (first, second) =
        tokio::join!(soon("the first", store.claim_in(&one, &b, new_claim(never()))), async {
            let answer = soon("the second", store.claim_in(&two, &a, new_claim(never()))).await;
            two.rollback().await.unwrap();
            answer
        },);
    let ended = [&first, &second].iter().filter(|a| matches!(a, Err(Error::RetryTransaction(_)))).count();
    assert_eq!(ended, 1, "{first:?} {second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_said_to_be_one_on_postgres() {
    deadlock(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_said_to_be_one_on_mariadb() {
    deadlock(Backend::MariaDb).await;
}

/// MariaDB 11.6 and later by default, 10.6 and 10.11 on demand: a locking read of what changed since the snapshot is 1020.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_with_snapshot_isolation_ends_a_transaction_and_that_is_said() {
    if !Backend::all().contains(&Backend::MariaDb) {
        return;
    }
    let db = TestDb::new(Backend::MariaDb).await;
    let host = earmark_tests::claims::host_with(&db, "SET SESSION innodb_snapshot_isolation = ON").await;
    let store = store(&db).await;
    let tx = begin_at(&host, Some(IsolationLevel::RepeatableRead)).await;
    let read = sea_orm::Statement::from_string(host.get_database_backend(), "SELECT * FROM earmark_claim");
    tx.query_all_raw(read).await.unwrap();
    drop(won(&store, &key("m1"), never()).await);
    let answer = store.claim_in(&tx, &key("m1"), new_claim(never())).await;
    assert!(matches!(answer, Err(Error::RetryTransaction(_))), "{answer:?}");
    tx.rollback().await.unwrap();
    let own = earmark_tests::claims::store_on(&host).await;
    assert!(matches!(own.claim(&key("m1"), new_claim(never())).await, Ok(Claimed::InFlight { .. })));
    age(&db, &key("m1"), LEASE).await;
    assert_eq!(own.lease_over(&key("m1")).await.unwrap(), Some(State::InDoubt));
}
