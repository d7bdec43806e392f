//! The life of a claim, state by state.

use std::time::Duration;

use earmark_claim::state::{Finding, Refused, Ruling, Seen, Taking};
use earmark_claim::{
    About, Answer, Backoff, ClaimKey, ClaimStore, Claimed, Decision, Declared, Evidence, Failure, Filter,
    Receipt, Recorded, RepeatSafety, Settled, Started, State, Taken,
};
use earmark_tests::claims::{age, key, keyed, never, new_claim, store, won};
use earmark_tests::{TestDb, per_layout};

fn receipt() -> Receipt {
    let answer = Answer::json(&serde_json::json!({"id": "ch_1"})).expect("json");
    Receipt::new(Some(answer), Some("ch_1".into()))
}

async fn state(store: &ClaimStore, key: &ClaimKey) -> State {
    store.find(key).await.expect("a read").expect("a row").facts.state
}

per_layout! {
    async fn a_claim_is_won_once_and_its_receipt_is_replayed(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let claim = won(&store, &key, keyed()).await;
        assert!(claim.permit().last_look().is_ok());
        assert!(matches!(store.claim(&key, new_claim(keyed())).await.unwrap(), Claimed::InFlight { .. }));
        let settled = store.settle(claim, Ok(receipt()), Backoff::default()).await.unwrap();
        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
        let Claimed::Confirmed(replayed) = store.claim(&key, new_claim(keyed())).await.unwrap() else { panic!() };
        assert_eq!(replayed.decode().unwrap(), serde_json::json!({"id": "ch_1"}));
        assert_eq!(replayed.provider_ref.as_deref(), Some("ch_1"));
        assert!(store.history(&key).await.unwrap().is_empty(), "the ordinary path writes no event");
        store.close().await;
        assert!(matches!(store.find(&key).await, Err(earmark_claim::Error::Closed)));
    }

    async fn an_unknown_outcome_is_in_doubt_and_redriven_only_where_that_is_harmless(db: TestDb) {
        let store = store(&db).await;
        for (id, declared, safe) in [("keyed", keyed(), true), ("never", never(), false)] {
            let key = key(id);
            let claim = won(&store, &key, declared).await;
            let idempotency_key = claim.idempotency_key().clone();
            let failed = Err::<Receipt, _>(Failure::unknown("timeout"));
            let settled = store.settle(claim, failed, Backoff::default()).await.unwrap();
            assert!(matches!(settled, Settled::Moved(State::InDoubt)));
            age(&db, &key, Duration::from_secs(60)).await;
            match store.take_over(&key, Taking::Redrive, None).await.unwrap() {
                Taken::Started(Started { claim, request, .. }) => {
                    assert!(safe);
                    assert_eq!(claim.permit().fence(), 2);
                    assert_eq!(*claim.idempotency_key(), idempotency_key);
                    assert_eq!(request, br#"{"to":"a@example.org"}"#);
                    let settled = store.settle(claim, Ok(receipt()), Backoff::default()).await.unwrap();
                    assert!(matches!(settled, Settled::Moved(State::Confirmed)));
                    let names: Vec<String> =
                        store.history(&key).await.unwrap().into_iter().map(|e| e.name).collect();
                    assert_eq!(names, ["unknown", "redrive", "confirm"]);
                }
                Taken::Refused(why) => {
                    assert!(!safe, "{why}");
                    assert!(matches!(why, Refused::RepeatNotSafe { .. }), "{why}");
                }
                Taken::Missing => panic!("{id} is missing"),
            }
        }
    }

    async fn a_persons_ruling_carries_the_page_and_waits_for_the_horizon(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let claim = won(&store, &key, never()).await;
        let failed = Err::<Receipt, _>(Failure::unknown("timeout"));
        let _ = store.settle(claim, failed, Backoff::default()).await.unwrap();
        store.escalate(&key, earmark_claim::policy::Cause::NoRuleDecides, None, None).await.unwrap();
        let page = store.find(&key).await.unwrap().unwrap().facts;
        let decision = Decision {
            seen: Seen { state: page.state, fence: page.fence, revision: page.revision },
            ruling: Ruling::NotDone,
            actor: "kim".into(),
            reason: "not in the provider's console".into(),
            evidence: vec!["TICKET-1".into()],
            horizon: None,
            looked: false,
        };
        let early = store.resolve(&key, decision.clone()).await;
        assert!(matches!(early, Err(earmark_claim::Error::Refused(Refused::NotYet { .. }))), "{early:?}");
        age(&db, &key, Duration::from_secs(11)).await;
        let stale = Decision { seen: Seen { revision: 1, ..decision.seen }, ..decision.clone() };
        assert!(matches!(store.resolve(&key, stale).await, Err(earmark_claim::Error::Refused(Refused::Moved { .. }))));
        assert_eq!(store.resolve(&key, decision).await.unwrap(), State::Abandoned);
        let last = store.history(&key).await.unwrap().pop().unwrap();
        assert_eq!((last.name.as_str(), last.actor.as_deref()), ("rule_not_done", Some("kim")));
    }

    async fn evidence_moves_a_claim_whoever_brings_it_and_is_never_lost(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let claim = won(&store, &key, never()).await;
        let webhook = |id: &str| Evidence {
            source: "webhook:mailer".into(),
            finding: Finding::Done { ids: vec![id.into()] },
            detail: serde_json::json!({"event": id}),
            answer: Some(Answer::new("application/json", b"{}".to_vec())),
        };
        let about = About::Key(key.clone());
        let recorded = store.record_evidence(&about, webhook("ch_1")).await.unwrap();
        assert_eq!(recorded, Recorded::At { key: key.clone(), state: State::Confirmed, moved: true });
        let revision = store.find(&key).await.unwrap().unwrap().facts.revision;
        // The same webhook again is no new fact.
        let _ = store.record_evidence(&about, webhook("ch_1")).await.unwrap();
        assert_eq!(store.find(&key).await.unwrap().unwrap().facts.revision, revision);
        // The holder's own answer names another id: two effects.
        let settled = store
            .settle(claim, Ok(Receipt::<serde_json::Value>::new(None, Some("ch_2".into()))), Backoff::default())
            .await
            .unwrap();
        assert!(matches!(settled, Settled::Late(Claimed::Escalated)), "{settled:?}");
        assert_eq!(state(&store, &key).await, State::Escalated);
        let orphan = store.record_evidence(&About::ProviderRef { downstream: "mailer".into(), id: "nobody".into() }, webhook("nobody")).await.unwrap();
        assert_eq!(orphan, Recorded::Orphan);
        let _ = store.record_evidence(&About::ProviderRef { downstream: "mailer".into(), id: "nobody".into() }, webhook("nobody")).await.unwrap();
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_orphan").await, 1);
    }

    async fn a_mismatch_discloses_nothing_and_is_kept_once(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let claim = won(&store, &key, never()).await;
        let _ = store.settle(claim, Ok(receipt()), Backoff::default()).await.unwrap();
        let other = earmark_claim::NewClaim::new("mail.welcome", "mailer", "other", never());
        for _ in 0..2 {
            assert!(matches!(store.claim(&key, other.clone()).await.unwrap(), Claimed::Mismatch));
        }
        let history = store.history(&key).await.unwrap();
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].name, "mismatch");
        assert_eq!(state(&store, &key).await, State::Confirmed);
    }

    async fn a_snapshot_holds_what_a_report_needs(db: TestDb) {
        let store = store(&db).await;
        let claim = won(&store, &key("m1"), never()).await;
        let _ = store.settle(claim, Ok(receipt()), Backoff::default()).await.unwrap();
        let _ = won(&store, &key("m2"), never()).await;
        store.heartbeat("s1", "1.0.0", 1).await.unwrap();
        store.heartbeat("s1", "1.0.0", 2).await.unwrap();
        let now = store.now().await.unwrap();
        let read = store.snapshot(now.minus(Duration::from_secs(60))).await.unwrap();
        assert_eq!((read.claims.len(), read.sweepers.len()), (2, 1));
        assert_eq!(read.sweepers[0].passes, 2);
        assert!(read.claims.iter().all(|c| c.answer.as_ref().is_none_or(|a| a.bytes.is_empty())), "no receipts");
        // Open claims stand on every report, finished ones on that of their time.
        let later = store.snapshot(now.plus(Duration::from_secs(60))).await.unwrap();
        assert_eq!(later.claims.iter().map(|c| c.key.message_id()).collect::<Vec<_>>(), ["m2"]);
    }

    async fn a_key_window_without_end_spoils_no_list(db: TestDb) {
        let store = store(&db).await;
        let for_ever = Declared { repeat: RepeatSafety::Keyed { window: Duration::MAX }, ..never() };
        drop(won(&store, &key("for ever"), for_ever).await);
        drop(won(&store, &key("a day"), keyed()).await);
        let listed = store.list(&Filter::default(), 10).await.unwrap();
        let keys: Vec<_> = listed.claims.into_iter().map(|view| view.key).collect();
        assert_eq!(keys, [key("a day"), key("for ever")], "by deadline");
    }
}
