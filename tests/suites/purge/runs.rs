//! A whole run: what it plans, what it does, when it stops, and what it refuses to begin.

use std::time::Duration;

use earmark_claim::{About, ClaimStore, Retention, State, Tombstones};
use earmark_effects::Earmark;
use earmark_effects::stub::Stub;
use earmark_sweeper::{PurgeOptions, Purger};
use earmark_tests::claims::{count, done, in_state, key, keyed, never, store, view};
use earmark_tests::effects::earmark_with;
use earmark_tests::old::{DAY, age_closed, copy};
use earmark_tests::{TestDb, per_layout};
use tokio_util::sync::CancellationToken;

/// As fast as it can: a test does not measure.
fn options() -> PurgeOptions {
    PurgeOptions { share_percent: 100, ..PurgeOptions::new(DAY) }
}

fn earmark(store: &ClaimStore) -> Earmark {
    earmark_with(store, &Stub::new("mail.welcome", never()))
}

fn purger(store: &ClaimStore, options: PurgeOptions) -> Purger {
    Purger::new(&earmark(store), options).unwrap()
}

per_layout! {
    async fn a_plan_counts_what_a_run_takes_and_writes_nothing(db: TestDb) {
        let store = store(&db).await;
        for state in [State::Confirmed, State::Abandoned, State::InDoubt] {
            in_state(&db, &store, &key(state.as_str()), state, never()).await;
            age_closed(&db, &key(state.as_str()), DAY * 2).await;
        }
        store.record_evidence(&About::Key(key("confirmed")), done("ch_1")).await.unwrap();
        let bytes = |column: &str, table: &str, id: &str| {
            let function = match db.backend() {
                earmark_tests::Backend::Sqlite => "LENGTH",
                _ => "OCTET_LENGTH",
            };
            format!("SELECT CAST(COALESCE({function}({column}), 0) AS {}) FROM {table} WHERE message_id = '{id}' LIMIT 1", match db.backend() {
                earmark_tests::Backend::MariaDb => "SIGNED",
                _ => "BIGINT",
            })
        };
        let purger = purger(&store, options());
        let plan = purger.plan().await.unwrap();
        let [abandoned, confirmed] = plan.claims.as_slice() else { panic!("{plan:?}") };
        for (tally, id) in [(abandoned, "abandoned"), (confirmed, "confirmed")] {
            assert_eq!((tally.tenant.as_str(), tally.consumer.as_str(), tally.state.as_str(), tally.claims), ("", "mail", id, 1));
            let payload = db.number(&bytes("request", "earmark_claim", id)).await + db.number(&bytes("receipt", "earmark_claim", id)).await;
            assert_eq!(tally.bytes, payload as u64);
            assert_eq!(tally.events, 1);
        }
        assert_eq!(confirmed.event_bytes, db.number(&bytes("detail", "earmark_event", "confirmed")).await as u64);
        assert!(plan.tombstones.is_empty() && plan.kept == 0);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE purged_at IS NOT NULL").await, 0);
        assert_eq!(count(&db, "earmark_event").await, 3);

        let purged = purger.run_once(&CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!((purged.claims, purged.deleted, purged.events, purged.stopped), (2, 0, 2, false));
        assert!(purger.plan().await.unwrap().claims.is_empty());
        assert_eq!(view(&store, &key("in_doubt")).await.purged_at, None);
    }

    async fn a_run_goes_through_both_ages_and_forgets_sweepers_but_no_orphan(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m-0"), State::Confirmed, never()).await;
        copy(&db, "m-", 120).await;
        db.execute(&format!("UPDATE earmark_claim SET closed_at = closed_at - {}", (DAY * 4).as_micros())).await.unwrap();
        in_state(&db, &store, &key("younger"), State::Confirmed, never()).await;
        age_closed(&db, &key("younger"), DAY * 2).await;
        let nobody = About::Key(key("nobody"));
        store.record_evidence(&nobody, done("ch_9")).await.unwrap();
        for name in ["gone", "here"] {
            store.heartbeat(name, "0", 1).await.unwrap();
        }
        let long_ago = (DAY * 8).as_micros();
        db.execute(&format!("UPDATE earmark_sweeper SET last_success_at = last_success_at - {long_ago} WHERE name = 'gone'")).await.unwrap();
        db.execute(&format!("UPDATE earmark_orphan SET at = at - {}", (DAY * 5000).as_micros())).await.unwrap();

        let tombstones = Some(Tombstones { age: DAY * 3, redelivery: Retention::of(DAY) });
        let purger = purger(&store, PurgeOptions { tombstones, ..options() });
        let mut told = 0;
        let purged = purger.run_once(&CancellationToken::new(), |so_far| told = so_far.claims + so_far.deleted).await.unwrap();
        assert_eq!((purged.claims, purged.deleted, purged.sweepers), (121, 120, 1));
        assert_eq!(told, 241, "progress is told to the end");
        assert_eq!(count(&db, "earmark_claim").await, 1);
        assert_eq!(count(&db, "earmark_orphan").await, 1, "evidence is never purged");
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_sweeper WHERE name = 'here'").await, 1);
    }

    async fn a_run_that_is_stopped_ends_after_its_batch_and_the_next_goes_on(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m-0"), State::Confirmed, never()).await;
        copy(&db, "m-", 300).await;
        db.execute(&format!("UPDATE earmark_claim SET closed_at = closed_at - {}", (DAY * 2).as_micros())).await.unwrap();
        let purger = purger(&store, PurgeOptions { batch_max: 50, ..options() });
        let stop = CancellationToken::new();
        let stopped = purger.run_once(&stop, |_| stop.cancel()).await.unwrap();
        assert!(stopped.stopped && (1..=50).contains(&stopped.claims), "{stopped:?}");
        let rest = purger.run_once(&CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!((stopped.claims + rest.claims, rest.stopped), (300, false));
        assert!(rest.batches >= 5, "no batch is larger than it may be: {rest:?}");
    }
}

#[tokio::test]
async fn ages_that_free_a_key_while_its_provider_remembers_it_are_refused_at_start() {
    let db = TestDb::new(earmark_tests::Backend::Sqlite).await;
    let store = store(&db).await;
    // It remembers keys for a day.
    let earmark = earmark_with(&store, &Stub::new("card.charge", keyed()));
    let hour = Duration::from_secs(3600);
    let with = |age: Duration, redelivery: Duration| PurgeOptions {
        tombstones: Some(Tombstones { age, redelivery: Retention::of(redelivery) }),
        ..PurgeOptions::new(hour)
    };
    for (age, redelivery, says) in [
        (hour * 12, hour, ["43200s", "the provider of card.charge remembers a key for 86400s"]),
        (hour * 48, hour * 72, ["172800s", "a message can come again for 259200s"]),
        (hour, hour, ["3600s", "not longer than the retention of 3600s"]),
    ] {
        let refused = Purger::new(&earmark, with(age, redelivery)).err().expect("refused").to_string();
        assert!(says.iter().all(|part| refused.contains(part)), "{says:?}: {refused}");
    }
    assert!(Purger::new(&earmark, with(hour * 24, hour * 24)).is_ok());
    assert!(
        Purger::new(&earmark, PurgeOptions::new(hour)).is_ok(),
        "tombstones that stay outlive everything"
    );
}
