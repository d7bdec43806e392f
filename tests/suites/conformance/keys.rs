//! Keys are bytes: never cut, never folded, on every database alike.

use earmark_claim::{About, ClaimKey, Claimed, Handle, KeyError, NewClaim, Recorded, State};
use earmark_tests::claims::{
    begin, count, done, evidence, history, host_with, joined, key, never, new_claim, receipt, store,
    store_on, view, won,
};
use earmark_tests::{Backend, TestDb, per_layout};
use sea_orm::ConnectionTrait;

/// Pairs that some collation, padding or normal form takes for one.
const TWINS: [(&str, &str); 10] = [
    ("aB1", "Ab1"),
    ("x", "x "),
    (" y", "y"),
    ("\u{e9}", "e\u{301}"),
    ("ss", "\u{df}"),
    ("\u{1F600}", "\u{1F601}"),
    ("1", "\u{ff11}"),
    ("\u{130}", "i"),
    ("a\u{200b}", "a"),
    ("%", "_"),
];

fn longest() -> Vec<(String, String)> {
    let emoji = "\u{1F600}".repeat(128);
    let prefix = "p".repeat(511);
    vec![
        (format!("{prefix}a"), format!("{prefix}b")),
        (emoji, format!("{}\u{1F601}", "\u{1F600}".repeat(127))),
    ]
}

async fn are_two_claims(store: &earmark_claim::ClaimStore, one: &ClaimKey, two: &ClaimKey) {
    let (first, second) = (won(store, one, never()).await, won(store, two, never()).await);
    assert_ne!(first.idempotency_key(), second.idempotency_key());
    assert_ne!(first.reference(), second.reference());
    assert_ne!(one.to_string(), two.to_string(), "a person could not tell them apart");
    let settled = store.settle(first, Ok(receipt("ch_1")), earmark_claim::Backoff::default()).await.unwrap();
    assert!(matches!(settled, earmark_claim::Settled::Moved(State::Confirmed)));
    assert_eq!(view(store, two).await.facts.state, State::InFlight);
    for key in [one, two] {
        assert_eq!(view(store, key).await.key, *key);
        let by_reference = store.find_all(&Handle::Reference(store.reference(key))).await.unwrap();
        assert_eq!(by_reference.iter().map(|v| &v.key).collect::<Vec<_>>(), [key]);
    }
    let _ = store
        .record_evidence(&About::Key(two.clone()), evidence(earmark_claim::state::Finding::NotDone))
        .await
        .unwrap();
    assert_eq!((history(store, one).await.len(), history(store, two).await.len()), (0, 1));
}

