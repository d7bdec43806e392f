//! Keys that a stranger's open transaction holds: they wait by themselves, and nobody with them. (Not on SQLite, where a writer holds the
//! whole file: there everybody waits for it.)

use std::time::{Duration, Instant};

use earmark_claim::policy::Cause;
use earmark_claim::{
    Backoff, Claim, ClaimKey, ClaimStore, Claimed, Error, Failure, InFlight, Receipt, Settled, State,
    StoreOptions,
};
use earmark_tests::claims::{
    LEASE, begin, eventually, host, in_state, joined, key, never, new_claim, receipt, soon, state, store,
    store_with, view,
};
use earmark_tests::{Backend, TestDb, per_layout};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use tokio::task::JoinHandle;

use super::kit::{Bench, confirm_all, keys, moved, win_all, won};

type Claiming = JoinHandle<Result<Claimed, Error>>;

fn claiming(store: &ClaimStore, key: &ClaimKey) -> Claiming {
    let (store, key) = (store.clone(), key.clone());
    tokio::spawn(async move { store.claim(&key, new_claim(never())).await })
}

fn all_claiming(store: &ClaimStore, keys: &[ClaimKey]) -> Vec<Claiming> {
    keys.iter().map(|key| claiming(store, key)).collect()
}

async fn all_won(tasks: Vec<Claiming>) -> Vec<Claim<InFlight>> {
    let mut claims = Vec::new();
    for task in tasks {
        claims.push(won(soon("a neighbour", task).await.unwrap()));
    }
    claims
}

/// A stranger's transaction that holds these keys, and claims of them that are waited for.
async fn held(db: &TestDb, store: &ClaimStore, keys: &[ClaimKey]) -> DatabaseTransaction {
    let tx = begin(&host(db).await).await;
    for key in keys {
        drop(joined(store, &tx, key, never()).await);
    }
    tx
}

/// Sending may start until the lease of the row, as the database has it, leaves a call its time; not longer.
async fn has_no_longer_than_its_row(store: &ClaimStore, claim: &Claim<InFlight>, lease: Duration) {
    let row = view(store, claim.key()).await;
    let left = (lease - never().call_timeout).saturating_sub(row.facts.now.since(row.facts.created_at));
    tokio::time::sleep(left).await;
    assert!(claim.permit().last_look().is_err(), "{left:?} after {:?}", row.facts.created_at);
}

