//! What is due: pair after pair in turn, most overdue first, finished claims never.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_claim::{ClaimKey, Claimed, NewClaim, State, When};
use earmark_tests::claims::{in_state, key, never, new_claim, store};
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
