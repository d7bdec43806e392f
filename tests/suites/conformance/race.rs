//! Many claim at once: the database picks one winner, and nobody sees an error.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use earmark_claim::policy::Cause;
use earmark_claim::state::Taking;
use earmark_claim::{
    Backoff, Claim, ClaimStore, Claimed, Error, Failure, InFlight, Settled, State, StoreOptions, Taken,
};
use earmark_tests::claims::{
    LEASE, age, begin, count, eventually, host, in_state, joined, key, keyed, never, new_claim, receipt,
    soon, state, store, store_with, view, waits_for_a_lock,
};
use earmark_tests::{Backend, TestDb, per_layout};
use sea_orm::{ConnectionTrait, Statement, TransactionTrait};

/// A crowd that a small machine with a slow disk gets through in seconds: each key costs two commits.
const KEYS: usize = 1000;
const TASKS: usize = 64;
/// How often each key is offered.
const OFFERS: usize = 3;

enum Offer {
    Won(Claim<InFlight>),
    Lost,
}

async fn claim(store: &ClaimStore, id: &str) -> Offer {
    match store.claim(&key(id), new_claim(never())).await {
        Ok(Claimed::Won(claim)) => Offer::Won(claim),
        Ok(Claimed::InFlight { .. }) => Offer::Lost,
        Ok(other) => panic!("{id}: {other:?}"),
        Err(error) => {
            panic!("an error reached the caller of {id}: {}", earmark_claim::failure::chain(&error))
        }
    }
}

/// Offers every key in a random order to tasks that take turns at the stores; answers the winners' claims.
async fn offer(stores: &[ClaimStore], seed: u64) -> Vec<(usize, Claim<InFlight>)> {
    let mut offers: Vec<usize> = (0..KEYS).flat_map(|key| [key; OFFERS]).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut offers);
    let (offers, next) = (Arc::new(offers), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, offers, next) = (stores[task % stores.len()].clone(), offers.clone(), next.clone());
            tokio::spawn(async move {
                let mut won = Vec::new();
                while let Some(i) = offers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Offer::Won(claim) = claim(&store, &format!("m{i}")).await {
                        won.push((*i, claim));
                    }
                }
                won
            })
        })
        .collect();
    let mut won = Vec::new();
    for task in tasks {
        won.extend(task.await.unwrap());
    }
    won
}

async fn each_key_has_one_winner(db: &TestDb, stores: &[ClaimStore]) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let won = offer(stores, seed).await;
    let mut winners = HashMap::new();
    for (i, claim) in won {
        assert!(winners.insert(i, claim).is_none(), "m{i} was won twice");
    }
    assert_eq!(winners.len(), KEYS);
    assert_eq!(count(db, "earmark_claim").await, KEYS as i64);
    // Settled by the other store, since a claim belongs to a database and not to a store.
    let tasks: Vec<_> = winners
        .into_iter()
        .map(|(i, claim)| {
            let store = stores[(i + 1) % stores.len()].clone();
            tokio::spawn(async move { store.settle(claim, Ok(receipt("ch")), Backoff::default()).await })
        })
        .collect();
    for task in tasks {
        let settled = task.await.unwrap().unwrap();
        assert!(matches!(settled, Settled::Moved(State::Confirmed)), "{settled:?}");
    }
    let confirmed = db
        .number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed' AND receipt IS NOT NULL")
        .await;
    assert_eq!((confirmed, count(db, "earmark_event").await), (KEYS as i64, 0));
}

