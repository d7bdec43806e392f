//! A claim inside the caller's own transaction: committed together with the business change, or not at all.

use std::time::Duration;

use earmark_claim::state::{ClosedBy, Taking};
use earmark_claim::{Backoff, StoreOptions};
use earmark_claim::{Begun, Claimed, Error, Joined, NewClaim, Settled, Started, State, Taken, When};
use earmark_tests::claims::{
    LEASE, age, begin, begin_at, count, history, host, in_state, joined, key, never, new_claim, receipt,
    soon, state, store, store_with, view, won,
};
use earmark_tests::{Backend, TestDb, per_backend, per_layout};
use sea_orm::{ConnectionTrait, DatabaseTransaction, IsolationLevel};

const BUSINESS: &str = "CREATE TABLE shop_order (id INTEGER PRIMARY KEY)";

async fn order(tx: &DatabaseTransaction, id: u32) {
    tx.execute_unprepared(&format!("INSERT INTO shop_order VALUES ({id})")).await.expect("a business row");
}

fn other_request() -> NewClaim {
    NewClaim::new("mail.welcome", "mailer", "another request", never())
}

per_backend! {
    // A unique index of the host's own over other columns than the key: a partitioned table cannot have one.
    async fn another_constraints_violation_reaches_the_caller_unchanged(db: TestDb) {
        db.execute(BUSINESS).await.unwrap();
        db.execute("CREATE UNIQUE INDEX shop_ref ON earmark_claim (business_ref)").await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        let of_order = || NewClaim { business_ref: Some("order-1".into()), ..new_claim(never()) };
        let tx = begin(&host).await;
        assert!(matches!(store.claim_in(&tx, &key("m1"), of_order()).await.unwrap(), Joined::Held(_)));
        tx.commit().await.unwrap();
        let tx = begin(&host).await;
        let refused = store.claim_in(&tx, &key("m2"), of_order()).await;
        let Err(Error::InTransaction(source)) = refused else { panic!("{refused:?}") };
        assert!(matches!(source.sql_err(), Some(sea_orm::SqlErr::UniqueConstraintViolation(_))), "{source:?}");
        tx.rollback().await.unwrap();
        assert_eq!(count(&db, "earmark_claim").await, 1);
        // The claim's own key is asked first: a redelivery is a duplicate, whatever else it would violate.
        let tx = begin(&host).await;
        let lost = store.claim_in(&tx, &key("m1"), of_order()).await.unwrap();
        assert!(matches!(lost, Joined::Lost(Claimed::Held { .. })), "{lost:?}");
        tx.commit().await.unwrap();
    }
}

