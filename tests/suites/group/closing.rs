//! Closing the store while much is queued: everybody is answered, and what was said to be written is.

use earmark_claim::{Backoff, Claimed, Error, Settled, State};
use earmark_tests::claims::{count, never, new_claim, receipt, soon, store, view};
use earmark_tests::{TestDb, per_backend};

use super::kit::{claim_all, keys, win_all};

per_backend! {
    async fn everybody_is_answered_and_what_is_said_to_be_written_is(db: TestDb) {
        let store = store(&db).await;
        let settling = keys("s", 300);
        let claims = win_all(&store, &settling).await;
        let outcomes: Vec<_> = claims
            .into_iter()
            .map(|claim| {
                let store = store.clone();
                tokio::spawn(async move { store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await })
            })
            .collect();
        let claiming: Vec<_> = keys("m", 1500)
            .into_iter()
            .flat_map(|key| [key.clone(), key])
            .map(|key| {
                let store = store.clone();
                tokio::spawn(async move { store.claim(&key, new_claim(never())).await })
            })
            .collect();
        // Some of them have come by then.
        tokio::task::yield_now().await;
        soon("the end", store.close()).await;
        let (mut won, mut lost, mut closed) = (0, 0, 0);
        for task in claiming {
            match soon("an answer", task).await.unwrap() {
                Ok(Claimed::Won(_)) => won += 1,
                Ok(Claimed::InFlight { .. }) => lost += 1,
                Err(Error::Closed) => closed += 1,
                other => panic!("{other:?}"),
            }
        }
        println!("{won} won, {lost} lost, {closed} came too late");
        let again = earmark_tests::claims::store(&db).await;
        for (key, outcome) in settling.iter().zip(outcomes) {
            match soon("an answer", outcome).await.unwrap() {
                Ok(Settled::Moved(State::Confirmed)) => {
                    assert_eq!(view(&again, key).await.facts.state, State::Confirmed);
                }
                Err(Error::Closed) => assert_eq!(view(&again, key).await.facts.state, State::InFlight),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(count(&db, "earmark_claim").await, 300 + won);
    }

    /// Losers are answered by a read after their batch, and rows of a failed batch by tries of their own: closing waits for both.
    async fn whoever_was_queued_before_gets_a_true_answer(db: TestDb) {
        let store = store(&db).await;
        db.execute("CREATE UNIQUE INDEX shop_ref ON earmark_claim (business_ref)").await.unwrap();
        let old = keys("old", 100);
        drop(win_all(&store, &old).await);
        let broken = keys("m", 40).into_iter().map(|key| {
            let business_ref = (key.message_id() > "m0037").then(|| "order-1".into());
            (key, earmark_claim::NewClaim { business_ref, ..new_claim(never()) })
        });
        // Each is queued when it is first asked for its answer, and that is before the closing.
        let (lost, mixed, ()) = soon("the end", async {
            tokio::join!(claim_all(&store, &old), store.claim_many(broken), store.close())
        })
        .await;
        assert!(lost.iter().all(|answer| matches!(answer, Ok(Claimed::InFlight { .. }))), "{lost:?}");
        let mixed = mixed.unwrap();
        let won = mixed.iter().filter(|answer| matches!(answer, Ok(Claimed::Won(_)))).count();
        let refused = mixed.iter().filter(|answer| matches!(answer, Err(Error::Rejected { .. }))).count();
        assert_eq!((won, refused), (39, 1), "{mixed:?}");
        assert!(matches!(store.claim(&old[0], new_claim(never())).await, Err(Error::Closed)));
    }
}