per_layout! {
    async fn of_fifty_at_one_new_key_one_wins_and_the_rest_learn_of_it(db: TestDb) {
        let store = store(&db).await;
        for round in 0..5 {
            let id = format!("m{round}");
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let (store, id) = (store.clone(), id.clone());
                    tokio::spawn(async move { matches!(claim(&store, &id).await, Offer::Won(_)) })
                })
                .collect();
            let mut won = 0;
            for task in tasks {
                won += usize::from(task.await.unwrap());
            }
            assert_eq!(won, 1);
        }
    }

    async fn each_of_many_keys_has_one_winner_in_one_instance(db: TestDb) {
        each_key_has_one_winner(&db, &[store(&db).await]).await;
    }

    async fn each_of_many_keys_has_one_winner_in_two_instances(db: TestDb) {
        each_key_has_one_winner(&db, &[store(&db).await, store(&db).await]).await;
    }

    async fn of_many_sweepers_one_takes_a_claim_over(db: TestDb) {
        let stores = [store(&db).await, store(&db).await];
        for round in 0..10 {
            let key = key(&format!("m{round}"));
            in_state(&db, &stores[0], &key, State::InDoubt, keyed()).await;
            let tasks: Vec<_> = (0..8)
                .map(|i| {
                    let (store, key) = (stores[i % 2].clone(), key.clone());
                    tokio::spawn(async move { store.take_over(&key, Taking::Redrive, None).await.unwrap() })
                })
                .collect();
            let mut taken = 0;
            for task in tasks {
                taken += usize::from(matches!(task.await.unwrap(), Taken::Started { .. }));
            }
            assert_eq!(taken, 1);
            assert_eq!(view(&stores[0], &key).await.facts.fence, 2);
        }
    }

    /// Ten hot keys; some claimers' own transactions roll back, some connections are killed, and the sweep works on the same
    /// range. Deadlocks are the server's business and ours, never the caller's.
    async fn hot_keys_under_rollbacks_and_a_sweep_show_nobody_an_error(db: TestDb) {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let host = host(&db).await;
        let store = store(&db).await;
        let tasks: Vec<_> = (0..50u64)
            .map(|task| {
                let (store, host) = (store.clone(), host.clone());
                tokio::spawn(async move {
                    let mut random = fastrand::Rng::with_seed(seed ^ task);
                    let mut won = Vec::new();
                    for _ in 0..8 {
                        let id = format!("hot{}", random.u32(0..10));
                        if random.f32() < 0.2 {
                            let tx = earmark_tests::claims::begin(&host).await;
                            let joined = store.claim_in(&tx, &key(&id), new_claim(never())).await;
                            assert!(!matches!(&joined, Err(e) if !e.is_transient()), "{joined:?}");
                            tx.rollback().await.unwrap();
                        } else if random.f32() < 0.2 {
                            store.lease_over(&key(&id)).await.unwrap();
                        } else if let Offer::Won(_) = claim(&store, &id).await {
                            won.push(id);
                        }
                    }
                    won
                })
            })
            .collect();
        let mut winners = HashMap::new();
        for task in tasks {
            for id in soon("the crowd", task).await.unwrap() {
                assert!(winners.insert(id.clone(), ()).is_none(), "{id} was won twice");
            }
        }
        assert_eq!(count(&db, "earmark_claim").await, winners.len() as i64);
    }
}

