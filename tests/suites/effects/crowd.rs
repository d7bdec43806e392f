//! A crowd: many keys, every one offered several times, by many tasks of two instances.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Outcome};
use earmark_tests::claims::{key, never, store};
use earmark_tests::{TestDb, per_backend};
use serde_json::json;
use tokio::task::JoinSet;

const KEYS: usize = 10_000;
const OFFERS: usize = 3;
const TASKS: usize = 64;

per_backend! {
    async fn ten_thousand_keys_offered_three_times_by_sixty_four_tasks_are_called_once_each(db: TestDb) {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut offers: Vec<usize> = (0..KEYS).flat_map(|key| [key; OFFERS]).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut offers);
        let (offers, next) = (Arc::new(offers), Arc::new(AtomicUsize::new(0)));
        // A provider that deduplicates nothing.
        let stub = Stub::new("mail.welcome", never());
        let mut instances = Vec::new();
        for _ in 0..2 {
            instances.push(Earmark::builder(store(&db).await).effect(stub.clone()).build().unwrap());
        }
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (earmark, offers, next) = (instances[task % 2].clone(), offers.clone(), next.clone());
            tasks.spawn(async move {
                while let Some(i) = offers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = earmark.run::<Stub>(&key(&format!("m{i}")), &json!({ "n": i })).await;
                    let outcome = outcome.unwrap_or_else(|e| {
                        panic!("an error reached the caller of m{i}: {}", earmark_claim::failure::chain(&e))
                    });
                    assert!(
                        matches!(outcome, Outcome::Confirmed(_) | Outcome::InFlight { .. }),
                        "m{i}: {outcome:?}"
                    );
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let called = stub.calls();
        assert_eq!(called.len(), KEYS, "one call each");
        assert_eq!(called.iter().collect::<HashSet<_>>().len(), KEYS);
        let confirmed = "SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed'";
        assert_eq!(db.number(confirmed).await, KEYS as i64);
    }
}
