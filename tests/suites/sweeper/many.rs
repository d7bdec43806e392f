//! Many sweepers side by side: no leader, and each claim is taken by one.

use earmark_effects::Earmark;
use earmark_effects::stub::Stub;
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{key, natural, store};
use earmark_tests::old::copy;
use earmark_tests::{TestDb, per_backend};

use crate::kit::{KIND, World, new, past_lease};

per_backend! {
    async fn of_a_thousand_stale_claims_each_is_taken_by_one_of_two_sweepers(db: TestDb) {
        // It does not deduplicate: a second call would be a second effect.
        let stub = Stub::new(KIND, natural());
        let world = World::new(&db, stub.clone()).await;
        world.crash(&key("m-0"), new(natural())).await;
        copies(&db, 1000).await;
        let mut sweepers = Vec::new();
        for name in ["one", "two"] {
            // Each in a process of its own: its own connections.
            let earmark = Earmark::builder(store(&db).await).effect(stub.clone()).build().unwrap();
            let options = SweeperOptions {
                name: name.into(),
                batch_max: 2000,
                share_max: 2000,
                concurrency: 4,
                ..SweeperOptions::default()
            };
            sweepers.push(Sweeper::new(&earmark, options).unwrap());
        }
        // One pass of each, and more for what one left because the other had it locked just then.
        let mut performed = Vec::new();
        while db.number("SELECT COUNT(*) FROM earmark_claim WHERE state <> 'confirmed'").await > 0 {
            let (one, two) = (sweepers[0].clone(), sweepers[1].clone());
            let (one, two) = tokio::join!(
                tokio::spawn(async move { one.run_once().await.unwrap() }),
                tokio::spawn(async move { two.run_once().await.unwrap() }),
            );
            performed.push([one.unwrap().performed, two.unwrap().performed]);
            assert!(performed.len() < 5, "{performed:?}");
        }
        assert!(performed[0].iter().all(|n| *n > 0), "they share the work: {performed:?}");
        assert_eq!(performed.iter().flatten().sum::<u64>(), 1000);
        assert_eq!(stub.calls().len(), 1000);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed' AND fence = 2").await, 1000);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_sweeper WHERE last_success_at IS NOT NULL").await, 2);
    }
}

/// So many stale claims: copies of the one that is there.
pub async fn copies(db: &TestDb, n: u32) {
    copy(db, "m-", n).await;
    let micros = past_lease().as_micros();
    let columns = ["due_at", "created_at", "window_from"].map(|c| format!("{c} = {c} - {micros}")).join(", ");
    db.execute(&format!("UPDATE earmark_claim SET {columns}")).await.unwrap();
}
