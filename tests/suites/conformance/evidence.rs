//! Evidence is never lost and never refused, whatever it holds and whatever the claim's state.

use std::time::Duration;

use earmark_claim::state::Finding;
use earmark_claim::{
    About, Answer, Backoff, Claim, ClaimStore, Claimed, Evidence, Failure, Handle, InFlight, Receipt,
    Recorded, Settled, State,
};
use earmark_tests::claims::{
    begin, count, done, eventually, evidence, history, in_state, key, never, new_claim, receipt, soon, state,
    store, view, waits_for_a_lock, won,
};
use earmark_tests::old::purge;
use earmark_tests::{TestDb, per_layout};
use sea_orm::ConnectionTrait;

fn findings() -> [Finding; 5] {
    [
        Finding::Done { ids: vec!["ch_1".into()] },
        Finding::Refused { covers_all: true },
        Finding::Refused { covers_all: false },
        Finding::NotDone,
        Finding::CannotTell,
    ]
}

/// An event more, and the answer that says so.
async fn is_kept(store: &ClaimStore, about: &About, key: &earmark_claim::ClaimKey, finding: &Finding) {
    let before = history(store, key).await.len();
    let recorded = store.record_evidence(about, evidence(finding.clone())).await;
    let recorded = recorded.unwrap_or_else(|e| panic!("{key}: {finding:?} was refused: {e:?}"));
    assert!(matches!(&recorded, Recorded::At { key: at, .. } if at == key), "{recorded:?}");
    assert!(history(store, key).await.len() > before, "{key}: {finding:?} is not on file");
}

async fn settled(store: &ClaimStore, claim: Claim<InFlight>, outcome: Result<Receipt, Failure>) -> Settled {
    store.settle(claim, outcome, Backoff::default()).await.expect("a settle")
}

