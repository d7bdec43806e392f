//! Whoever stops waiting harms nobody: not the others of a batch, not those that come later, and not what a provider has answered.

use std::time::Duration;

use earmark_claim::{Backoff, Claimed, State, StoreOptions};
use earmark_tests::claims::{
    LEASE, count, cut_after, eventually, key, never, new_claim, receipt, soon, state, view,
};
use earmark_tests::{TestDb, per_backend};

use super::kit::{Bench, keys, win_all, won};

per_backend! {
    async fn waiters_that_go_away_before_their_batch(db: TestDb) {
        let options = StoreOptions { queue_capacity: 300, ..StoreOptions::new(LEASE) };
        let bench = Bench::new(db, options).await;
        let store = &bench.store;
        let settling = keys("s", 40);
        let claims = win_all(store, &settling).await;
        let stalled = bench.stall().await;
        let occupied = bench.occupy().await;
        let mut outcomes = claims.into_iter();
        for (i, key) in keys("gone", 60).into_iter().enumerate() {
            let claiming = store.claim(&key, new_claim(never()));
            assert!(cut_after(Duration::ZERO, claiming).await.is_none());
            if i % 2 == 0 {
                let settle = store.settle(outcomes.next().unwrap(), Ok(receipt("ch_1")), Backoff::default());
                assert!(cut_after(Duration::ZERO, settle).await.is_none());
            }
        }
        let staying: Vec<_> = keys("stays", 60)
            .into_iter()
            .map(|key| {
                let store = store.clone();
                tokio::spawn(async move { store.claim(&key, new_claim(never())).await })
            })
            .collect();
        stalled.go_on().await;
        for task in occupied.into_iter().chain(staying) {
            drop(won(soon("those who stay", task).await.unwrap()));
        }
        for key in &settling[..30] {
            eventually("the outcome is written", async || state(store, key).await == State::Confirmed).await;
            assert_eq!(view(store, key).await.facts.provider_ref.as_deref(), Some("ch_1"));
        }
        let confirmed = bench.db.number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed'").await;
        assert_eq!(confirmed, 30);
        // Nobody would perform them. (Few were handed over before they were dropped.)
        let gone = bench.db.number("SELECT COUNT(*) FROM earmark_claim WHERE message_id LIKE 'gone%'").await;
        assert!(bench.proxy.is_none() || gone < 60, "{gone}");
        bench.queue_is_free("free").await;
    }

    /// The patience of an outcome ends with whoever waits for it.
    async fn an_outcome_that_nobody_waits_for_is_not_dropped_when_its_time_is_up(db: TestDb) {
        let patience = Duration::from_millis(200);
        let bench = Bench::new(db, StoreOptions { patience, ..StoreOptions::new(LEASE) }).await;
        let store = &bench.store;
        let settling = keys("s", 10);
        let claims = win_all(store, &settling).await;
        let stalled = bench.stall().await;
        let begun = std::time::Instant::now();
        for claim in claims {
            let settle = store.settle(claim, Ok(receipt("ch_1")), Backoff::default());
            assert!(cut_after(Duration::ZERO, settle).await.is_none());
        }
        tokio::time::sleep_until((begun + 3 * patience).into()).await;
        stalled.go_on().await;
        for key in &settling {
            eventually("the outcome is written", async || state(store, key).await == State::Confirmed).await;
        }
    }

    async fn waiters_that_go_away_at_any_moment(db: TestDb) {
        let options = StoreOptions { queue_capacity: 50, ..StoreOptions::new(LEASE) };
        let bench = Bench::new(db, options).await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let tasks: Vec<_> = (0..16u64)
            .map(|task| {
                let store = bench.store.clone();
                tokio::spawn(async move {
                    let mut random = fastrand::Rng::with_seed(seed ^ task);
                    for i in 0..25 {
                        let key = key(&format!("m{task}-{i}"));
                        let patience = Duration::from_micros(random.u64(0..3000));
                        match cut_after(patience, store.claim(&key, new_claim(never()))).await {
                            Some(Ok(Claimed::Won(claim))) => {
                                let patience = Duration::from_micros(random.u64(0..3000));
                                let settle = store.settle(claim, Ok(receipt("ch_1")), Backoff::default());
                                let _ = cut_after(patience, settle).await;
                            }
                            Some(other) => panic!("{other:?}"),
                            // Somebody else comes with the same message.
                            None => match store.claim(&key, new_claim(never())).await.unwrap() {
                                Claimed::Won(_) | Claimed::InFlight { .. } => {}
                                other => panic!("{other:?}"),
                            },
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            soon("the crowd", task).await.unwrap();
        }
        assert_eq!(count(&bench.db, "earmark_claim").await, 400);
        bench.queue_is_free("free").await;
    }
}
