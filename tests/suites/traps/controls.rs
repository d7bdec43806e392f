//! What the driver and the ORM answer where nothing, or somebody else's row, is committed.

use std::time::Duration;

use earmark_claim::{Backoff, Claimed, Error, Failure, Receipt, State};
use earmark_tests::claims::{
    count, host, in_state, key, never, new_claim, receipt, soon, state, store, store_on, view, won,
};
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ConnectOptions, Database, Set, TransactionTrait, TryInsertResult};

/// A marker table as a service would write it by hand.
mod marker {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "marker")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i64,
        pub message: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

const MARKER: &str = "CREATE TABLE marker (id BIGINT PRIMARY KEY, message BIGINT NOT NULL UNIQUE)";

fn row(id: i64) -> marker::ActiveModel {
    marker::ActiveModel { id: Set(id), message: Set(1) }
}

fn on_duplicate() -> OnConflict {
    OnConflict::column(marker::Column::Message).do_nothing().to_owned()
}

/// A duplicate at the store, whatever its state: never won.
async fn a_duplicate_is_not_won(db: &TestDb) {
    let store = store(db).await;
    drop(won(&store, &key("m1"), never()).await);
    let answer = store.claim(&key("m1"), new_claim(never())).await.unwrap();
    assert!(matches!(answer, Claimed::InFlight { .. }), "{answer:?}");
    in_state(db, &store, &key("m2"), State::Confirmed, never()).await;
    let answer = store.claim(&key("m2"), new_claim(never())).await.unwrap();
    assert!(matches!(answer, Claimed::Confirmed(_)), "{answer:?}");
    assert_eq!(count(db, "earmark_claim").await, 2);
}

per_backend! {
    async fn on_conflict_do_nothing_says_inserted_on_mysql(db: TestDb) {
        db.execute(MARKER).await.unwrap();
        let insert = async |id| {
            marker::Entity::insert(row(id))
                .on_conflict_do_nothing_on([marker::Column::Message])
                .exec(db.connection())
                .await
                .unwrap()
        };
        assert!(matches!(insert(1).await, TryInsertResult::Inserted(_)));
        let duplicate = insert(2).await;
        let wins_twice = matches!(duplicate, TryInsertResult::Inserted(_));
        assert_eq!(wins_twice, db.backend() == Backend::MariaDb, "the control has changed: {duplicate:?}");
        assert_eq!(count(&db, "marker").await, 1);
        a_duplicate_is_not_won(&db).await;
    }

    async fn exec_without_returning_never_says_conflicted(db: TestDb) {
        db.execute(MARKER).await.unwrap();
        for id in [1, 2] {
            let answer = marker::Entity::insert(row(id))
                .on_conflict(on_duplicate())
                .try_insert()
                .exec_without_returning(db.connection())
                .await;
            match (db.backend(), answer) {
                // sea-query's text for this is not MySQL's.
                (Backend::MariaDb, Err(_)) => {}
                (_, Ok(answer)) => assert!(matches!(answer, TryInsertResult::Inserted(_)), "{answer:?}"),
                (_, Err(error)) => panic!("the control has changed: {error}"),
            }
        }
        a_duplicate_is_not_won(&db).await;
    }

    async fn exec_with_returning_calls_a_duplicate_a_missing_record(db: TestDb) {
        db.execute(MARKER).await.unwrap();
        let insert = async |id| {
            marker::Entity::insert(row(id))
                .on_conflict_do_nothing_on([marker::Column::Message])
                .exec_with_returning(db.connection())
                .await
        };
        insert(1).await.unwrap();
        let duplicate = insert(2).await;
        assert!(!matches!(duplicate, Ok(TryInsertResult::Conflicted)), "the control has changed: {duplicate:?}");
        a_duplicate_is_not_won(&db).await;
    }

    /// Dropping the future of an operation at every point: what it had handed over is done whole or not at all.
    async fn a_dropped_claim_is_made_whole_or_not_at_all(db: TestDb) {
        let store = store(&db).await;
        let mut wins = Vec::new();
        // From before the first poll to after the answer, by steps that the fastest database needs.
        for step in 0..150u64 {
            let key = key(&format!("m{step}"));
            let dropped = tokio::time::timeout(Duration::from_micros(step * 20), store.claim(&key, new_claim(never()))).await;
            let at_once = store.claim(&key, new_claim(never())).await.unwrap();
            let won = usize::from(matches!(dropped, Ok(Ok(Claimed::Won(_))))) + usize::from(matches!(at_once, Claimed::Won(_)));
            assert!(won <= 1, "{key} was won twice");
            assert!(matches!(at_once, Claimed::Won(_) | Claimed::InFlight { .. }), "{key}: {at_once:?}");
            wins.push((key, won));
        }
        store.close().await;
        let after = earmark_tests::claims::store(&db).await;
        assert_eq!(count(&db, "earmark_claim").await, 150);
        for (key, _) in &wins {
            let row = view(&after, key).await.facts;
            assert_eq!((row.state, row.fence, row.attempts), (State::InFlight, 1, 1), "{key}");
            assert!(matches!(after.claim(key, new_claim(never())).await.unwrap(), Claimed::InFlight { .. }));
        }
        assert!(wins.iter().any(|(_, won)| *won == 0), "no claim was dropped after it had been handed over");
    }

    async fn a_dropped_settle_is_made_whole_or_not_at_all(db: TestDb) {
        let store = store(&db).await;
        for step in 0..60u64 {
            let key = key(&format!("m{step}"));
            let claim = won(&store, &key, never()).await;
            let settle = store.settle(claim, Ok(receipt("ch_1")), Backoff::default());
            let _ = tokio::time::timeout(Duration::from_micros(step * 50), settle).await;
        }
        for step in 0..60u64 {
            let key = key(&format!("u{step}"));
            let claim = won(&store, &key, never()).await;
            let settle = store.settle(claim, Err::<Receipt, _>(Failure::unknown("x")), Backoff::default());
            let _ = tokio::time::timeout(Duration::from_micros(step * 50), settle).await;
        }
        store.close().await;
        let after = earmark_tests::claims::store(&db).await;
        for step in 0..60u64 {
            let done = view(&after, &key(&format!("m{step}"))).await;
            match done.facts.state {
                State::Confirmed => assert!(done.answer.is_some()),
                State::InFlight => assert!(done.answer.is_none()),
                other => panic!("{other}"),
            }
            let unknown = key(&format!("u{step}"));
            let events = after.history(&unknown).await.unwrap().len();
            match state(&after, &unknown).await {
                State::InDoubt => assert_eq!(events, 1),
                State::InFlight => assert_eq!(events, 0),
                other => panic!("{other}"),
            }
        }
    }
}

