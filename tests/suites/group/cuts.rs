//! Connections that are cut at each request and each answer of a batch: what is answered is true, and what nobody knows is said to be that.

use std::time::Duration;

use earmark_claim::{Backoff, ClaimStore, Claimed, Error, Settled, State, StoreOptions};
use earmark_tests::claims::{LEASE, count, history, never, new_claim, receipt, soon, store, view};
use earmark_tests::fault::{Lost, Proxy};
use earmark_tests::{Backend, TestDb, per_backend};

use super::kit::{claim_all, confirm_all, keys, moved, win_all};

/// A batch has one round trip or some three; with new connections, and each row read back by itself, some more.
const STEPS_MAX: u32 = 400;
const ROWS: usize = 12;
/// Each step is cut so often: on a connection that is used for the first time, it is another one than on one that knows the statement.
const ROUNDS: u32 = 4;

per_backend! {
    async fn each_claim_of_a_batch_is_recognised_by_its_token(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return; // it has no connection that could be cut
        }
        let proxy = Proxy::new(&db).await;
        let cut = ClaimStore::connect(proxy.url(), StoreOptions::new(LEASE)).await.unwrap();
        let beside = store(&db).await;
        for lost in [Lost::Request, Lost::Claimed] {
            let mut calm = 0;
            for (pass, round) in (0..=STEPS_MAX).flat_map(|pass| (0..ROUNDS).map(move |round| (pass, round))) {
                assert!(pass < STEPS_MAX, "the operation never ends");
                let keys = keys(&format!("{lost:?}-{pass}-{round}-"), ROWS);
                proxy.arm(lost, pass);
                let answers = soon("the batch", claim_all(&cut, &keys)).await;
                let is_over = !proxy.disarm();
                for (key, answer) in keys.iter().zip(answers) {
                    let row = beside.find(key).await.unwrap();
                    match answer {
                        Ok(Claimed::Won(claim)) => {
                            let row = row.expect("a row").facts;
                            assert_eq!((row.state, row.fence, row.revision), (State::InFlight, 1, 1));
                            let settled = beside.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                            assert!(matches!(settled, Settled::Moved(State::Confirmed)), "the row is not ours");
                        }
                        Ok(other) => panic!("nobody else claims {key}: {other:?}"),
                        Err(Error::Unclear { .. }) => {}
                        Err(error) => {
                            assert!(error.is_transient(), "{error:?}");
                            assert!(row.is_none(), "said not to be written: {error:?}");
                        }
                    }
                }
                calm = if is_over { calm + 1 } else { 0 };
                if calm > ROUNDS {
                    assert!(pass > 0, "nothing went through the proxy");
                    break;
                }
            }
        }
    }

    async fn each_outcome_of_a_batch_is_written_once(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return; // it has no connection that could be cut
        }
        let proxy = Proxy::new(&db).await;
        let cut = ClaimStore::connect(proxy.url(), StoreOptions::new(LEASE)).await.unwrap();
        let beside = store(&db).await;
        for lost in [Lost::Request, Lost::Claimed] {
            let mut calm = 0;
            for (pass, round) in (0..=STEPS_MAX).flat_map(|pass| (0..ROUNDS).map(move |round| (pass, round))) {
                assert!(pass < STEPS_MAX, "the operation never ends");
                let keys = keys(&format!("{lost:?}-{pass}-{round}-"), ROWS);
                let claims = win_all(&beside, &keys).await;
                proxy.arm(lost, pass);
                let settled = soon("the batch", confirm_all(&cut, claims)).await;
                let is_over = !proxy.disarm();
                for (key, settled) in keys.iter().zip(settled) {
                    assert!(moved(&settled), "{key}: {settled:?}");
                    let row = view(&beside, key).await;
                    assert_eq!((row.facts.state, row.facts.revision), (State::Confirmed, 2));
                    assert!(row.answer.is_some());
                    assert!(history(&beside, key).await.is_empty());
                }
                calm = if is_over { calm + 1 } else { 0 };
                if calm > ROUNDS {
                    assert!(pass > 0, "nothing went through the proxy");
                    break;
                }
            }
        }
    }

    /// The answer to a commit is lost, and the database stays away: nobody is told that nothing was written.
    async fn what_nobody_can_read_back_is_unclear_row_by_row(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return;
        }
        let proxy = Proxy::new(&db).await;
        let options = StoreOptions { acquire_timeout: Duration::from_millis(300), ..StoreOptions::new(LEASE) };
        let store = ClaimStore::connect(proxy.url(), options).await.unwrap();
        let beside = earmark_tests::claims::store(&db).await;
        // The statement is prepared, so that its next answer is that to its commit.
        for i in 0..4 {
            drop(win_all(&store, &keys(&format!("warm{i}-"), ROWS)).await);
        }
        let keys = keys("m", ROWS);
        // What each server says of a batch that it has committed; not the answer to a ping.
        let done = if db.backend() == Backend::Postgres { "SELECT 1" } else { "Records: 12" };
        proxy.arm_held_at(done, Lost::Claimed, 0);
        let claiming = {
            let (store, keys) = (store.clone(), keys.clone());
            tokio::spawn(async move { claim_all(&store, &keys).await })
        };
        proxy.reached().await;
        let (down, ()) = (proxy.set_down(true), proxy.release());
        down.await;
        for answer in soon("the batch", claiming).await.unwrap() {
            assert!(matches!(answer, Err(Error::Unclear { .. })), "{answer:?}");
        }
        assert_eq!(count(&db, "earmark_claim").await, 5 * ROWS as i64, "they were committed");
        proxy.set_down(false).await;
        // Delivered again, they are somebody's.
        let again = async {
            loop {
                match store.claim(&keys[0], new_claim(never())).await {
                    Err(error) if error.is_transient() => {}
                    answer => break answer,
                }
            }
        };
        assert!(matches!(soon("the redelivery", again).await, Ok(Claimed::InFlight { .. })));
        for key in &keys {
            assert_eq!(view(&beside, key).await.facts.fence, 1);
        }
    }
}