per_layout! {
    async fn business_change_and_claim_are_committed_together_or_not_at_all(db: TestDb) {
        db.execute(BUSINESS).await.unwrap();
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        order(&tx, 1).await;
        let held = joined(&store, &tx, &key, never()).await;
        tx.rollback().await.unwrap();
        assert_eq!((count(&db, "shop_order").await, count(&db, "earmark_claim").await), (0, 0));
        let Begun::NotCommitted(_) = store.begin(held).await.unwrap() else { panic!("begun after a rollback") };

        let tx = begin(&host).await;
        order(&tx, 1).await;
        let held = joined(&store, &tx, &key, never()).await;
        tx.commit().await.unwrap();
        assert_eq!((count(&db, "shop_order").await, count(&db, "earmark_claim").await), (1, 1));
        let Begun::Started(Started { claim, .. }) = store.begin(held).await.unwrap() else { panic!("not begun") };
        assert_eq!(claim.permit().fence(), 1);
        let settled = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
        assert_eq!(history(&store, &key).await, ["begin"]);
    }

    async fn a_duplicate_leaves_the_callers_transaction_as_it_was(db: TestDb) {
        db.execute(BUSINESS).await.unwrap();
        let (host, store) = (host(&db).await, store(&db).await);
        for (i, was) in State::ALL.into_iter().enumerate() {
            let key = key(&format!("{was}"));
            in_state(&db, &store, &key, was, never()).await;
            let tx = begin(&host).await;
            let answer = store.claim_in(&tx, &key, new_claim(never())).await.unwrap();
            let Joined::Lost(answer) = answer else { panic!("{was} was joined") };
            let fits = match was {
                State::Held => matches!(answer, Claimed::Held { .. }),
                State::InFlight => matches!(answer, Claimed::InFlight { .. }),
                State::Retryable => matches!(answer, Claimed::Retryable { .. }),
                State::InDoubt => matches!(answer, Claimed::InDoubt { .. }),
                State::Escalated => matches!(answer, Claimed::Escalated),
                State::Confirmed => matches!(answer, Claimed::Confirmed(_)),
                State::Abandoned => matches!(answer, Claimed::Abandoned { by: ClosedBy::Refused, .. }),
            };
            assert!(fits, "{was}: {answer:?}");
            order(&tx, i as u32).await;
            tx.commit().await.unwrap();
            assert_eq!(count(&db, "shop_order").await, i as i64 + 1);
        }
    }

    async fn a_duplicate_of_a_claim_of_the_same_transaction_is_a_value_too(db: TestDb) {
        db.execute(BUSINESS).await.unwrap();
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        let held = joined(&store, &tx, &key, never()).await;
        let again = store.claim_in(&tx, &key, new_claim(never())).await.unwrap();
        assert!(matches!(again, Joined::Lost(Claimed::Held { .. })), "{again:?}");
        let mismatch = store.claim_in(&tx, &key, other_request()).await.unwrap();
        assert!(matches!(mismatch, Joined::Lost(Claimed::Mismatch)), "{mismatch:?}");
        order(&tx, 1).await;
        tx.commit().await.unwrap();
        assert!(matches!(store.begin(held).await.unwrap(), Begun::Started(_)));
        assert_eq!(history(&store, &key).await, ["mismatch", "begin"]);
    }

    async fn a_mismatch_inside_the_callers_transaction_is_kept_and_waits_for_nobody(db: TestDb) {
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        for _ in 0..2 {
            let tx = begin(&host).await;
            let lost = soon("the mismatch", store.claim_in(&tx, &key, other_request())).await.unwrap();
            assert!(matches!(lost, Joined::Lost(Claimed::Mismatch)), "{lost:?}");
            soon("the commit", tx.commit()).await.unwrap();
        }
        assert_eq!(history(&store, &key).await, ["mismatch"]);
    }

    /// MySQL's default: the transaction's snapshot may be older than the claim that it loses to.
    async fn a_mismatch_is_kept_although_the_snapshot_is_older_than_the_claim(db: TestDb) {
        db.execute(BUSINESS).await.unwrap();
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        if db.backend() != Backend::MariaDb {
            return; // PostgreSQL ends such a transaction (see below); SQLite's is alone
        }
        let tx = begin_at(&host, Some(IsolationLevel::RepeatableRead)).await;
        tx.query_all_raw(sea_orm::Statement::from_string(host.get_database_backend(), "SELECT * FROM shop_order"))
            .await
            .unwrap();
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        let lost = store.claim_in(&tx, &key, other_request()).await.unwrap();
        assert!(matches!(lost, Joined::Lost(Claimed::Mismatch)), "{lost:?}");
        order(&tx, 1).await;
        tx.commit().await.unwrap();
        assert_eq!(history(&store, &key).await, ["mismatch"]);
    }

    async fn begin_answers_at_once_while_the_transaction_is_open(db: TestDb) {
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        let held = joined(&store, &tx, &key, never()).await;
        let Begun::NotCommitted(held) = soon("begin", store.begin(held)).await.unwrap() else {
            panic!("begun before the commit")
        };
        tx.commit().await.unwrap();
        assert!(matches!(store.begin(held).await.unwrap(), Begun::Started(_)));
    }

    async fn a_claim_that_was_rolled_back_never_begins_another_transactions_claim(db: TestDb) {
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        let rolled_back = joined(&store, &tx, &key, never()).await;
        tx.rollback().await.unwrap();
        let tx = begin(&host).await;
        let committed = joined(&store, &tx, &key, never()).await;
        tx.commit().await.unwrap();
        let Begun::NotCommitted(rolled_back) = store.begin(rolled_back).await.unwrap() else { panic!() };
        assert!(matches!(store.begin(committed).await.unwrap(), Begun::Started(_)));
        assert!(matches!(store.begin(rolled_back).await.unwrap(), Begun::Gone(Claimed::InFlight { .. })));
    }

    async fn of_the_maker_and_sweepers_exactly_one_starts(db: TestDb) {
        let (host, store) = (host(&db).await, store(&db).await);
        for i in 0..20 {
            let key = key(&format!("m{i}"));
            let tx = begin(&host).await;
            let held = joined(&store, &tx, &key, never()).await;
            tx.commit().await.unwrap();
            let sweepers: Vec<_> = (0..3)
                .map(|_| {
                    let (store, key) = (store.clone(), key.clone());
                    tokio::spawn(async move { store.take_over(&key, Taking::Begin, None).await.unwrap() })
                })
                .collect();
            let mut started = usize::from(matches!(store.begin(held).await.unwrap(), Begun::Started(_)));
            for sweeper in sweepers {
                started += usize::from(matches!(sweeper.await.unwrap(), Taken::Started { .. }));
            }
            assert_eq!(started, 1, "{key}");
            assert_eq!(view(&store, &key).await.facts.fence, 1);
        }
    }

    async fn a_joined_claims_times_are_those_of_its_statement(db: TestDb) {
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        tx.execute_unprepared("SELECT 1 FROM earmark_meta").await.unwrap();
        let before = store.now().await.unwrap();
        let _ = joined(&store, &tx, &key, never()).await;
        tx.commit().await.unwrap();
        let facts = view(&store, &key).await.facts;
        assert!(facts.created_at >= before, "the transaction's start, and not the claim");
        assert_eq!(facts.due_at.unwrap().since(facts.created_at), LEASE);
    }

    async fn a_claim_whose_process_died_after_the_commit_is_due_and_can_be_started(db: TestDb) {
        let (host, first, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        let _ = joined(&first, &tx, &key, never()).await;
        tx.commit().await.unwrap();
        drop((first, host));
        let second = store(&db).await;
        assert!(second.due(10, 10, Default::default()).await.unwrap().is_empty(), "it is left to its maker for the length of a lease");
        age(&db, &key, LEASE).await;
        assert_eq!(second.due(10, 10, Default::default()).await.unwrap(), std::slice::from_ref(&key));
        let Taken::Started(Started { request, claim, .. }) = second.take_over(&key, Taking::Begin, None).await.unwrap() else {
            panic!("not started")
        };
        assert_eq!(request, new_claim(never()).request);
        assert!(claim.permit().last_look().is_ok());
    }

    async fn a_claim_is_not_sent_before_its_time(db: TestDb) {
        let (host, store) = (host(&db).await, store(&db).await);
        let at = store.now().await.unwrap().plus(Duration::from_secs(3600));
        for (id, when) in [("at", When::At(at)), ("in", When::In(Duration::from_secs(3600)))] {
            let key = key(id);
            let new = NewClaim { not_before: Some(when), ..new_claim(never()) };
            let tx = begin(&host).await;
            let Joined::Held(held) = store.claim_in(&tx, &key, new.clone()).await.unwrap() else { panic!() };
            tx.commit().await.unwrap();
            let Begun::NotYet { from } = store.begin(held).await.unwrap() else { panic!("begun too early") };
            assert!(from >= at && from.since(at) < Duration::from_secs(60), "{from} is not {at}");
            assert!(store.due(10, 10, Default::default()).await.unwrap().is_empty());
            assert!(matches!(store.claim(&key, new).await.unwrap(), Claimed::Held { until } if until == from));
            age(&db, &key, Duration::from_secs(3601)).await;
            assert_eq!(store.due(10, 10, Default::default()).await.unwrap(), std::slice::from_ref(&key), "the sweep may start it on time");
            assert!(matches!(store.take_over(&key, Taking::Begin, None).await.unwrap(), Taken::Started { .. }));
        }
    }

    async fn a_claim_is_not_sent_after_its_time(db: TestDb) {
        let (host, store) = (host(&db).await, store(&db).await);
        let minute = Duration::from_secs(60);
        let past = store.now().await.unwrap().minus(minute);
        // Passed before the claim was made.
        let late = NewClaim { send_by: Some(When::At(past)), ..new_claim(never()) };
        let answer = store.claim(&key("passed"), late.clone()).await.unwrap();
        assert!(matches!(answer, Claimed::Abandoned { by: ClosedBy::Expired, .. }), "{answer:?}");
        let tx = begin(&host).await;
        let Joined::Held(held) = store.claim_in(&tx, &key("joined"), late).await.unwrap() else { panic!() };
        tx.commit().await.unwrap();
        let begun = store.begin(held).await.unwrap();
        assert!(matches!(begun, Begun::Gone(Claimed::Abandoned { by: ClosedBy::Expired, .. })), "{begun:?}");
        // Passed afterwards.
        for (id, when) in [("at", When::At(past.plus(minute * 3))), ("in", When::In(minute * 2))] {
            let key = key(id);
            let new = NewClaim { send_by: Some(when), ..new_claim(never()) };
            let Claimed::Won(claim) = store.claim(&key, new).await.unwrap() else { panic!() };
            assert!(claim.permit().last_look().is_ok());
            let not_sent = Err::<earmark_claim::Receipt, _>(earmark_claim::Failure::not_sent("rate_limited"));
            let _ = store.settle(claim, not_sent, Backoff::default()).await.unwrap();
            assert_eq!(store.expire_due(&key).await.unwrap(), None);
            age(&db, &key, minute * 2).await;
            let taken = store.take_over(&key, Taking::Take, None).await.unwrap();
            assert!(matches!(taken, Taken::Refused(earmark_claim::state::Refused::NothingLeft { .. })), "{taken:?}");
            assert_eq!(store.expire_due(&key).await.unwrap(), Some(State::Abandoned));
        }
    }

    async fn send_by_bounds_the_permit(db: TestDb) {
        let store = store_with(&db, StoreOptions::new(Duration::from_secs(3600))).await;
        let soon = Duration::from_millis(300);
        let now = store.now().await.unwrap();
        for (id, when) in [("in", When::In(soon)), ("at", When::At(now.plus(soon)))] {
            let new = NewClaim { send_by: Some(when), ..new_claim(never()) };
            match store.claim(&key(id), new).await.unwrap() {
                Claimed::Won(claim) => {
                    earmark_tests::claims::eventually("the permit ends", async || claim.permit().last_look().is_err())
                        .await;
                    let passed = view(&store, claim.key()).await.facts;
                    // The local deadline may be early, never late.
                    assert!(passed.send_by.unwrap().since(passed.now) < soon);
                }
                // On a machine that took longer than that to insert.
                Claimed::Abandoned { by: ClosedBy::Expired, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn a_key_held_by_an_uncommitted_transaction_is_waited_for(db: TestDb) {
        for commits in [true, false] {
            let (host, store) = (host(&db).await, store(&db).await);
            let key = key(&format!("{commits}"));
            let first = begin(&host).await;
            let held = joined(&store, &first, &key, never()).await;
            let second = {
                let (host, store, key) = (host.clone(), store.clone(), key.clone());
                tokio::spawn(async move {
                    let tx = begin(&host).await;
                    let answer = store.claim_in(&tx, &key, new_claim(never())).await.unwrap();
                    tx.commit().await.unwrap();
                    answer
                })
            };
            if db.backend() == Backend::Sqlite {
                // Its BEGIN IMMEDIATE waits for the file's lock, which nothing shows.
                tokio::task::yield_now().await;
            } else {
                earmark_tests::claims::eventually("the second waits", async || {
                    earmark_tests::claims::waits_for_a_lock(&db).await
                })
                .await;
            }
            assert!(!second.is_finished());
            if commits { first.commit().await.unwrap() } else { first.rollback().await.unwrap() }
            let answer = soon("the second", second).await.unwrap();
            assert_eq!(matches!(answer, Joined::Lost(_)), commits, "{answer:?}");
            drop(held);
            assert_eq!(state(&store, &key).await, State::Held);
        }
    }

    async fn a_claim_on_the_stores_own_connection_survives_the_callers_rollback(db: TestDb) {
        if db.backend() == Backend::Sqlite {
            return; // one writer: such a claim waits for the caller's own transaction
        }
        db.execute(BUSINESS).await.unwrap();
        let (host, store, key) = (host(&db).await, store(&db).await, key("m1"));
        let tx = begin(&host).await;
        order(&tx, 1).await;
        drop(won(&store, &key, never()).await);
        assert!(matches!(store.claim(&key, new_claim(never())).await.unwrap(), Claimed::InFlight { .. }));
        order(&tx, 2).await;
        tx.rollback().await.unwrap();
        assert_eq!(state(&store, &key).await, State::InFlight);
    }
}
