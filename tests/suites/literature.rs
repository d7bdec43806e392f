//! What the literature on idempotent consumers says, tried: each control shows the fault, and the store does without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earmark_claim::{Backoff, Begun, Claimed, Joined, NewClaim, Settled, State};
use earmark_tests::claims::{
    begin, count, eventually, host, joined, key, never, new_claim, receipt, soon, state, store,
    waits_for_a_lock,
};
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, Statement, TransactionTrait};
use tokio::sync::Barrier;

/// Markers of messages that were handled, with an index that forbids nothing.
const PLAIN: &str =
    "CREATE TABLE marker (message INTEGER NOT NULL); CREATE INDEX marker_message ON marker (message)";
const SHOP: &str = "CREATE TABLE shop_order (id INTEGER PRIMARY KEY, state INTEGER NOT NULL)";

async fn is_marked(db: &DatabaseConnection, message: u32) -> bool {
    let sql = format!("SELECT 1 FROM marker WHERE message = {message}");
    let statement = Statement::from_string(db.get_database_backend(), sql);
    !db.query_all_raw(statement).await.unwrap().is_empty()
}

/// An external system that counts what was done to it.
#[derive(Clone, Default)]
struct Outside(Arc<AtomicUsize>);

impl Outside {
    fn act(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The error is that transaction's, for good: trying again in it is trying in vain.
async fn retry_in_the_same_unit(tx: &DatabaseTransaction) -> bool {
    let violates = "INSERT INTO shop_order VALUES (1, 0)";
    assert!(tx.execute_unprepared(violates).await.is_err());
    tx.execute_unprepared("INSERT INTO shop_order VALUES (2, 0)").await.is_ok()
}

per_backend! {
    async fn check_then_insert_acts_twice_and_the_constraint_once(db: TestDb) {
        db.connection().execute_unprepared(PLAIN).await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        let (checked, outside) = (Arc::new(Barrier::new(2)), Outside::default());
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (host, checked, outside) = (host.clone(), checked.clone(), outside.clone());
                tokio::spawn(async move {
                    let seen = is_marked(&host, 1).await;
                    // Both have looked; neither has written.
                    checked.wait().await;
                    if !seen {
                        host.execute_unprepared("INSERT INTO marker VALUES (1)").await.unwrap();
                        outside.act();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(outside.times(), 2, "the control has changed");

        let outside = Outside::default();
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (store, checked, outside) = (store.clone(), checked.clone(), outside.clone());
                tokio::spawn(async move {
                    let seen = store.find(&key("m1")).await.unwrap().is_some();
                    checked.wait().await;
                    assert!(!seen);
                    if let Claimed::Won(claim) = store.claim(&key("m1"), new_claim(never())).await.unwrap() {
                        claim.permit().last_look().unwrap_or_else(|_| panic!("too late"));
                        outside.act();
                        let settled = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(outside.times(), 1);
    }

    async fn marker_and_business_change_are_one_commit(db: TestDb) {
        db.connection().execute_unprepared(SHOP).await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        for (i, commits) in [false, true].into_iter().enumerate() {
            let tx = begin(&host).await;
            tx.execute_unprepared("INSERT INTO shop_order VALUES (1, 0)").await.unwrap();
            let held = joined(&store, &tx, &key("m1"), never()).await;
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            let rows = (count(&db, "shop_order").await, count(&db, "earmark_claim").await);
            assert_eq!(rows, (i as i64, i as i64));
            assert_eq!(matches!(store.begin(held).await.unwrap(), Begun::Started(_)), commits);
        }
    }

    /// The handler of a redelivered message changes rows on a connection of its own before it asks for the marker.
    async fn a_change_outside_the_transaction_sticks_although_the_marker_was_refused(db: TestDb) {
        db.connection().execute_unprepared(SHOP).await.unwrap();
        db.execute("INSERT INTO shop_order VALUES (1, 0)").await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        let book = "UPDATE shop_order SET state = state + 1";
        db.connection().execute_unprepared("CREATE TABLE marker (message INTEGER PRIMARY KEY)").await.unwrap();
        for delivery in 0..2 {
            db.execute(book).await.unwrap();
            let marked = host.execute_unprepared("INSERT INTO marker VALUES (1)").await;
            assert_eq!(marked.is_err(), delivery == 1);
        }
        let booked_twice = "SELECT COUNT(*) FROM shop_order WHERE state = 2";
        assert_eq!(db.number(booked_twice).await, 1, "the control has changed");

        db.execute("UPDATE shop_order SET state = 0").await.unwrap();
        for delivery in 0..2 {
            let tx = begin(&host).await;
            tx.execute_unprepared(book).await.unwrap();
            match store.claim_in(&tx, &key("m1"), new_claim(never())).await.unwrap() {
                Joined::Held(_) => tx.commit().await.unwrap(),
                // A value, and not an error: what was done in vain is undone by the caller's own word.
                Joined::Lost(_) => {
                    assert_eq!(delivery, 1);
                    tx.rollback().await.unwrap();
                }
            }
        }
        assert_eq!(db.number("SELECT COUNT(*) FROM shop_order WHERE state = 1").await, 1);
    }

    async fn a_failed_unit_fails_again_and_a_fresh_one_works(db: TestDb) {
        db.connection().execute_unprepared(SHOP).await.unwrap();
        db.execute("INSERT INTO shop_order VALUES (1, 0)").await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        let tx = begin(&host).await;
        let goes_on = retry_in_the_same_unit(&tx).await;
        assert_eq!(goes_on, db.backend() != Backend::Postgres, "the control has changed");
        if !goes_on {
            let refused = store.claim_in(&tx, &key("m1"), new_claim(never())).await;
            assert!(matches!(refused, Err(earmark_claim::Error::InTransaction(_))), "{refused:?}");
        }
        tx.rollback().await.unwrap();
        let tx = begin(&host).await;
        let _ = joined(&store, &tx, &key("m1"), never()).await;
        tx.commit().await.unwrap();
        // A duplicate, unlike a violated constraint, does not fail the unit on any of the databases.
        let tx = begin(&host).await;
        let lost = store.claim_in(&tx, &key("m1"), new_claim(never())).await.unwrap();
        assert!(matches!(lost, Joined::Lost(Claimed::Held { .. })), "{lost:?}");
        tx.execute_unprepared("INSERT INTO shop_order VALUES (3, 0)").await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn of_many_claimers_one_calls(db: TestDb) {
        let (stores, outside) = ([store(&db).await, store(&db).await], Outside::default());
        let tasks: Vec<_> = (0..20)
            .map(|i| {
                let (store, outside) = (stores[i % 2].clone(), outside.clone());
                tokio::spawn(async move {
                    if let Claimed::Won(claim) = store.claim(&key("m1"), new_claim(never())).await.unwrap() {
                        outside.act();
                        let _ = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                    }
                    // Whoever lost gets the same receipt in the end.
                    let patience = earmark_tests::claims::PATIENCE;
                    store.wait(&key("m1"), patience).await.unwrap()
                })
            })
            .collect();
        for task in tasks {
            let Some(Claimed::Confirmed(replayed)) = task.await.unwrap() else { panic!("no receipt") };
            assert_eq!(replayed.decode().unwrap(), serde_json::json!({ "id": "ch_1" }));
        }
        assert_eq!(outside.times(), 1);
    }

    async fn while_the_winner_is_uncommitted_a_second_claim_waits_then_loses_or_wins(db: TestDb) {
        for commits in [true, false] {
            let (host, store) = (host(&db).await, store(&db).await);
            let id = format!("{commits}");
            let tx = host.begin().await.unwrap();
            tx.execute_unprepared("UPDATE earmark_meta SET written_at = written_at").await.unwrap();
            let new = NewClaim { summary: Some("of the transaction".into()), ..new_claim(never()) };
            let Joined::Held(_) = store.claim_in(&tx, &key(&id), new).await.unwrap() else { panic!() };
            let second = {
                let (store, id) = (store.clone(), id.clone());
                tokio::spawn(async move { store.claim(&key(&id), new_claim(never())).await.unwrap() })
            };
            if db.backend() != Backend::Sqlite {
                eventually("the second waits", async || waits_for_a_lock(&db).await).await;
            }
            assert!(!second.is_finished());
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            let answer = soon("the second", second).await.unwrap();
            match (commits, &answer) {
                (true, Claimed::Held { .. }) => assert_eq!(state(&store, &key(&id)).await, State::Held),
                (false, Claimed::Won(_)) => assert_eq!(state(&store, &key(&id)).await, State::InFlight),
                _ => panic!("{commits}: {answer:?}"),
            }
        }
    }
}