per_layout! {
    async fn a_thousand_neighbours_are_answered_meanwhile(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let store = store(&db).await;
        for (round, commits) in [true, false].into_iter().enumerate() {
            let blocked = key(&format!("blocked{round}"));
            let tx = held(&db, &store, std::slice::from_ref(&blocked)).await;
            let (some, more) = (keys(&format!("a{round}-"), 500), keys(&format!("b{round}-"), 500));
            let mut tasks = all_claiming(&store, &some);
            let waiting = claiming(&store, &blocked);
            tasks.extend(all_claiming(&store, &more));
            let claims = all_won(tasks).await;
            assert!(soon("outcomes", confirm_all(&store, claims)).await.iter().all(moved));
            assert!(!waiting.is_finished());
            // It is known by now: another one goes straight where it waits.
            let second = claiming(&store, &blocked);
            drop(win_all(&store, &keys(&format!("c{round}-"), 50)).await);
            assert!(!second.is_finished());
            let answers = if commits {
                tx.commit().await.unwrap();
                [waiting, second]
            } else {
                tx.rollback().await.unwrap();
                [waiting, second]
            };
            let mut wins = 0;
            for answer in answers {
                match soon("the blocked one", answer).await.unwrap().unwrap() {
                    Claimed::Held { .. } => assert!(commits),
                    Claimed::Won(_) => wins += 1,
                    Claimed::InFlight { .. } => assert!(!commits),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(wins, usize::from(!commits));
        }
    }

    async fn one_that_is_held_beyond_the_deadline_is_told_so_and_nothing_is_written(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let patience = Duration::from_millis(400);
        let store = store_with(&db, StoreOptions { patience, ..StoreOptions::new(LEASE) }).await;
        let blocked = keys("blocked", 5);
        let tx = held(&db, &store, &blocked).await;
        // Each twice, so that some find the key known to be held.
        let tasks: Vec<_> = (0..2).flat_map(|_| all_claiming(&store, &blocked)).collect();
        for task in tasks {
            match soon("an answer", task).await.unwrap() {
                Err(Error::Contention { what: "claim", .. } | Error::Busy { what: "claim", .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        tx.rollback().await.unwrap();
        for key in &blocked {
            assert!(store.find(key).await.unwrap().is_none());
        }
        drop(win_all(&store, &blocked).await);
    }

    async fn many_held_keys_starve_neither_neighbours_nor_outcomes_nor_sweeps(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let store = store(&db).await;
        let called = win_all(&store, &keys("called", 50)).await;
        in_state(&db, &store, &key("swept"), State::InDoubt, never()).await;
        let blocked = keys("blocked", 40);
        let tx = held(&db, &store, &blocked).await;
        // In every batch some of them.
        let (mut waiting, mut tasks) = (Vec::new(), Vec::new());
        for (i, neighbours) in keys("m", 400).chunks(10).enumerate() {
            waiting.push(claiming(&store, &blocked[i]));
            tasks.extend(all_claiming(&store, neighbours));
        }
        let settled = soon("outcomes", confirm_all(&store, called)).await;
        assert!(settled.iter().all(moved), "{settled:?}");
        let _ = soon("a move", store.escalate(&key("swept"), Cause::NoRuleDecides, None, None)).await.unwrap();
        drop(all_won(tasks).await);
        drop(soon("later ones", win_all(&store, &keys("later", 100))).await);
        tx.rollback().await.unwrap();
        for task in waiting {
            match soon("a blocked one", task).await.unwrap() {
                // Those that waited their time before the neighbours were through.
                Ok(Claimed::Won(_)) | Err(Error::Contention { .. } | Error::Busy { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn a_flood_of_one_held_key_leaves_the_others_alone(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let store = store(&db).await;
        let (blocked, other) = (key("blocked"), key("other"));
        let tx = held(&db, &store, &[blocked.clone(), other.clone()]).await;
        let mut waiting = vec![claiming(&store, &blocked)];
        drop(soon("neighbours", win_all(&store, &keys("a", 20))).await);
        waiting.extend((0..500).map(|_| claiming(&store, &blocked)));
        waiting.push(claiming(&store, &other));
        for i in 0..5 {
            drop(soon("neighbours", win_all(&store, &keys(&format!("b{i}-"), 50))).await);
        }
        tx.rollback().await.unwrap();
        let (mut won, mut late) = (0, 0);
        for task in waiting {
            match soon("an answer", task).await.unwrap() {
                Ok(Claimed::Won(_)) => won += 1,
                Ok(Claimed::InFlight { .. }) => {}
                Err(Error::Contention { .. } | Error::Busy { .. }) => late += 1,
                other => panic!("{other:?}"),
            }
        }
        println!("{late} waited in vain");
        assert_eq!(won, 2);
    }

    async fn no_more_wait_for_held_keys_than_may_be_queued(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let options = StoreOptions { queue_capacity: 5, patience: LEASE, ..StoreOptions::new(LEASE) };
        let store = store_with(&db, options).await;
        let blocked = key("blocked");
        let tx = held(&db, &store, std::slice::from_ref(&blocked)).await;
        let first = claiming(&store, &blocked);
        drop(soon("a neighbour", win_all(&store, &keys("a", 1))).await);
        let waiting: Vec<_> = (0..40).map(|_| claiming(&store, &blocked)).collect();
        eventually("the rest is refused", async || {
            waiting.iter().filter(|task| task.is_finished()).count() >= 28
        })
        .await;
        drop(soon("neighbours", win_all(&store, &keys("b", 20))).await);
        tx.rollback().await.unwrap();
        let (mut won, mut refused) = (0, 0);
        for task in waiting.into_iter().chain([first]) {
            match soon("an answer", task).await.unwrap() {
                Ok(Claimed::Won(_)) => won += 1,
                Ok(Claimed::InFlight { .. }) => {}
                Err(Error::Busy { what: "claim", .. }) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(won, 1);
        assert!(refused >= 28, "{refused}");
    }

    /// Rows that somebody has locked in a console, and outcomes for them.
    async fn outcomes_of_locked_rows_hold_up_nobody_else(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let store = store(&db).await;
        let locked = keys("locked", 6);
        let claims = win_all(&store, &locked).await;
        let tx = begin(&host(&db).await).await;
        tx.execute_unprepared("UPDATE earmark_claim SET created_at = created_at").await.unwrap();
        let mut settling = Vec::new();
        for claim in claims {
            let store = store.clone();
            settling.push(tokio::spawn(async move { store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await }));
            // One after the other, so that each is a batch of its own.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        for round in 0..4 {
            let claims = all_won(all_claiming(&store, &keys(&format!("m{round}-"), 100))).await;
            assert!(soon("outcomes", confirm_all(&store, claims)).await.iter().all(moved));
            let swept = key(&format!("swept{round}"));
            let claim = won(soon("a claim", store.claim(&swept, new_claim(never()))).await);
            let unknown = Err::<Receipt, _>(Failure::unknown("timeout"));
            let _ = soon("a settle", store.settle(claim, unknown, Backoff::default())).await.unwrap();
            let _ = soon("a move", store.escalate(&swept, Cause::NoRuleDecides, None, None)).await.unwrap();
        }
        assert!(settling.iter().all(|task| !task.is_finished()));
        tx.rollback().await.unwrap();
        for (key, task) in locked.iter().zip(settling) {
            let settled = soon("the outcome", task).await.unwrap();
            assert!(matches!(settled, Ok(Settled::Moved(State::Confirmed))), "{settled:?}");
            assert_eq!(state(&store, key).await, State::Confirmed);
        }
    }

    async fn the_time_to_send_is_not_longer_for_one_that_was_held_up(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let lease = never().call_timeout + Duration::from_millis(1500);
        let options = StoreOptions { margin: Duration::from_millis(10), ..StoreOptions::new(lease) };
        let store = store_with(&db, options).await;
        let blocked = keys("blocked", 3);
        let tx = held(&db, &store, &blocked).await;
        let begun = Instant::now();
        let waiting = all_claiming(&store, &blocked);
        tokio::time::sleep_until((begun + Duration::from_secs(2)).into()).await;
        tx.rollback().await.unwrap();
        for claim in all_won(waiting).await {
            has_no_longer_than_its_row(&store, &claim, lease).await;
        }
    }
}

earmark_tests::per_backend! {
    async fn the_time_to_send_is_not_longer_for_one_that_was_queued(db: TestDb) {
        let lease = never().call_timeout + Duration::from_millis(2500);
        let options = StoreOptions { margin: Duration::from_millis(10), ..StoreOptions::new(lease) };
        let bench = Bench::new(db, options).await;
        let stalled = bench.stall().await;
        let begun = Instant::now();
        let waiting = all_claiming(&bench.store, &keys("m", 30));
        tokio::time::sleep_until((begun + Duration::from_millis(500)).into()).await;
        stalled.go_on().await;
        for claim in all_won(waiting).await {
            has_no_longer_than_its_row(&bench.store, &claim, lease).await;
        }
    }
}
