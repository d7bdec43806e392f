//! A queue that is full: callers wait with their deadline, then get a named error, and no call is made.

use std::time::Duration;

use earmark_claim::{Claimed, Error, StoreOptions};
use earmark_effects::Earmark;
use earmark_effects::stub::Stub;
use earmark_tests::claims::{LEASE, count, eventually, key, keyed, never, new_claim, soon};
use earmark_tests::{TestDb, per_backend};

use super::kit::{Bench, claim_all, confirm_all, keys, moved, win_all};

fn small() -> StoreOptions {
    StoreOptions { queue_capacity: 4, patience: Duration::from_millis(300), ..StoreOptions::new(LEASE) }
}

per_backend! {
    async fn behind_a_database_that_stands_still_callers_are_told_so_in_time(db: TestDb) {
        let bench = Bench::new(db, small()).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = Earmark::builder(bench.store.clone()).effect(stub.clone()).build().unwrap();
        // What it reads now and then, it has read.
        assert!(earmark.run::<Stub>(&key("before"), &serde_json::json!({})).await.unwrap().is_confirmed());
        let stalled = bench.stall().await;
        let tasks: Vec<_> = keys("m", 40)
            .into_iter()
            .map(|key| {
                let store = bench.store.clone();
                tokio::spawn(async move { store.claim(&key, new_claim(never())).await })
            })
            .collect();
        // Two batches are under way at most, of so many rows as the queue holds.
        eventually("all but those are answered", async || {
            tasks.iter().filter(|task| task.is_finished()).count() >= 40 - 2 * 4
        })
        .await;
        let mut refused = 0;
        while refused < 4 {
            let (message, request) = (key(&format!("run{refused}")), serde_json::json!({}));
            match soon("an answer", earmark.run::<Stub>(&message, &request)).await {
                Err(earmark_effects::Error::Store(Error::Busy { what: "claim", .. })) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(stub.calls().len(), 1, "no call without a claim");
        stalled.go_on().await;
        let mut won = 0;
        for task in tasks {
            match soon("an answer", task).await.unwrap() {
                Ok(Claimed::Won(_)) => won += 1,
                // On SQLite those under way find out by themselves that somebody else writes.
                Err(Error::Contention { .. }) if bench.proxy.is_none() => {}
                Err(error @ Error::Busy { what: "claim", .. }) => {
                    assert!(error.is_transient());
                    assert!(error.to_string().contains("nothing was written"), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(count(&bench.db, "earmark_claim").await, 1 + won);
        assert!(earmark.run::<Stub>(&key("run0"), &serde_json::json!({})).await.unwrap().is_confirmed());
        for i in 0..3 {
            bench.queue_is_free(&format!("free{i}-")).await;
        }
    }

    async fn more_rows_than_the_queue_holds_enter_in_parts(db: TestDb) {
        let bench = Bench::new(db, small()).await;
        let claims = win_all(&bench.store, &keys("m", 50)).await;
        assert!(confirm_all(&bench.store, claims).await.iter().all(moved));
        bench.queue_is_free("free").await;
    }

    async fn of_a_call_that_enters_in_part_each_row_gets_an_answer(db: TestDb) {
        let bench = Bench::new(db, small()).await;
        let keys = keys("m", 30);
        let stalled = bench.stall().await;
        let occupied = bench.occupy().await;
        let claiming = {
            let (store, keys) = (bench.store.clone(), keys.clone());
            tokio::spawn(async move { claim_all(&store, &keys).await })
        };
        // Nothing of it is handed over, on a server: the part that entered waits in the queue as long as everybody, the rest outside.
        let answers = if bench.proxy.is_some() {
            let answers = soon("the call", claiming).await.unwrap();
            assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Busy { .. }))), "{answers:?}");
            stalled.go_on().await;
            answers
        } else {
            stalled.go_on().await;
            soon("the call", claiming).await.unwrap()
        };
        let mut won = 0;
        for answer in answers {
            match answer {
                Ok(Claimed::Won(_)) => won += 1,
                Err(Error::Busy { what: "claim", .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        for task in occupied {
            match soon("an answer", task).await.unwrap() {
                Ok(Claimed::Won(_)) => won += 1,
                // SQLite alone tells of its own accord that somebody else writes.
                Err(error) => assert!(bench.proxy.is_none() && error.is_transient(), "{error:?}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(count(&bench.db, "earmark_claim").await, won);
        bench.queue_is_free("free").await;
    }
}
