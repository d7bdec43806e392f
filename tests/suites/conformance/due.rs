//! What is due: pair after pair in turn, most overdue first, finished claims never.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_claim::state::{Refused, Taking};
use earmark_claim::{Backoff, ClaimKey, Claimed, Failure, NewClaim, Receipt, State, Taken, Walk, When};
use earmark_tests::claims::{LEASE, age, in_state, key, keyed, natural, never, new_claim, store, won};
use earmark_tests::{Backend, TestDb, per_layout};

per_layout! {
    async fn only_claims_whose_time_has_come_are_due(db: TestDb) {
        let store = store(&db).await;
        for state in State::ALL {
            in_state(&db, &store, &key(&format!("{state}")), state, never()).await;
        }
        let due: BTreeSet<_> = store.due(100, 100, Default::default()).await.unwrap().into_iter().collect();
        // Held is not to be sent for an hour, and the holder in flight is believed.
        assert_eq!(due, BTreeSet::from([key("retryable"), key("in_doubt")]));
    }

    async fn a_flood_of_one_pair_does_not_starve_the_rest(db: TestDb) {
        let store = store(&db).await;
        let now = store.now().await.unwrap();
        let pairs = [("", "mail"), ("acme", "mail"), ("acme", "charge"), ("z\u{e9}", "\u{1F600}"), ("Acme", "mail")];
        for (n, (tenant, consumer)) in pairs.into_iter().enumerate() {
            for i in 0..if n == 1 { 30u32 } else { 2 } {
                let key = ClaimKey::in_tenant(tenant, consumer, format!("m{i}").as_str()).unwrap();
                let at = now.minus(Duration::from_secs(u64::from(100 - i)));
                let new = NewClaim { not_before: Some(When::At(at)), ..new_claim(never()) };
                assert!(matches!(store.claim(&key, new).await.unwrap(), Claimed::Held { .. }));
            }
        }
        let due = store.due(5, 100, Default::default()).await.unwrap();
        assert_eq!(due.len(), 4 * 2 + 5);
        let first: BTreeSet<_> = due[..5].iter().map(|k| (k.tenant().to_owned(), k.consumer().to_owned())).collect();
        assert_eq!(first.len(), 5, "the first of each pair comes first: {due:?}");
        let few = store.due(5, 3, Default::default()).await.unwrap();
        assert_eq!(few.len(), 3);
        assert!(store.due(0, 100, Default::default()).await.unwrap().is_empty());
    }

    async fn a_row_that_was_read_before_is_taken_only_if_nothing_has_moved_since(db: TestDb) {
        let store = store(&db).await;
        for id in ["fresh", "stale"] {
            in_state(&db, &store, &key(id), State::InDoubt, natural()).await;
        }
        let due = store.walk_due(Walk::default(), 10, 10, Default::default()).await.unwrap();
        let seen: Vec<_> = due.claims.into_iter().map(|claim| claim.view.unwrap()).collect();
        // Another sweeper was quicker, and its attempt ended in doubt, too.
        let Taken::Started(started) = store.take_over(&key("stale"), Taking::Redrive, None).await.unwrap() else { panic!() };
        let unknown: Result<Receipt, _> = Err(Failure::unknown("timeout"));
        let _ = store.settle(started.claim, unknown, Backoff::default()).await.unwrap();
        age(&db, &key("stale"), Duration::from_secs(1000)).await;
        for view in seen {
            let taken = store.take_over_as_seen(&view, Taking::Redrive, None).await.unwrap();
            match view.key.message_id() {
                "fresh" => assert!(matches!(taken, Taken::Started(_)), "{taken:?}"),
                _ => assert!(matches!(taken, Taken::Refused(Refused::Moved { fence: 2, .. })), "{taken:?}"),
            }
        }
    }

    async fn a_doubt_answers_the_row_as_it_is_on_file(db: TestDb) {
        let store = store(&db).await;
        for declared in [never(), keyed()] {
            let key = key(&format!("{:?}", declared.repeat).to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), ""));
            drop(won(&store, &key, declared).await);
            assert!(store.doubt(&key).await.unwrap().is_none(), "the holder is believed");
            age(&db, &key, LEASE * 2).await;
            let mut told = store.doubt(&key).await.unwrap().expect("in doubt").facts;
            let found = store.find(&key).await.unwrap().unwrap().facts;
            assert!(told.now <= found.now && told.due_at <= found.due_at && told.is_due());
            (told.now, told.due_at) = (found.now, found.due_at);
            assert_eq!(format!("{told:?}"), format!("{found:?}"));
        }
    }

    async fn a_key_typed_by_hand_that_is_no_text_stops_nobody_elses_claims(db: TestDb) {
        let store = store(&db).await;
        for id in ["poison", "healthy"] {
            in_state(&db, &store, &key(id), State::InDoubt, never()).await;
        }
        let spoilt = match db.backend() {
            Backend::MariaDb => "x'41ff'",
            Backend::Sqlite => "CAST(x'41ff' AS TEXT)",
            Backend::Postgres => "E'A\\t'",
        };
        db.execute(&format!("UPDATE earmark_claim SET consumer = {spoilt} WHERE message_id = 'poison'")).await.unwrap();
        assert_eq!(store.due(10, 10, Default::default()).await.unwrap(), [key("healthy")]);
    }
}
