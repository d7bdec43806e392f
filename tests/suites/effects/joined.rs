//! Claims that join the caller's own transaction.

use earmark_claim::{Claim, ClaimStore, Claimed, DatabaseTransaction, Held, Joined, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Error, Outcome, telemetry};
use earmark_tests::claims::{LEASE, age, key, keyed, never, store};
use earmark_tests::counters::Counters;
use earmark_tests::effects::earmark_with;
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use sea_orm::{SqliteTransactionMode, TransactionOptions, TransactionTrait};
use serde_json::json;

async fn begin(db: &TestDb) -> DatabaseTransaction {
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    db.connection().begin_with_options(options).await.unwrap()
}

async fn held(earmark: &Earmark, tx: &DatabaseTransaction, message: &str) -> Claim<Held> {
    match earmark.claim_in::<Stub>(tx, &key(message), &json!({})).await.unwrap() {
        Joined::Held(held) => held,
        Joined::Lost(claimed) => panic!("{claimed:?}"),
    }
}

async fn state(store: &ClaimStore, message: &str) -> Option<State> {
    Some(store.find(&key(message)).await.unwrap()?.facts.state)
}

per_backend! {
    async fn nothing_is_sent_before_the_commit_and_the_claim_comes_back(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let earmark = earmark_with(&store, &stub);
        let tx = begin(&db).await;
        let claim = held(&earmark, &tx, "m1").await;
        let early = earmark.perform::<serde_json::Value>(claim).await;
        let Err(Error::NotCommitted(claim)) = early else { panic!("{early:?}") };
        assert!(stub.calls().is_empty());
        tx.commit().await.unwrap();
        assert!(earmark.perform::<serde_json::Value>(*claim).await.unwrap().is_confirmed());
        assert_eq!(stub.effects().len(), 1);
    }

    async fn nothing_is_sent_after_a_rollback_whoever_claims_then(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let earmark = earmark_with(&store, &stub);
        let tx = begin(&db).await;
        let claim = held(&earmark, &tx, "m1").await;
        tx.rollback().await.unwrap();
        let gone = earmark.perform::<serde_json::Value>(claim).await;
        let Err(Error::NotCommitted(claim)) = gone else { panic!("{gone:?}") };
        // Another transaction's claim under the same key is not ours to perform.
        let tx = begin(&db).await;
        let other = held(&earmark, &tx, "m1").await;
        tx.commit().await.unwrap();
        let still = earmark.perform::<serde_json::Value>(*claim).await;
        assert!(matches!(still, Err(Error::NotCommitted(_))), "{still:?}");
        assert!(stub.calls().is_empty());
        assert!(earmark.perform::<serde_json::Value>(other).await.unwrap().is_confirmed());
        assert_eq!(stub.effects().len(), 1);
    }

    async fn what_a_dead_process_committed_is_performed_by_the_sweep_and_by_nobody_else(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let earmark = earmark_with(&store, &stub);
        let tx = begin(&db).await;
        let claim = held(&earmark, &tx, "m1").await;
        tx.commit().await.unwrap();
        sweep_once(&earmark).await;
        assert!(stub.calls().is_empty(), "its maker is believed for a lease");
        let redelivered = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(redelivered, Outcome::Held { .. }), "{redelivered:?}");
        assert!(stub.calls().is_empty());
        age(&db, &key("m1"), LEASE).await;
        sweep_once(&earmark).await;
        assert_eq!(state(&store, "m1").await, Some(State::Confirmed));
        // The maker was only slow.
        assert!(earmark.perform::<serde_json::Value>(claim).await.unwrap().is_confirmed());
        assert_eq!(stub.effects().len(), 1);
    }

    async fn a_duplicate_in_a_transaction_is_a_value_and_a_mismatch_is_counted(db: TestDb) {
        let counters = Counters::install();
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        let key = earmark_claim::ClaimKey::new(format!("joined-{:?}", db.backend()), "m1").unwrap();
        let _ = earmark.run::<Stub>(&key, &json!({})).await.unwrap();
        let tx = begin(&db).await;
        let same = earmark.claim_in::<Stub>(&tx, &key, &json!({})).await.unwrap();
        assert!(matches!(same, Joined::Lost(Claimed::Confirmed(_))), "{same:?}");
        let other = earmark.claim_in::<Stub>(&tx, &key, &json!({"to": "b"})).await.unwrap();
        assert!(matches!(other, Joined::Lost(Claimed::Mismatch)), "{other:?}");
        tx.commit().await.unwrap();
        assert_eq!(stub.calls().len(), 1);
        assert_eq!(counters.sum(telemetry::MISMATCHES, &[("consumer", key.consumer())]), 1);
    }

    async fn a_held_claim_of_a_kind_that_is_not_known_here_is_not_begun(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let tx = begin(&db).await;
        let claim = held(&earmark_with(&store, &stub), &tx, "m1").await;
        tx.commit().await.unwrap();
        let elsewhere = earmark_with(&store, &Stub::new("mail.farewell", never()));
        let refused = elsewhere.perform::<serde_json::Value>(claim).await;
        assert!(matches!(refused, Err(Error::NotRegistered(_))), "{refused:?}");
        assert_eq!(state(&store, "m1").await, Some(State::Held), "nothing was begun, so there is no doubt");
    }

    async fn an_end_that_is_not_done_is_recorded_for_held_claims_alike(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never()).script([Step::Lose]);
        let earmark = earmark_with(&store, &stub);
        let tx = begin(&db).await;
        let claim = held(&earmark, &tx, "m1").await;
        tx.commit().await.unwrap();
        let outcome = earmark.perform::<serde_json::Value>(claim).await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
    }
}
