//! What a tombstone still says, and what it still takes.

use std::time::Duration;

use earmark_claim::state::{ClosedBy, Finding, Refused, Ruling, Seen};
use earmark_claim::{
    About, ClaimView, Claimed, Decision, Error, Joined, NewClaim, Recorded, State, Timestamp, Undecoded,
};
use earmark_effects::Outcome;
use earmark_effects::stub::Stub;
use earmark_tests::claims::{
    begin, count, done, evidence, history, host, in_state, joined, key, keyed, never, new_claim, receipt,
    state, store, view,
};
use earmark_tests::effects::earmark_with;
use earmark_tests::old::{DAY, after_a_day, age_closed, purge};
use earmark_tests::{TestDb, per_layout};
use serde_json::json;

fn seen(view: &ClaimView) -> Seen {
    Seen { state: view.facts.state, fence: view.facts.fence, revision: view.facts.revision }
}

fn decision(seen: Seen, ruling: Ruling) -> Decision {
    Decision {
        actor: "K. Lang".into(),
        reason: "looked it up".into(),
        evidence: Vec::new(),
        seen,
        ruling,
        horizon: None,
        looked: false,
    }
}

per_layout! {
    async fn a_confirmed_tombstone_answers_with_all_but_the_body(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        // Something in its history.
        store.record_evidence(&About::Key(key.clone()), done("ch_1")).await.unwrap();
        let before = view(&store, &key).await;
        purge(&db, &store, &key).await;

        let after = view(&store, &key).await;
        assert_eq!(after.facts.state, State::Confirmed);
        assert_eq!((&after.reference, &after.idempotency_key, &after.fingerprint), (&before.reference, &before.idempotency_key, &before.fingerprint));
        assert_eq!((after.facts.fence, after.facts.revision, after.facts.token), (before.facts.fence, before.facts.revision, before.facts.token));
        assert_eq!((after.closed_by, after.summary), (Some(ClosedBy::Answer), None));
        assert_eq!(store.request(&key).await.unwrap(), None);
        assert!(history(&store, &key).await.is_empty());
        assert_eq!(count(&db, "earmark_event").await, 0);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE receipt IS NOT NULL").await, 0);

        let whole = receipt("ch_1").answer.unwrap();
        let host = host(&db).await;
        let tx = begin(&host).await;
        let Joined::Lost(in_caller) = store.claim_in(&tx, &key, new_claim(never())).await.unwrap() else { panic!("joined") };
        tx.commit().await.unwrap();
        for answer in [store.claim(&key, new_claim(never())).await.unwrap(), in_caller, store.answer(&key).await.unwrap().unwrap()] {
            let Claimed::Confirmed(receipt) = answer else { panic!("{answer:?}") };
            assert!(receipt.purged);
            assert_eq!(receipt.provider_ref.as_deref(), Some("ch_1"));
            assert!(matches!(receipt.decode(), Err(Undecoded::Purged { len }) if len == whole.len));
            let left = receipt.answer.unwrap();
            assert_eq!((left.content_type, left.len, left.digest), (whole.content_type.clone(), whole.len, whole.digest));
            assert!(left.bytes.is_empty());
        }
    }

    async fn a_typed_duplicate_is_confirmed_without_a_call_though_its_receipt_cannot_be_decoded(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", never());
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        purge(&db, &store, &key("m1")).await;
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(receipt.decode(), Err(Undecoded::Purged { .. })));
        assert!(receipt.provider_ref.is_some());
        assert_eq!(stub.calls().len(), 1);
    }

    async fn an_abandoned_tombstone_answers_with_the_reason_and_is_never_repeated(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Abandoned, never()).await;
        purge(&db, &store, &key).await;
        let answer = store.claim(&key, new_claim(never())).await.unwrap();
        assert!(matches!(&answer, Claimed::Abandoned { by: ClosedBy::Refused, class: Some(class) } if class.as_str() == "card_declined"), "{answer:?}");
        let seen = seen(&view(&store, &key).await);
        let refused = store.resolve(&key, decision(seen, Ruling::Repeat)).await;
        assert!(matches!(refused, Err(Error::Refused(Refused::Purged))), "{refused:?}");
    }

    async fn another_request_is_still_a_mismatch_and_learns_nothing(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        purge(&db, &store, &key).await;
        let other = NewClaim::new("mail.welcome", "mailer", "another request", never());
        assert!(matches!(store.claim(&key, other).await.unwrap(), Claimed::Mismatch));
        assert_eq!(history(&store, &key).await, ["mismatch"]);
        assert_eq!(state(&store, &key).await, State::Confirmed);
    }

    async fn evidence_reopens_a_tombstone_and_all_of_it_is_kept_until_it_is_old_again(db: TestDb) {
        let store = store(&db).await;
        for was in [State::Confirmed, State::Abandoned] {
            let key = key(was.as_str());
            in_state(&db, &store, &key, was, never()).await;
            purge(&db, &store, &key).await;
            let recorded = store.record_evidence(&About::Key(key.clone()), done("ch_2")).await.unwrap();
            assert_eq!(recorded, Recorded::At { key: key.clone(), state: State::Escalated, moved: true });
            assert_eq!(history(&store, &key).await, ["contradict"]);
            assert!(matches!(store.claim(&key, new_claim(never())).await.unwrap(), Claimed::Escalated));

            // A person's now, however old.
            age_closed(&db, &key, DAY * 4000).await;
            nothing_to_do(&store).await;
            let seen = seen(&view(&store, &key).await);
            store.resolve(&key, decision(seen, Ruling::Done { provider_ref: None })).await.unwrap();
            assert_eq!(history(&store, &key).await, ["contradict", "rule_done"]);

            // Its age counts from the ruling, and what was said since the purge goes with it.
            nothing_to_do(&store).await;
            assert_eq!(history(&store, &key).await.len(), 2);
            age_closed(&db, &key, DAY * 4).await;
            let deleted = store.delete_tombstones(&rules(), Timestamp::default(), 100).await.unwrap();
            assert_eq!((deleted.claims, deleted.events, deleted.next), (1, 2, None));
        }
        assert_eq!((count(&db, "earmark_claim").await, count(&db, "earmark_event").await), (0, 0));
    }

    async fn a_webhook_that_agrees_changes_nothing_and_is_kept(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        purge(&db, &store, &key).await;
        for finding in [Finding::Done { ids: vec!["ch_1".into()] }, Finding::NotDone] {
            let recorded = store.record_evidence(&About::Key(key.clone()), evidence(finding)).await.unwrap();
            assert_eq!(recorded, Recorded::At { key: key.clone(), state: State::Confirmed, moved: false });
        }
        assert_eq!(history(&store, &key).await, ["evidence", "evidence"]);
    }

    /// The documented limit: then the same message acts again.
    async fn a_key_is_free_when_its_tombstone_is_gone(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, keyed()).await;
        purge(&db, &store, &key).await;
        age_closed(&db, &key, DAY * 4).await;
        assert_eq!(store.delete_tombstones(&rules(), Timestamp::default(), 100).await.unwrap().claims, 1);
        assert_eq!(count(&db, "earmark_claim").await, 0);
        assert!(matches!(store.claim(&key, new_claim(keyed())).await.unwrap(), Claimed::Won(_)));
        // In a caller's transaction, too.
        let host = host(&db).await;
        let tx = begin(&host).await;
        drop(joined(&store, &tx, &earmark_tests::claims::key("m2"), never()).await);
        tx.rollback().await.unwrap();
    }
}

/// Tombstones go after three days.
fn rules() -> earmark_claim::PurgeRules {
    let redelivery = earmark_claim::Retention::of(Duration::from_secs(3600));
    let tombstones = earmark_claim::Tombstones { age: DAY * 3, redelivery };
    earmark_claim::PurgeRules::new(DAY, Some(tombstones), []).unwrap()
}

async fn nothing_to_do(store: &earmark_claim::ClaimStore) {
    let from = Timestamp::default();
    assert_eq!(store.purge_batch(&after_a_day(), from, 100).await.unwrap().claims, 0);
    assert_eq!(store.delete_tombstones(&rules(), from, 100).await.unwrap().claims, 0);
}