per_layout! {
    async fn every_finding_is_kept_in_every_state(db: TestDb) {
        let store = store(&db).await;
        for was in State::ALL {
            for (i, finding) in findings().into_iter().enumerate() {
                let key = key(&format!("{was}-{i}"));
                in_state(&db, &store, &key, was, never()).await;
                is_kept(&store, &About::Key(key.clone()), &key, &finding).await;
                let now = state(&store, &key).await;
                let expected = match (&finding, was) {
                    (Finding::Done { .. }, State::Abandoned) => State::Escalated,
                    (Finding::Done { .. }, _) => State::Confirmed,
                    (Finding::Refused { covers_all: true }, State::InDoubt) => State::Abandoned,
                    _ => was,
                };
                assert_eq!(now, expected, "{finding:?} at {was}");
            }
        }
    }

    async fn evidence_is_kept_at_a_tombstone(db: TestDb) {
        let store = store(&db).await;
        for was in [State::Confirmed, State::Abandoned] {
            for (i, finding) in findings().into_iter().enumerate() {
                let key = key(&format!("{was}-{i}"));
                in_state(&db, &store, &key, was, never()).await;
                purge(&db, &store, &key).await;
                is_kept(&store, &About::Key(key.clone()), &key, &finding).await;
            }
        }
    }

    async fn a_contradiction_is_kept_at_a_tombstone(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        purge(&db, &store, &key).await;
        is_kept(&store, &About::Key(key.clone()), &key, &Finding::Done { ids: vec!["ch_2".into()] }).await;
        assert_eq!(state(&store, &key).await, State::Escalated);
    }

    async fn evidence_finds_its_claim_by_each_handle_that_its_bringer_may_have(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        let reference = view(&store, &key).await.reference;
        for about in [About::Key(key.clone()), About::Reference(reference), About::ProviderRef { downstream: "mailer".into(), id: "ch_1".into() }] {
            is_kept(&store, &about, &key, &Finding::CannotTell).await;
        }
        let idempotency_key = view(&store, &key).await.idempotency_key;
        let about = About::IdempotencyKey(idempotency_key);
        assert_eq!(store.record_evidence(&about, done("ch_1")).await.unwrap(), Recorded::Orphan);
        assert_eq!(count(&db, "earmark_orphan").await, 1);
    }

    async fn evidence_that_fits_two_claims_is_kept_as_an_orphan_and_moves_neither(db: TestDb) {
        let store = store(&db).await;
        for id in ["m1", "m2"] {
            let claim = won(&store, &key(id), never()).await;
            let _ = settled(&store, claim, Ok(receipt("ch_1"))).await;
        }
        let both = store.find_all(&Handle::ProviderRef("ch_1".into())).await.unwrap();
        assert_eq!(both.len(), 2);
        let about = About::ProviderRef { downstream: "mailer".into(), id: "ch_1".into() };
        let recorded = store.record_evidence(&about, evidence(Finding::Refused { covers_all: true })).await.unwrap();
        assert_eq!(recorded, Recorded::Orphan);
        assert!(history(&store, &key("m1")).await.is_empty());
    }

    async fn an_id_of_another_provider_is_no_evidence_of_this_claim(db: TestDb) {
        let store = store(&db).await;
        let claim = won(&store, &key("m1"), never()).await;
        let accepted = Failure::unknown("accepted").with_provider_ref(Some("1001".into()));
        let _ = settled(&store, claim, Err(accepted)).await;
        let theirs = About::ProviderRef { downstream: "payments".into(), id: "1001".into() };
        assert_eq!(store.record_evidence(&theirs, done("1001")).await.unwrap(), Recorded::Orphan);
        assert_eq!(view(&store, &key("m1")).await.facts.state, State::InDoubt);
        let ours = About::ProviderRef { downstream: "mailer".into(), id: "1001".into() };
        assert!(matches!(store.record_evidence(&ours, done("1001")).await.unwrap(), Recorded::At { moved: true, .. }));
    }

    async fn an_orphan_is_kept_once_for_each_thing_it_is_about(db: TestDb) {
        let store = store(&db).await;
        let nobody = key("nobody");
        let abouts = [
            About::Key(nobody.clone()),
            About::Reference(store.reference(&nobody)),
            About::ProviderRef { downstream: "mailer".into(), id: "ch_9".into() },
            About::IdempotencyKey(store.idempotency_key(&nobody, &earmark_claim::KeyChoice::Derived).unwrap()),
        ];
        for about in &abouts {
            for _ in 0..3 {
                assert_eq!(store.record_evidence(about, done("ch_9")).await.unwrap(), Recorded::Orphan);
            }
        }
        assert_eq!(count(&db, "earmark_orphan").await, 4);
    }

    async fn a_hostile_id_is_evidence_all_the_same(db: TestDb) {
        let store = store(&db).await;
        for (i, id) in ["x".repeat(300), "nul\0inside".into(), "\u{1F600}".repeat(70), "line\nbreak".into(), "\u{85}".into()]
            .into_iter()
            .enumerate()
        {
            let by_webhook = key(&format!("webhook-{i}"));
            in_state(&db, &store, &by_webhook, State::InFlight, never()).await;
            is_kept(&store, &About::Key(by_webhook.clone()), &by_webhook, &Finding::Done { ids: vec![id.clone()] }).await;
            assert_eq!(state(&store, &by_webhook).await, State::Confirmed);
            // The same again is the same id, however it is kept.
            let again = done(&id);
            let about = About::Key(by_webhook.clone());
            let other_source = earmark_claim::Evidence { source: "statement:1".into(), ..again };
            let _ = store.record_evidence(&about, other_source).await.unwrap();
            assert_eq!(state(&store, &by_webhook).await, State::Confirmed, "{id:?} contradicts itself");
            let orphan = store.record_evidence(&About::ProviderRef { downstream: "mailer".into(), id: format!("no{id}") }, done(&id)).await;
            assert_eq!(orphan.unwrap(), Recorded::Orphan);

            let by_answer = key(&format!("answer-{i}"));
            let claim = won(&store, &by_answer, never()).await;
            let mut unfiled = Receipt::new(None, None);
            unfiled.provider_ref = Some(id.clone());
            assert!(matches!(settled(&store, claim, Ok(unfiled)).await, Settled::Moved(State::Confirmed)));
            let found = store.find_all(&Handle::ProviderRef(id.clone())).await.unwrap();
            assert!(found.iter().any(|view| view.key == by_answer), "{id:?} does not find its claim");

            let by_202 = key(&format!("accepted-{i}"));
            let claim = won(&store, &by_202, never()).await;
            let accepted = Failure::unknown("accepted").with_provider_ref(Some(id.clone()));
            assert!(matches!(settled(&store, claim, Err(accepted)).await, Settled::Moved(State::InDoubt)));
        }
    }

    async fn the_outcome_is_recorded_whatever_the_body_is(db: TestDb) {
        let store = store(&db).await;
        let big = vec![b'x'; earmark_claim::ANSWER_BYTES_MAX * 3];
        let bodies = [
            ("too large", Some(Answer::new("text/plain", big))),
            ("not UTF-8", Some(Answer::new("text/plain", vec![0xff, 0xfe, 0, 1]))),
            ("empty", Some(Answer::new("", Vec::new()))),
            ("no answer", None),
            ("a type that nobody can store", Some(Answer::new("text/\0plain\u{1F600}", b"x".to_vec()))),
            ("a long type", Some(Answer::new("\u{1F600}".repeat(99), b"x".to_vec()))),
        ];
        for (name, answer) in bodies {
            let key = key(name);
            let claim = won(&store, &key, never()).await;
            let outcome = settled(&store, claim, Ok(Receipt::new(answer.clone(), None))).await;
            assert!(matches!(outcome, Settled::Moved(State::Confirmed)), "{name}: {outcome:?}");
            let Claimed::Confirmed(replayed) = store.claim(&key, new_claim(never())).await.unwrap() else { panic!() };
            let kept = replayed.answer.map(|a| (a.bytes, a.len, a.digest));
            assert_eq!(kept, answer.map(|a| (a.bytes, a.len, a.digest)), "{name}");
            // The same body in the history: a webhook's bytes, and a late answer.
            let webhook = earmark_claim::Evidence { answer: Some(Answer::new("a\0b", vec![0xff])), ..done("x") };
            let _ = store.record_evidence(&About::Key(key.clone()), webhook).await.unwrap();
        }
    }

    async fn a_failure_is_recorded_whatever_its_text_is(db: TestDb) {
        let store = store(&db).await;
        for (i, text) in ["\0\u{1F600}\u{7f}\"'\\".to_owned(), "x".repeat(20 * 1024 * 1024)].into_iter().enumerate() {
            let key = key(&format!("m{i}"));
            let claim = won(&store, &key, never()).await;
            let failure = Failure::unknown("error").because(&text).retry_after(Some(Duration::MAX));
            let outcome = settled(&store, claim, Err(failure)).await;
            assert!(matches!(outcome, Settled::Moved(State::InDoubt)), "{outcome:?}");
        }
    }

    async fn the_old_receipt_is_kept_when_a_contradiction_opens_a_confirmed_claim(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::Confirmed, never()).await;
        let about = About::Key(key.clone());
        let recorded = store.record_evidence(&about, done("ch_2")).await.unwrap();
        assert_eq!(recorded, Recorded::At { key: key.clone(), state: State::Escalated, moved: true });
        let facts = view(&store, &key).await.facts;
        assert!(facts.contradicted && facts.doubt);
        assert_eq!(facts.provider_ref.as_deref(), Some("ch_1"));
        let events = store.history(&key).await.unwrap();
        assert_eq!(events.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["receipt_kept", "contradict"]);
        assert_eq!(events[0].bytes.as_deref(), Some(br#"{"id":"ch_1"}"#.as_slice()));
        assert_eq!((events[0].provider_ref.as_deref(), events[1].provider_ref.as_deref()), (Some("ch_1"), Some("ch_2")));
    }

    /// A mismatch is numbered without the row's lock, so it can take a number that evidence wanted.
    async fn evidence_is_kept_although_another_event_takes_its_number(db: TestDb) {
        if db.backend() == earmark_tests::Backend::Sqlite {
            return; // one writer at a time: nobody can take a number in between
        }
        let store = store(&db).await;
        for (id, was, evidence) in [("m1", State::Confirmed, done("ch_2")), ("m2", State::InFlight, done("ch_1"))] {
            let key = key(id);
            in_state(&db, &store, &key, was, never()).await;
            let other = begin(db.connection()).await;
            let taken = format!(
                "INSERT INTO earmark_event (tenant, consumer, message_id, seq, at, fence, revision, name, from_state, to_state) \
                 SELECT tenant, consumer, message_id, 1, created_at, fence, revision, 'mismatch', state, state \
                 FROM earmark_claim WHERE message_id = '{id}'"
            );
            other.execute_unprepared(&taken).await.unwrap();
            let waiting = {
                let (store, about) = (store.clone(), About::Key(key.clone()));
                tokio::spawn(async move { store.record_evidence(&about, evidence).await })
            };
            eventually("the store waits for the number", async || waits_for_a_lock(&db).await).await;
            other.commit().await.unwrap();
            let recorded = soon("the evidence", waiting).await.unwrap().unwrap();
            assert!(matches!(recorded, Recorded::At { moved: true, .. }), "{recorded:?}");
        }
    }

    async fn a_repeated_webhook_is_no_new_fact_and_a_new_source_is_one(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        in_state(&db, &store, &key, State::InFlight, never()).await;
        let about = About::Key(key.clone());
        let mut revisions = Vec::new();
        for source in ["webhook:a", "webhook:a", "webhook:b", "webhook:b"] {
            let said = earmark_claim::Evidence { source: source.into(), ..evidence(Finding::NotDone) };
            let _ = store.record_evidence(&about, said).await.unwrap();
            revisions.push(view(&store, &key).await.facts.revision);
        }
        assert_eq!(revisions, [2, 2, 3, 3]);
    }

    async fn evidence_is_kept_however_much_it_brings(db: TestDb) {
        let store = store(&db).await;
        drop(won(&store, &key("m1"), never()).await);
        let huge = Answer { bytes: vec![b'x'; 20 * 1024 * 1024], ..Answer::new("text/plain", "x") };
        let ids = (0..100_000).map(|i| format!("{i:0250}")).collect();
        let much = Evidence { answer: Some(huge), ..evidence(Finding::Done { ids }) };
        let orphan = store.record_evidence(&About::ProviderRef { downstream: "mailer".into(), id: "nobody".into() }, much.clone()).await;
        assert_eq!(orphan.unwrap(), Recorded::Orphan);
        let kept = store.record_evidence(&About::Key(key("m1")), much).await.unwrap();
        // Of a hundred thousand ids two are enough for a conflict.
        assert_eq!(kept, Recorded::At { key: key("m1"), state: State::Escalated, moved: true });
    }

    async fn evidence_of_a_claim_that_was_spoilt_by_hand_is_kept_beside_it(db: TestDb) {
        let store = store(&db).await;
        drop(won(&store, &key("m1"), never()).await);
        db.execute("UPDATE earmark_claim SET amount_minor = 1, currency = 'xx!'").await.unwrap();
        let kept = store.record_evidence(&About::Key(key("m1")), done("ch_1")).await;
        assert_eq!(kept.unwrap(), Recorded::Orphan);
        assert_eq!(count(&db, "earmark_orphan").await, 1);
    }
}