/// Connections of the store die all the time: what it answers is true, and what it cannot know it says so.
async fn killed_connections(backend: Backend) {
    if !Backend::all().contains(&backend) {
        return;
    }
    let db = TestDb::new(backend).await;
    let stores = [store(&db).await, store(&db).await];
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let store = stores[task % 2].clone();
            tokio::spawn(async move {
                let (mut won, mut unclear) = (0, 0);
                for i in 0..40 {
                    let key = key(&format!("m{}", task / 2 * 40 + i));
                    // As a broker would: again, until there is an answer.
                    let answer = loop {
                        match store.claim(&key, new_claim(never())).await {
                            Ok(answer) => break answer,
                            Err(error) if error.is_transient() => unclear += 1,
                            Err(error) => panic!("{}", earmark_claim::failure::chain(&error)),
                        }
                    };
                    match answer {
                        Claimed::Won(claim) => {
                            won += 1;
                            let again = store.settle(claim, Ok(receipt("ch")), Backoff::default()).await;
                            assert!(!matches!(&again, Err(e) if !e.is_transient()), "{again:?}");
                        }
                        Claimed::InFlight { .. } | Claimed::Confirmed(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
                (won, unclear)
            })
        })
        .collect();
    let mut kills = 0;
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        kills += kill_some(&db).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    let (mut won, mut unclear) = (0, 0);
    for task in tasks {
        let (w, u) = soon("the crowd", task).await.unwrap();
        won += w;
        unclear += u;
    }
    println!("{kills} connections killed, {won} won, {unclear} answers that said: not known");
    assert!(kills > 0);
    assert_eq!(count(&db, "earmark_claim").await, 320);
    // A win is lost to its claimer only where it was told that nobody knows.
    assert!(won <= 320 && won + unclear >= 320, "{won} won, {unclear} unclear");
    for i in 0..320 {
        let row = view(&stores[0], &key(&format!("m{i}"))).await;
        assert!(matches!(row.facts.state, State::InFlight | State::Confirmed), "{row:?}");
        assert_eq!(row.facts.fence, 1);
    }
}

/// Kills about a third of this database's other connections; how many.
async fn kill_some(db: &TestDb) -> u64 {
    match db.backend() {
        Backend::Postgres => {
            let sql = "SELECT COUNT(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.3) killed";
            db.number(sql).await as u64
        }
        _ => {
            let sql = "SELECT id FROM information_schema.processlist \
                       WHERE db = DATABASE() AND id <> CONNECTION_ID() AND RAND() < 0.3";
            let statement = Statement::from_string(db.connection().get_database_backend(), sql);
            let mut killed = 0;
            for row in db.connection().query_all_raw(statement).await.unwrap() {
                let id: i64 = row.try_get_by_index(0).unwrap();
                killed += u64::from(db.execute(&format!("KILL {id}")).await.is_ok());
            }
            killed
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_give_no_false_answer_on_postgres() {
    killed_connections(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_give_no_false_answer_on_mariadb() {
    killed_connections(Backend::MariaDb).await;
}

/// Two instances on one file, a read that lasts, a writer of the host's own: nobody sees "busy".
#[tokio::test(flavor = "multi_thread")]
async fn on_one_sqlite_file_nobody_sees_busy() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = earmark_tests::claims::host(&db).await;
    host.execute_unprepared("CREATE TABLE shop_order (id INTEGER PRIMARY KEY)").await.unwrap();
    // Not one retry: a write waits for the lock before it reads, and so never fails for having read.
    let patient = StoreOptions { contention_retries: 0, ..StoreOptions::new(LEASE) };
    let stores = [store_with(&db, patient.clone()).await, store_with(&db, patient).await];
    let long = host.begin().await.unwrap();
    let read = Statement::from_string(host.get_database_backend(), "SELECT COUNT(*) FROM earmark_claim");
    long.query_all_raw(read).await.unwrap();
    let tasks: Vec<_> = (0..40)
        .map(|task| {
            let (store, host) = (stores[task % 2].clone(), host.clone());
            tokio::spawn(async move {
                for i in 0..10 {
                    if task % 8 == 0 {
                        // The host writes too, for a while.
                        let tx = earmark_tests::claims::begin(&host).await;
                        tx.execute_unprepared("INSERT INTO shop_order DEFAULT VALUES").await.unwrap();
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        tx.commit().await.unwrap();
                    }
                    let Offer::Won(claim) = claim(&store, &format!("m{task}-{i}")).await else { panic!() };
                    let done = if i % 2 == 0 { Ok(receipt("ch")) } else { Err(Failure::unknown("timeout")) };
                    let settled = store.settle(claim, done, Backoff::default()).await.unwrap();
                    assert!(matches!(settled, Settled::Moved(_)), "{settled:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    long.rollback().await.unwrap();
    assert_eq!(count(&db, "earmark_claim").await, 400);
}

per_layout! {
    /// A claim waits for a stranger's transaction that has made the same one. However many wait so, the outcomes of calls do not.
    async fn an_outcome_is_recorded_while_claims_wait_for_open_transactions(db: TestDb) {
        // SQLite has one writer at a time, whoever it is.
        if db.backend() == Backend::Sqlite {
            return;
        }
        let store = store(&db).await;
        let host = host(&db).await;
        let Offer::Won(called) = claim(&store, "called").await else { panic!("a new key") };
        let mut open = Vec::new();
        let mut waiting = Vec::new();
        for n in 0..store.options().write_connections {
            let (tx, id) = (begin(&host).await, format!("m{n}"));
            drop(joined(&store, &tx, &key(&id), never()).await);
            open.push(tx);
            let store = store.clone();
            waiting.push(tokio::spawn(async move { claim(&store, &id).await }));
        }
        eventually("a claim waits", async || waits_for_a_lock(&db).await).await;
        let settle = store.settle(called, Ok(receipt("ch_1")), Backoff::default());
        let settled = soon("the outcome", settle).await.unwrap();
        assert!(matches!(settled, Settled::Moved(State::Confirmed)), "{settled:?}");
        assert!(waiting.iter().all(|claim| !claim.is_finished()));
        for tx in open {
            tx.rollback().await.unwrap();
        }
        for claim in waiting {
            assert!(matches!(soon("the claim", claim).await.unwrap(), Offer::Won(_)));
        }
    }
}

per_layout! {
    /// Whoever has a row open in a console must not hold up the store for as long as that lasts.
    async fn a_move_gives_up_on_a_row_that_a_stranger_keeps_locked(db: TestDb) {
        // SQLite's own wait is five seconds, and a lock is always of the whole file.
        if db.backend() == Backend::Sqlite {
            return;
        }
        let options = StoreOptions {
            lock_timeout: Duration::from_millis(50),
            contention_retries: 1,
            ..StoreOptions::new(LEASE)
        };
        let store = store_with(&db, options).await;
        let (host, key) = (host(&db).await, key("m1"));
        in_state(&db, &store, &key, State::InDoubt, never()).await;
        let stranger = begin(&host).await;
        stranger.execute_unprepared("UPDATE earmark_claim SET created_at = created_at").await.unwrap();
        let escalating = store.escalate(&key, Cause::NoRuleDecides, None, None);
        let error = soon("an answer", escalating).await.expect_err("the row is locked");
        assert!(matches!(error, Error::Contention { .. }), "{error:?}");
        assert_eq!(state(&store, &key).await, State::InDoubt);
        stranger.rollback().await.unwrap();
        let _ = store.escalate(&key, Cause::NoRuleDecides, None, None).await.unwrap();
        assert_eq!(state(&store, &key).await, State::Escalated);
    }
}

/// A writer that holds the file for longer than one try lasts.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_outlasts_a_slow_writer_of_the_same_sqlite_file() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = earmark_tests::claims::host(&db).await;
    let store = store(&db).await;
    let slow = earmark_tests::claims::begin(&host).await;
    let claiming = {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, "m1").await })
    };
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!claiming.is_finished());
    // Reads go on meanwhile.
    assert!(store.find(&key("m1")).await.unwrap().is_none());
    slow.commit().await.unwrap();
    assert!(matches!(soon("the claim", claiming).await.unwrap(), Offer::Won(_)));
    age(&db, &key("m1"), LEASE).await;
}
