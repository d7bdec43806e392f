//! What is old enough, and what no age makes old enough.

use std::time::Duration;

use earmark_claim::{ClaimStore, PurgeRules, Retention, State, Timestamp, Tombstones};
use earmark_tests::claims::{count, in_state, key, keyed, natural, never, store, view};
use earmark_tests::old::{DAY, after_a_day, age_closed, copy};
use earmark_tests::{TestDb, per_layout};

/// Tombstones after a day, and gone after two.
fn rules() -> PurgeRules {
    let tombstones = Tombstones { age: DAY * 2, redelivery: Retention::of(DAY) };
    PurgeRules::new(DAY, Some(tombstones), []).unwrap()
}

async fn purged(store: &ClaimStore) -> u64 {
    store.purge_batch(&after_a_day(), Timestamp::default(), 1000).await.unwrap().claims
}

async fn deleted(store: &ClaimStore) -> u64 {
    store.delete_tombstones(&rules(), Timestamp::default(), 1000).await.unwrap().claims
}

async fn set(db: &TestDb, id: &str, what: &str) {
    assert_eq!(
        db.execute(&format!("UPDATE earmark_claim SET {what} WHERE message_id = '{id}'")).await.unwrap(),
        1
    );
}

per_layout! {
    async fn nothing_open_is_ever_purged_however_old(db: TestDb) {
        let store = store(&db).await;
        for state in State::ALL {
            in_state(&db, &store, &key(state.as_str()), state, never()).await;
            age_closed(&db, &key(state.as_str()), DAY * 5000).await;
        }
        let (rows, requests) = (count(&db, "earmark_claim").await, "SELECT COUNT(*) FROM earmark_claim WHERE request IS NOT NULL");
        assert_eq!(purged(&store).await, 2);
        assert_eq!(db.number(requests).await, rows - 2);
        assert_eq!(deleted(&store).await, 2);
        for state in State::ALL {
            let found = store.find(&key(state.as_str())).await.unwrap();
            assert_eq!(found.map(|view| (view.facts.state, view.purged_at)), (!state.is_terminal()).then_some((state, None)));
        }
    }

    async fn a_claim_goes_at_its_age_and_not_before(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m1"), State::Confirmed, never()).await;
        let minute = Duration::from_secs(60);
        age_closed(&db, &key("m1"), DAY - minute).await;
        assert_eq!(purged(&store).await, 0);
        age_closed(&db, &key("m1"), minute).await;
        assert_eq!(purged(&store).await, 1);
        assert_eq!(purged(&store).await, 0, "once is enough");
        let tombstone = view(&store, &key("m1")).await;
        assert!(tombstone.purged_at.unwrap() > tombstone.closed_at.unwrap());

        age_closed(&db, &key("m1"), DAY - minute).await;
        assert_eq!(deleted(&store).await, 0);
        age_closed(&db, &key("m1"), minute).await;
        assert_eq!(deleted(&store).await, 1);
    }

    async fn a_claim_that_never_was_a_tombstone_is_not_deleted(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m1"), State::Confirmed, never()).await;
        age_closed(&db, &key("m1"), DAY * 5000).await;
        assert_eq!(deleted(&store).await, 0);
        let keeps = PurgeRules::new(DAY, None, []).unwrap();
        assert_eq!(purged(&store).await, 1);
        let none = store.delete_tombstones(&keeps, Timestamp::default(), 1000).await.unwrap();
        assert_eq!((none.claims, none.next), (0, None), "tombstones are kept for ever unless somebody says an age");
    }

    async fn what_is_confirmed_perhaps_twice_is_kept_with_its_evidence(db: TestDb) {
        let store = store(&db).await;
        let cases = [
            // id, declared, newest attempt's end after the first one's start in days, kept
            ("never", never(), 0.1, true),
            ("natural", natural(), 9.0, false),
            ("in its window", keyed(), 0.9, false),
            ("after its window", keyed(), 1.1, true),
            ("no start of its window", keyed(), 0.0, true),
        ];
        for (id, declared, days, _) in &cases {
            in_state(&db, &store, &key(id), State::Confirmed, declared.clone()).await;
            let doubt = if db.backend() == earmark_tests::Backend::Postgres { "true" } else { "1" };
            let end = (days * 86_400e6) as i64;
            set(&db, id, &format!("doubt = {doubt}, attempts = 2, last_end_at = window_from + {end}")).await;
            age_closed(&db, &key(id), DAY * 30).await;
        }
        set(&db, "no start of its window", "window_from = NULL").await;
        let kept = cases.iter().filter(|case| case.3).count() as u64;
        assert_eq!(store.purge_plan(&rules()).await.unwrap().kept, kept);
        assert_eq!(purged(&store).await, cases.len() as u64 - kept);
        for (id, .., kept) in cases {
            assert_eq!(view(&store, &key(id)).await.purged_at.is_none(), kept, "{id}");
            assert_eq!(store.request(&key(id)).await.unwrap().is_some(), kept, "{id}");
        }
        // One attempt, or no doubt, is nothing to ask about.
        set(&db, "never", "attempts = 1").await;
        assert_eq!(purged(&store).await, 1);
    }

    async fn a_tombstone_outlives_the_key_window_that_its_claim_declared(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m1"), State::Confirmed, keyed()).await;
        set(&db, "m1", &format!("key_window = {}", (DAY * 10).as_micros())).await;
        age_closed(&db, &key("m1"), DAY * 9).await;
        assert_eq!((purged(&store).await, deleted(&store).await), (1, 0));
        age_closed(&db, &key("m1"), DAY).await;
        assert_eq!(deleted(&store).await, 1);
        // A window of centuries overflows nothing.
        in_state(&db, &store, &key("m2"), State::Confirmed, keyed()).await;
        set(&db, "m2", &format!("key_window = {}", i64::MAX)).await;
        age_closed(&db, &key("m2"), DAY * 9).await;
        assert_eq!((purged(&store).await, deleted(&store).await), (1, 0));
    }

    async fn a_batch_takes_the_oldest_and_no_more_than_it_may(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m-0"), State::Confirmed, never()).await;
        copy(&db, "m-", 25).await;
        in_state(&db, &store, &key("older"), State::Confirmed, never()).await;
        for id in ["m-", "older"] {
            let micros = (DAY * if id == "older" { 3 } else { 2 }).as_micros();
            db.execute(&format!("UPDATE earmark_claim SET closed_at = closed_at - {micros} WHERE message_id LIKE '{id}%'")).await.unwrap();
        }
        let mut from = Some(Timestamp::default());
        let mut batches = Vec::new();
        while let Some(at) = from {
            let batch = store.purge_batch(&rules(), at, 10).await.unwrap();
            if batches.is_empty() {
                assert!(view(&store, &key("older")).await.purged_at.is_some(), "the oldest goes first");
            }
            batches.push(batch.claims);
            from = batch.next;
            let tombstones = db.number("SELECT COUNT(*) FROM earmark_claim WHERE purged_at IS NOT NULL").await;
            assert_eq!(tombstones, batches.iter().sum::<u64>() as i64, "each batch is committed");
        }
        assert_eq!(batches, [10, 10, 6]);
    }
}