/// A host's pool of one connection, spoiled by a cancelled `begin`: its next statement is answered and not committed.
async fn spoiled(db: &TestDb) -> Option<(DatabaseConnection, i64)> {
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(1).sqlx_logging(false).test_before_acquire(false);
    let watcher = host(db).await;
    for step in 0..400i64 {
        let host = Database::connect(options.clone()).await.unwrap();
        host.execute_unprepared("SELECT 1").await.unwrap();
        let cut = Duration::from_nanos(500 * step as u64);
        if tokio::time::timeout(cut, async { host.begin().await.map(drop) }).await.is_ok() {
            continue;
        }
        let inserted = host.execute_unprepared(&format!("INSERT INTO marker VALUES ({step}, {step})")).await;
        let committed = watcher
            .query_one_raw(sea_orm::Statement::from_string(
                watcher.get_database_backend(),
                format!("SELECT id FROM marker WHERE id = {step}"),
            ))
            .await
            .unwrap();
        if inserted.is_ok() && committed.is_none() {
            return Some((host, step));
        }
    }
    None
}

async fn a_cancelled_begin(backend: Backend) {
    if !Backend::all().contains(&backend) {
        return;
    }
    let db = TestDb::new(backend).await;
    db.execute(MARKER).await.unwrap();
    // The control: an insert that was acknowledged, and is nowhere.
    let (host, _) =
        spoiled(&db).await.expect("the control has changed: no cancelled begin spoils the pool any more");
    let store = store_on(&host).await;
    for i in 0..20 {
        let claim = won(&store, &key(&format!("m{i}")), never()).await;
        // Seen by everybody, not only by the connection that wrote it.
        assert_eq!(count(&db, "earmark_claim").await, i + 1);
        drop(claim);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_begin_spoils_a_pool_and_not_the_store_on_postgres() {
    a_cancelled_begin(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_begin_spoils_a_pool_and_not_the_store_on_mariadb() {
    a_cancelled_begin(Backend::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_acknowledges_the_commit_of_an_aborted_transaction() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    db.execute(MARKER).await.unwrap();
    let host = host(&db).await;
    let tx = host.begin().await.unwrap();
    tx.execute_unprepared("INSERT INTO marker VALUES (1, 1)").await.unwrap();
    assert!(tx.execute_unprepared("INSERT INTO marker VALUES (1, 1)").await.is_err());
    assert!(tx.commit().await.is_ok(), "the control has changed");
    assert_eq!(count(&db, "marker").await, 0);
    // The store: a statement of its transaction fails after the row was moved.
    let store = store(&db).await;
    let claim = won(&store, &key("m1"), never()).await;
    db.connection()
        .execute_unprepared(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no events today'; END $$; \
             CREATE TRIGGER no_events BEFORE INSERT ON earmark_event FOR EACH ROW EXECUTE FUNCTION fail()",
        )
        .await
        .unwrap();
    let settled =
        store.settle(claim, Err::<Receipt, _>(Failure::unknown("timeout")), Backoff::default()).await;
    assert!(matches!(settled, Err(Error::Rejected { .. })), "{settled:?}");
    assert_eq!(state(&store, &key("m1")).await, State::InFlight);
    // A claim joined to a transaction that was aborted later, and whose commit was acknowledged.
    let tx = earmark_tests::claims::begin(&host).await;
    let held = earmark_tests::claims::joined(&store, &tx, &key("m2"), never()).await;
    assert!(tx.execute_unprepared("INSERT INTO marker VALUES ('x')").await.is_err());
    tx.commit().await.unwrap();
    let begun = soon("begin", store.begin(held)).await.unwrap();
    assert!(matches!(begun, earmark_claim::Begun::NotCommitted(_)), "{begun:?}");
}