per_layout! {
    async fn ids_that_a_collation_takes_for_one_stay_two_claims(db: TestDb) {
        let store = store(&db).await;
        for (one, two) in TWINS {
            are_two_claims(&store, &key(one), &key(two)).await;
        }
        for (one, two) in longest() {
            are_two_claims(&store, &key(&one), &key(&two)).await;
        }
        for (one, two) in [("Mail", "mail"), ("mail", "mail ")] {
            let id = format!("m-{one}-{two}");
            are_two_claims(&store, &ClaimKey::new(one, id.as_str()).unwrap(), &ClaimKey::new(two, id.as_str()).unwrap()).await;
            let tenants = [one, two].map(|t| ClaimKey::in_tenant(t, "mail", id.as_str()).unwrap());
            are_two_claims(&store, &tenants[0], &tenants[1]).await;
        }
    }

    /// A server that was told to cut instead of to refuse.
    async fn without_strict_mode_nothing_is_cut(db: TestDb) {
        let host = match db.backend() {
            Backend::MariaDb => host_with(&db, "SET SESSION sql_mode = ''").await,
            _ => host_with(&db, "SELECT 1").await,
        };
        if db.backend() == Backend::MariaDb {
            // The control: what is too long is cut without a word.
            let cuts = "CREATE TABLE cut (v VARCHAR(2) PRIMARY KEY); INSERT INTO cut VALUES ('abc')";
            host.execute_unprepared(cuts).await.expect("the control has changed");
        }
        let store = store_on(&host).await;
        for (one, two) in longest() {
            are_two_claims(&store, &key(&one), &key(&two)).await;
        }
        let widest = NewClaim {
            kind: "k".repeat(128),
            downstream: "d".repeat(64),
            summary: Some("\u{1F600}".repeat(64)),
            business_ref: Some("\u{1F600}".repeat(32)),
            credential: Some("c".repeat(128)),
            request_type: "t".repeat(128),
            traceparent: Some("0".repeat(64)),
            ..new_claim(never())
        };
        let key = ClaimKey::in_tenant("t".repeat(128), "c".repeat(128), "m".repeat(512).as_str()).unwrap();
        let Claimed::Won(claim) = store.claim(&key, widest.clone()).await.unwrap() else { panic!() };
        let row = view(&store, &key).await;
        assert_eq!(
            (row.kind, row.downstream, row.summary, row.business_ref, row.credential, row.request_type, row.traceparent),
            (widest.kind, widest.downstream, widest.summary, widest.business_ref, widest.credential, widest.request_type, widest.traceparent)
        );
        let long = "\u{1F600}".repeat(80);
        let settled = store.settle(claim, Ok(receipt(&long)), earmark_claim::Backoff::default()).await.unwrap();
        assert!(matches!(settled, earmark_claim::Settled::Moved(State::Confirmed)));
        let kept = view(&store, &key).await.facts.provider_ref.unwrap();
        assert!(kept.len() > 250 && long.starts_with(&kept), "{kept}");
        let about = About::ProviderRef { downstream: "mailer".into(), id: "o".repeat(255) };
        assert_eq!(store.record_evidence(&about, done(&"o".repeat(255))).await.unwrap(), Recorded::Orphan);
    }

    async fn a_joined_claim_is_compared_byte_for_byte_too(db: TestDb) {
        let host = earmark_tests::claims::host(&db).await;
        let store = store(&db).await;
        let tx = begin(&host).await;
        for (one, two) in TWINS {
            let _ = joined(&store, &tx, &key(one), never()).await;
            let _ = joined(&store, &tx, &key(two), never()).await;
        }
        tx.commit().await.unwrap();
        assert_eq!(count(&db, "earmark_claim").await, 2 * TWINS.len() as i64);
    }

    async fn another_tenant_or_consumer_is_another_claim_with_another_key_downstream(db: TestDb) {
        let store = store(&db).await;
        let keys = [
            ClaimKey::in_tenant("", "mail", "m1").unwrap(),
            ClaimKey::in_tenant("acme", "mail", "m1").unwrap(),
            ClaimKey::in_tenant("acme", "charge", "m1").unwrap(),
            ClaimKey::in_tenant("acm", "email", "m1").unwrap(),
        ];
        let mut seen = std::collections::HashSet::new();
        for key in &keys {
            let claim = won(&store, key, never()).await;
            assert!(seen.insert(claim.idempotency_key().as_str().to_owned()));
        }
        assert_eq!(count(&db, "earmark_claim").await, 4);
    }

    async fn the_same_key_with_another_request_learns_nothing_and_moves_nothing(db: TestDb) {
        let store = store(&db).await;
        for was in State::ALL {
            let key = key(&format!("{was}"));
            earmark_tests::claims::in_state(&db, &store, &key, was, never()).await;
            let before = view(&store, &key).await.facts;
            let other = NewClaim::new("mail.welcome", "mailer", "99.00", never());
            let answer = store.claim(&key, other).await.unwrap();
            assert!(matches!(answer, Claimed::Mismatch), "{was}: {answer:?}");
            let after = view(&store, &key).await.facts;
            assert_eq!((after.state, after.token, after.revision), (before.state, before.token, before.revision));
            let last = store.history(&key).await.unwrap().pop().unwrap();
            assert_eq!(last.name, "mismatch");
            assert!(!last.detail.contains("99.00") && last.bytes.is_none());
        }
        // The same fields under another kind are another request too.
        let kind = NewClaim::new("mail.goodbye", "mailer", r#"{"to":"a@example.org"}"#, never());
        let answer = store.claim(&key("confirmed"), kind).await.unwrap();
        assert!(matches!(answer, Claimed::Mismatch), "{answer:?}");
    }
}

#[test]
fn a_key_is_refused_by_its_bytes_before_anything_is_written() {
    let long = |id: &str| ClaimKey::new("mail", id).expect_err("too long");
    assert!(matches!(long(&"a".repeat(513)), KeyError::TooLong { bytes: 513, max: 512, .. }));
    assert!(matches!(long(&"\u{1F600}".repeat(129)), KeyError::TooLong { bytes: 516, .. }));
    assert!(ClaimKey::new("mail", "\u{1F600}".repeat(128).as_str()).is_ok());
    assert!(ClaimKey::new("mail", "a".repeat(512).as_str()).is_ok());
    for bad in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}"] {
        assert!(ClaimKey::new("mail", bad).is_err(), "{bad:?}");
    }
}
