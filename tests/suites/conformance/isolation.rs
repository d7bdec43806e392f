//! Settings of the server, the role and the session: whatever they are, the store means the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use earmark_claim::state::{Finding, Taking};
use earmark_claim::{
    About, Backoff, ClaimStore, Claimed, Evidence, Failure, Receipt, Settled, Started, State, StoreOptions,
    Taken,
};
use earmark_tests::claims::{
    LEASE, age, begin, evidence, host, host_with, joined, key, keyed, never, new_claim, receipt, state,
    store, store_on, store_with, view, won,
};
use earmark_tests::{Backend, TestDb, per_layout};
use sea_orm::ConnectionTrait;

/// A claim's whole life, with a duplicate at each turn, and its times by the clock.
async fn a_whole_life(db: &TestDb, store: &ClaimStore) {
    let key = key("life");
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    let minute = Duration::from_secs(60).as_micros() as i64;
    let near = |t: earmark_claim::Timestamp| (t.as_micros() - wall).abs() < minute;
    let claim = won(store, &key, keyed()).await;
    let facts = view(store, &key).await.facts;
    assert!(near(facts.now) && near(facts.created_at) && near(store.now().await.unwrap()), "{facts:?}");
    assert_eq!(facts.due_at.unwrap().since(facts.created_at), LEASE);
    assert!(matches!(store.claim(&key, new_claim(keyed())).await.unwrap(), Claimed::InFlight { .. }));
    let unknown = Err::<Receipt, _>(Failure::unknown("timeout"));
    let settled = store.settle(claim, unknown, Backoff::default()).await.unwrap();
    assert!(matches!(settled, Settled::Moved(State::InDoubt)));
    age(db, &key, LEASE).await;
    assert_eq!(store.due(10, 10, Default::default()).await.unwrap(), std::slice::from_ref(&key));
    let Taken::Started(Started { claim, .. }) = store.take_over(&key, Taking::Redrive, None).await.unwrap()
    else {
        panic!()
    };
    assert!(store.extend(&claim).await.unwrap());
    let settled = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
    assert!(matches!(settled, Settled::Moved(State::Confirmed)));
    assert!(near(view(store, &key).await.closed_at.unwrap()));
    for event in store.history(&key).await.unwrap() {
        assert!(near(event.at), "{event:?}");
    }
    // Two claims at once, and one inside a host's transaction.
    let other = earmark_tests::claims::key("other");
    let (one, two) =
        tokio::join!(store.claim(&other, new_claim(never())), store.claim(&other, new_claim(never())));
    let won = [one.unwrap(), two.unwrap()].iter().filter(|a| matches!(a, Claimed::Won(_))).count();
    assert_eq!(won, 1);
    let host = host(db).await;
    let tx = begin(&host).await;
    let held = joined(store, &tx, &earmark_tests::claims::key("joined"), never()).await;
    tx.commit().await.unwrap();
    assert!(matches!(store.begin(held).await.unwrap(), earmark_claim::Begun::Started(_)));
}

per_layout! {
    async fn the_default_settings(db: TestDb) {
        a_whole_life(&db, &store(&db).await).await;
    }

    async fn a_stricter_default_isolation(db: TestDb) {
        let store = match db.backend() {
            Backend::Postgres => {
                let name = db.url().rsplit('/').next().unwrap().to_owned();
                db.execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
                    .await
                    .unwrap();
                store(&db).await
            }
            Backend::MariaDb => {
                let strict = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";
                store_on(&host_with(&db, strict).await).await
            }
            Backend::Sqlite => return, // it has no other
        };
        a_whole_life(&db, &store).await;
        // Fifty at one key: a serialization error is a duplicate that is seen at the second look.
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.claim(&key("hot"), new_claim(never())).await.unwrap() })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += usize::from(matches!(task.await.unwrap(), Claimed::Won(_)));
        }
        assert_eq!(won, 1);
        // Moves of one claim queue up for its row and need no second try: our own transactions are READ COMMITTED.
        let no_retry = StoreOptions { contention_retries: 0, ..StoreOptions::new(LEASE) };
        let strict = match db.backend() {
            Backend::MariaDb => store,
            _ => store_with(&db, no_retry).await,
        };
        let tasks: Vec<_> = (0..20)
            .map(|i| {
                let (store, about) = (strict.clone(), About::Key(key("hot")));
                let said = Evidence { source: format!("webhook:{i}"), ..evidence(Finding::NotDone) };
                tokio::spawn(async move { store.record_evidence(&about, said).await.unwrap() })
            })
            .collect();
        for task in tasks {
            let _ = task.await.unwrap();
        }
        assert_eq!(strict.history(&key("hot")).await.unwrap().len(), 20);
    }

    async fn a_time_zone_that_is_not_utc(db: TestDb) {
        let store = match db.backend() {
            Backend::Postgres => {
                let name = db.url().rsplit('/').next().unwrap().to_owned();
                db.execute(&format!("ALTER DATABASE {name} SET timezone = 'Pacific/Auckland'")).await.unwrap();
                store(&db).await
            }
            Backend::MariaDb => store_on(&host_with(&db, "SET SESSION time_zone = '+13:00'").await).await,
            Backend::Sqlite => return, // it has none
        };
        a_whole_life(&db, &store).await;
    }
}

/// A role whose tables live in a schema of its own, found through the search path.
#[tokio::test(flavor = "multi_thread")]
async fn tables_in_a_schema_of_the_search_path_on_postgres() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    db.connection()
        .execute_unprepared(
            "CREATE SCHEMA shop; ALTER TABLE earmark_claim SET SCHEMA shop; ALTER TABLE earmark_event SET SCHEMA shop; \
             ALTER TABLE earmark_orphan SET SCHEMA shop; ALTER TABLE earmark_meta SET SCHEMA shop",
        )
        .await
        .unwrap();
    let missing = ClaimStore::connect(db.url(), earmark_claim::StoreOptions::new(LEASE)).await;
    assert!(missing.is_err(), "found without the search path");
    let host = host_with(&db, "SET search_path = shop, public").await;
    let by_hook = store_on(&host).await;
    drop(won(&by_hook, &key("m1"), never()).await);
    let name = db.url().rsplit('/').next().unwrap().to_owned();
    db.execute(&format!("ALTER DATABASE {name} SET search_path = shop, public")).await.unwrap();
    let by_default = store(&db).await;
    assert_eq!(state(&by_default, &key("m1")).await, State::InFlight);
    let host = earmark_tests::claims::host(&db).await;
    assert_eq!(state(&store_on(&host).await, &key("m1")).await, State::InFlight);
}
