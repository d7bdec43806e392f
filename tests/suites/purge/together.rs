//! Beside others: two purges, a locked row, claims being made, and a purge that is cut off.

use std::time::Duration;

use earmark_claim::{ClaimStore, Claimed, PurgeRules, State, StoreOptions, Timestamp};
use earmark_tests::claims::{
    LEASE, begin, count, eventually, host, in_state, key, never, new_claim, receipt, store, view, won,
};
use earmark_tests::fault::{Lost, Proxy};
use earmark_tests::old::{DAY, after_a_day, age_closed, copy};
use earmark_tests::{Backend, TestDb, per_backend, per_layout};
use sea_orm::ConnectionTrait;

/// So many finished claims, old enough to be purged, each with an event.
async fn old(db: &TestDb, store: &ClaimStore, n: u32) {
    in_state(db, store, &key("m-0"), State::Confirmed, never()).await;
    copy(db, "m-", n).await;
    let micros = (DAY * 2).as_micros();
    db.execute(&format!("UPDATE earmark_claim SET closed_at = closed_at - {micros}")).await.unwrap();
    let event = "INSERT INTO earmark_event (tenant, consumer, message_id, seq, at, fence, revision, name, from_state, to_state, detail) \
                 SELECT tenant, consumer, message_id, 1, created_at, 1, 1, 'look', state, state, '{}' FROM earmark_claim";
    assert_eq!(db.execute(event).await.unwrap(), u64::from(n));
}

async fn tombstones(db: &TestDb) -> i64 {
    db.number("SELECT COUNT(*) FROM earmark_claim WHERE purged_at IS NOT NULL").await
}

/// Batch after batch, to the end; how many claims each took.
async fn to_the_end(store: &ClaimStore, rules: &PurgeRules, most: u32) -> Vec<u64> {
    let (mut from, mut took) = (Some(Timestamp::default()), Vec::new());
    while let Some(at) = from {
        let batch = store.purge_batch(rules, at, most).await.unwrap();
        assert!(batch.claims <= u64::from(most) && batch.events == batch.claims, "{batch:?}");
        took.push(batch.claims);
        from = batch.next;
    }
    took
}

per_layout! {
    async fn two_purges_share_the_work_and_take_nothing_twice(db: TestDb) {
        let (one, two) = (store(&db).await, store(&db).await);
        old(&db, &one, 400).await;
        let rules = after_a_day();
        let (first, second) = tokio::join!(to_the_end(&one, &rules, 20), to_the_end(&two, &rules, 20));
        // One may have passed over what the other had locked, and come to the end before it.
        let rest = to_the_end(&one, &rules, 20).await;
        assert_eq!([first, second, rest].concat().iter().sum::<u64>(), 400);
        assert_eq!((tombstones(&db).await, count(&db, "earmark_event").await), (400, 0));
    }

    async fn a_claim_that_somebody_holds_is_passed_over_and_taken_the_next_time(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            // It locks no rows: whoever writes is alone.
            return;
        }
        let store = store(&db).await;
        old(&db, &store, 30).await;
        let host = host(&db).await;
        let holder = begin(&host).await;
        holder.execute_unprepared("UPDATE earmark_claim SET revision = revision + 1 WHERE message_id = 'm-7'").await.unwrap();
        assert_eq!(to_the_end(&store, &after_a_day(), 10).await.iter().sum::<u64>(), 29);
        assert_eq!(view(&store, &key("m-7")).await.purged_at, None);
        holder.commit().await.unwrap();
        assert_eq!(to_the_end(&store, &after_a_day(), 10).await, [1]);
        assert_eq!(view(&store, &key("m-7")).await.facts.revision, 3, "what its holder wrote is there");
    }

    async fn claims_are_made_and_settled_while_a_purge_runs(db: TestDb) {
        let (purging, claiming) = (store(&db).await, store(&db).await);
        old(&db, &purging, 300).await;
        let work = async {
            for i in 0..60 {
                let claim = won(&claiming, &key(&format!("new-{i}")), never()).await;
                let _ = claiming.settle(claim, Ok(receipt("ch_1")), Default::default()).await.unwrap();
                let duplicate = claiming.claim(&key(&format!("m-{i}")), new_claim(never())).await.unwrap();
                assert!(matches!(duplicate, Claimed::Confirmed(_)), "{duplicate:?}");
            }
        };
        let rules = after_a_day();
        let (took, ()) = tokio::join!(to_the_end(&purging, &rules, 10), work);
        assert_eq!(took.iter().sum::<u64>(), 300);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE purged_at IS NULL AND request IS NOT NULL").await, 60);
    }

    async fn a_purge_that_was_killed_is_taken_up_where_it_stopped(db: TestDb) {
        let first = store(&db).await;
        old(&db, &first, 50).await;
        assert_eq!(first.purge_batch(&after_a_day(), Timestamp::default(), 20).await.unwrap().claims, 20);
        drop(first);
        let second = store(&db).await;
        assert_eq!(to_the_end(&second, &after_a_day(), 100).await, [30]);
        assert_eq!((tombstones(&db).await, count(&db, "earmark_event").await), (50, 0));
    }
}

per_backend! {
    async fn a_batch_that_is_cut_between_history_and_rows_takes_neither(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            // No wire to cut.
            return;
        }
        let beside = store(&db).await;
        old(&db, &beside, 20).await;
        let proxy = Proxy::new(&db).await;
        let store = ClaimStore::connect(proxy.url(), StoreOptions::new(LEASE)).await.unwrap();
        proxy.arm_held_at("purged_at = ", Lost::Request, 0);
        let purging = tokio::spawn(async move { store.purge_batch(&after_a_day(), Timestamp::default(), 100).await });
        proxy.reached().await;
        // Its events are deleted in a transaction that nobody sees, and that will not be committed.
        assert_eq!((tombstones(&db).await, count(&db, "earmark_event").await), (0, 20));
        proxy.release();
        // Its connection is cut and the transaction with it. The batch is made again on another one; it passes the rows over while
        // the server has not noticed yet, and the next one takes them.
        let mut batch = purging.await.unwrap().unwrap();
        let taken = async || {
            if batch.claims == 0 {
                batch = beside.purge_batch(&after_a_day(), Timestamp::default(), 100).await.unwrap();
            }
            batch.claims > 0
        };
        eventually("the rows are free", taken).await;
        assert_eq!((batch.claims, batch.events), (20, 20));
        assert_eq!((tombstones(&db).await, count(&db, "earmark_event").await), (20, 0));
    }

    async fn a_purge_waits_for_nobody_and_nobody_for_its_rows(db: TestDb) {
        let store = store(&db).await;
        old(&db, &store, 3).await;
        // Evidence at a row that is being purged waits for the batch, and is kept at the tombstone.
        let about = earmark_claim::About::Key(key("m-1"));
        let rules = after_a_day();
        let (batch, recorded) = tokio::join!(
            store.purge_batch(&rules, Timestamp::default(), 100),
            store.record_evidence(&about, earmark_tests::claims::done("ch_2")),
        );
        assert!(batch.unwrap().claims >= 2, "all but the one that evidence held or reopened");
        assert!(matches!(recorded.unwrap(), earmark_claim::Recorded::At { state: State::Escalated, .. }));
        assert!(store.history(&key("m-1")).await.unwrap().iter().any(|e| e.name == "contradict"));
        age_closed(&db, &key("m-1"), Duration::from_secs(1)).await;
    }
}
