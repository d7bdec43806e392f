//! A person pauses a downstream: services go on taking messages, and call nobody.

use std::time::Duration;

use earmark_claim::state::Taking;
use earmark_claim::{ClaimStore, Joined, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Effect, Error, Halt, Outcome, Retaken};
use earmark_tests::claims::{age, in_state, key, keyed, never, store};
use earmark_tests::effects::{PATIENT, probed};
use earmark_tests::{TestDb, per_backend};
use sea_orm::{SqliteTransactionMode, TransactionOptions, TransactionTrait};
use serde_json::{Value, json};

/// A process that reads the pauses so often.
fn process(store: &ClaimStore, stub: &Stub, pauses_every: Duration) -> Earmark {
    let builder = Earmark::builder(store.clone()).backoff(PATIENT).pauses_every(pauses_every);
    let builder = match stub.declared().probe {
        Some(_) => builder.probed(stub.clone(), stub.clone()),
        None => builder.effect(stub.clone()),
    };
    builder.build().unwrap()
}

async fn state(store: &ClaimStore, message: &str) -> State {
    store.find(&key(message)).await.unwrap().unwrap().facts.state
}

per_backend! {
    async fn messages_are_claimed_and_answered_while_nothing_is_sent_and_all_are_sent_after_the_resume(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = process(&store, &stub, Duration::ZERO);
        assert!(earmark.run::<Stub>(&key("before"), &json!({})).await.unwrap().is_confirmed());
        store.pause("stub", "K. Lang", "outage").await.unwrap();
        for n in 0..5 {
            for delivery in ["first", "again"] {
                let outcome = earmark.run::<Stub>(&key(&format!("m{n}")), &json!({ "n": n })).await.unwrap();
                assert!(matches!(outcome, Outcome::Held { .. }), "{delivery}: {outcome:?}");
            }
        }
        let done = earmark.run::<Stub>(&key("before"), &json!({})).await.unwrap();
        assert!(done.is_confirmed(), "a duplicate gets its receipt: {done:?}");
        let mismatch = earmark.run::<Stub>(&key("m0"), &json!({ "n": "another" })).await.unwrap();
        assert!(matches!(mismatch, Outcome::Mismatch), "{mismatch:?}");
        assert_eq!(stub.calls().len(), 1);
        assert_eq!(earmark.halted("stub").await.unwrap(), Some(Halt::Paused));

        let retaken = earmark.retake(&key("m0"), Taking::Begin).await.unwrap();
        assert!(matches!(retaken, Retaken::HeldBack(Halt::Paused)), "{retaken:?}");
        store.resume("stub", "K. Lang", "over").await.unwrap();
        for n in 0..5 {
            let retaken = earmark.retake(&key(&format!("m{n}")), Taking::Begin).await.unwrap();
            assert!(matches!(retaken, Retaken::Performed(Outcome::Confirmed(_))), "{retaken:?}");
        }
        assert_eq!((stub.calls().len(), stub.effects().len()), (6, 6));
    }

    async fn a_claim_of_the_callers_transaction_stays_held_and_one_that_was_rolled_back_is_told(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let earmark = process(&store, &stub, Duration::ZERO);
        store.pause("stub", "K. Lang", "outage").await.unwrap();
        let immediate = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        for commits in [true, false] {
            let message = key(&format!("commits: {commits}"));
            let tx = db.connection().begin_with_options(immediate).await.unwrap();
            let joined = earmark.claim_in::<Stub>(&tx, &message, &json!({})).await.unwrap();
            let Joined::Held(held) = joined else { panic!("{joined:?}") };
            if commits {
                tx.commit().await.unwrap();
                let outcome = earmark.perform::<Value>(held).await.unwrap();
                assert!(matches!(outcome, Outcome::Held { .. }), "{outcome:?}");
                assert_eq!(store.find(&message).await.unwrap().unwrap().facts.state, State::Held);
            } else {
                tx.rollback().await.unwrap();
                let outcome = earmark.perform::<Value>(held).await;
                assert!(matches!(outcome, Err(Error::NotCommitted(_))), "{outcome:?}");
            }
        }
        assert!(stub.calls().is_empty());
    }

    async fn a_redelivery_does_not_hurry_what_is_to_be_tried_again_and_nobody_is_asked(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", probed(never()));
        let earmark = process(&store, &stub, Duration::ZERO);
        let again = Stub::new("mail.welcome", probed(never())).script([Step::NotSent("busy")]);
        let failing = process(&store, &again, Duration::ZERO);
        let outcome = failing.run::<Stub>(&key("again"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        in_state(&db, &store, &key("doubtful"), State::InDoubt, probed(never())).await;
        for message in ["again", "doubtful"] {
            age(&db, &key(message), PATIENT.max).await;
        }
        store.pause("stub", "K. Lang", "outage").await.unwrap();
        store.pause("mailer", "K. Lang", "outage").await.unwrap();
        let outcome = earmark.run::<Stub>(&key("again"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        let doubtful = store.find(&key("doubtful")).await.unwrap().unwrap();
        let looked = earmark.look(&doubtful).await;
        assert!(matches!(looked, Err(Error::HeldBack { halt: Halt::Paused, .. })), "{looked:?}");
        assert_eq!((stub.calls().len(), stub.looks()), (0, 0));
        store.resume("stub", "K. Lang", "over").await.unwrap();
        assert!(earmark.run::<Stub>(&key("again"), &json!({})).await.unwrap().is_confirmed());
    }

    async fn the_rows_are_read_once_in_an_interval_and_what_was_known_outlives_them(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let (seldom, always) = (
            process(&store, &stub, Duration::from_secs(300)),
            process(&store, &stub, Duration::ZERO),
        );
        store.pause("stub", "K. Lang", "outage").await.unwrap();
        for earmark in [&seldom, &always] {
            assert_eq!(earmark.halted("stub").await.unwrap(), Some(Halt::Paused));
        }
        db.execute("ALTER TABLE earmark_pause RENAME TO away").await.unwrap();
        for (earmark, message) in [(&seldom, "seldom"), (&always, "always")] {
            let outcome = earmark.run::<Stub>(&key(message), &json!({})).await.unwrap();
            assert!(matches!(outcome, Outcome::Held { .. }), "{message}: {outcome:?}");
        }
        // A process that has never read them does not know what a person has ordered.
        let fresh = process(&store, &stub, Duration::from_secs(300));
        let refused = fresh.run::<Stub>(&key("fresh"), &json!({})).await;
        assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
        assert!(store.find(&key("fresh")).await.unwrap().is_none(), "nothing was written");
        db.execute("ALTER TABLE away RENAME TO earmark_pause").await.unwrap();
        store.resume("stub", "K. Lang", "over").await.unwrap();
        assert_eq!(always.halted("stub").await.unwrap(), None);
        assert_eq!(seldom.halted("stub").await.unwrap(), Some(Halt::Paused), "it has not read them since");
        assert!(fresh.run::<Stub>(&key("fresh"), &json!({})).await.unwrap().is_confirmed());
        assert_eq!(state(&store, "fresh").await, State::Confirmed);
    }

    async fn two_processes_obey_within_twice_their_interval_whatever_the_traffic(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let every = Duration::from_millis(50);
        let processes = [process(&store, &stub, every), process(&store, &stub, every)];
        for (n, earmark) in processes.iter().enumerate() {
            assert!(earmark.run::<Stub>(&key(&format!("first {n}")), &json!({})).await.unwrap().is_confirmed());
        }
        store.pause("stub", "K. Lang", "outage").await.unwrap();
        // One is idle for long, and waits for the rows; the other goes on, and reads them in the background.
        tokio::time::sleep(every * 2).await;
        let outcome = processes[0].run::<Stub>(&key("idle"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::Held { .. }), "{outcome:?}");
        for n in 0.. {
            let outcome = processes[1].run::<Stub>(&key(&format!("m{n}")), &json!({})).await.unwrap();
            if matches!(outcome, Outcome::Held { .. }) {
                break;
            }
            assert!(n < 100_000, "never obeyed");
        }
    }
}
