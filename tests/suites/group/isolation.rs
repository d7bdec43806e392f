//! Stricter defaults of the server, and two processes that offer the same keys in batches: one winner each, and nobody sees an error.

use std::collections::HashMap;

use earmark_claim::{ClaimStore, Claimed};
use earmark_tests::claims::{LEASE, count, host_with, never, new_claim, soon, store, store_on, store_with};
use earmark_tests::{Backend, TestDb, per_layout};

use super::kit::{confirm_all, keys, moved};

const KEYS: usize = 300;
const CALLS: usize = 12;

/// Each key is offered by each of two stores, in calls of many, in orders of their own.
async fn raced(db: &TestDb, stores: [ClaimStore; 2]) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let calls: Vec<_> = (0..CALLS)
        .map(|call| {
            let store = stores[call % 2].clone();
            let mut keys: Vec<_> = keys("m", KEYS).into_iter().skip(call / 2 * 25).take(150).collect();
            fastrand::Rng::with_seed(seed ^ call as u64).shuffle(&mut keys);
            tokio::spawn(async move {
                let claims: Vec<_> = keys.iter().map(|key| (key.clone(), new_claim(never()))).collect();
                let mut won = Vec::new();
                for (key, answer) in keys.into_iter().zip(store.claim_many(claims).await.unwrap()) {
                    match answer {
                        Ok(Claimed::Won(claim)) => won.push((key, claim)),
                        Ok(Claimed::InFlight { .. } | Claimed::Confirmed(_)) => {}
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => {
                            panic!("an error reached the caller: {}", earmark_claim::failure::chain(&error))
                        }
                    }
                }
                // Outcomes go on between the others' claims.
                let (keys, claims): (Vec<_>, Vec<_>) = won.into_iter().unzip();
                let settled = confirm_all(&store, claims).await;
                assert!(settled.iter().all(moved), "{settled:?}");
                keys
            })
        })
        .collect();
    let mut winners = HashMap::new();
    for call in calls {
        for key in soon("the crowd", call).await.unwrap() {
            assert!(winners.insert(key.clone(), ()).is_none(), "{key} was won twice");
        }
    }
    let claimed = count(db, "earmark_claim").await;
    assert_eq!((winners.len() as i64, claimed), (claimed, 275));
    assert_eq!(count(db, "earmark_event").await, 0);
}

per_layout! {
    async fn two_processes_that_offer_the_same_keys_in_batches(db: TestDb) {
        raced(&db, [store(&db).await, store(&db).await]).await;
    }

    async fn the_same_where_the_servers_default_is_stricter(db: TestDb) {
        let options = || earmark_claim::StoreOptions::new(LEASE);
        let stores = match db.backend() {
            Backend::Postgres => {
                let name = db.url().rsplit('/').next().unwrap().to_owned();
                db.execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")).await.unwrap();
                [store_with(&db, options()).await, store_with(&db, options()).await]
            }
            Backend::MariaDb => {
                let strict = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";
                [store_on(&host_with(&db, strict).await).await, store_on(&host_with(&db, strict).await).await]
            }
            Backend::Sqlite => return, // it has no other
        };
        raced(&db, stores).await;
    }

    async fn the_same_at_repeatable_read(db: TestDb) {
        let stores = match db.backend() {
            Backend::Postgres => {
                let name = db.url().rsplit('/').next().unwrap().to_owned();
                db.execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")).await.unwrap();
                [store(&db).await, store(&db).await]
            }
            // MariaDB's own default.
            Backend::MariaDb | Backend::Sqlite => return,
        };
        raced(&db, stores).await;
    }
}

/// A host's own start-up options stay, beside those of the batches' connections.
#[tokio::test(flavor = "multi_thread")]
async fn start_up_options_of_the_host_stay_on_postgres() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    db.execute("CREATE SCHEMA shop").await.unwrap();
    for table in ["claim", "event", "orphan", "meta", "sweeper"] {
        let _ = db.execute(&format!("ALTER TABLE earmark_{table} SET SCHEMA shop")).await;
    }
    let mut url = url::Url::parse(db.url()).unwrap();
    url.query_pairs_mut().append_pair("options", "-c search_path=shop,public -c lock_timeout=7min");
    let store = ClaimStore::connect(url.as_str(), earmark_claim::StoreOptions::new(LEASE)).await.unwrap();
    let claims = super::kit::win_all(&store, &keys("m", 20)).await;
    assert!(confirm_all(&store, claims).await.iter().all(moved));
    assert_eq!(db.number("SELECT COUNT(*) FROM shop.earmark_claim").await, 20);
}
