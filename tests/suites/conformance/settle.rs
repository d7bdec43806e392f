//! How an attempt ends: each outcome, with and without a doubt; late holders, races, waiting, extending.

use std::time::Duration;

use earmark_claim::state::{EDGES, Ruling, Seen, Taking};
use earmark_claim::{
    ANSWER_BYTES_MAX, Answer, Backoff, Claim, ClaimKey, ClaimStore, Claimed, Decision, Declared, Failure,
    InFlight, ProbeTerms, Receipt, RepeatSafety, Settled, Started, State, Taken,
};
use earmark_tests::claims::{
    LEASE, age, history, in_state, key, keyed, natural, never, new_claim, receipt, soon, state, store, view,
    won,
};
use earmark_tests::{TestDb, per_layout};

type Outcome = Result<Receipt, Failure>;

fn outcomes() -> [(&'static str, Outcome); 5] {
    [
        ("done", Ok(receipt("ch_1"))),
        ("refused", Err(Failure::refused("card_declined"))),
        ("refused_covering", Err(Failure::refused("card_declined").covering_earlier(true))),
        ("not_sent", Err(Failure::not_sent("rate_limited"))),
        ("unknown", Err(Failure::unknown("timeout"))),
    ]
}

/// Redriven once: the first attempt is in doubt.
async fn with_doubt(db: &TestDb, store: &ClaimStore, key: &ClaimKey) -> Claim<InFlight> {
    in_state(db, store, key, State::InDoubt, keyed()).await;
    retaken(store, key, Taking::Redrive).await
}

async fn retaken(store: &ClaimStore, key: &ClaimKey, how: Taking) -> Claim<InFlight> {
    match store.take_over(key, how, None).await.unwrap() {
        Taken::Started(Started { claim, .. }) => claim,
        other => panic!("{key}: {other:?}"),
    }
}

async fn settle(store: &ClaimStore, claim: Claim<InFlight>, outcome: Outcome) -> Settled {
    store.settle(claim, outcome, Backoff::default()).await.expect("a settle")
}

per_layout! {
    async fn each_outcome_reaches_the_state_of_the_table(db: TestDb) {
        let store = store(&db).await;
        for doubtful in [false, true] {
            for (name, outcome) in outcomes() {
                let key = key(&format!("{name}-{doubtful}"));
                let claim = match doubtful {
                    true => with_doubt(&db, &store, &key).await,
                    false => won(&store, &key, keyed()).await,
                };
                let expected = match (name, doubtful) {
                    ("done", _) => State::Confirmed,
                    ("refused", false) | ("refused_covering", _) => State::Abandoned,
                    ("not_sent", false) => State::Retryable,
                    _ => State::InDoubt,
                };
                let settled = settle(&store, claim, outcome).await;
                assert!(matches!(settled, Settled::Moved(to) if to == expected), "{key}: {settled:?}");
                let facts = view(&store, &key).await.facts;
                assert_eq!(facts.state, expected);
                assert_eq!(facts.doubt, doubtful, "only proof of \"not done\" clears a doubt");
                assert_eq!(facts.window_from.is_none(), name == "not_sent" && !doubtful, "{key}");
                assert_eq!(facts.attempts, u32::from(name != "not_sent") + u32::from(doubtful), "{key}");
                assert!(facts.last_end_at.is_some());
            }
        }
    }

    async fn a_holder_that_was_fenced_out_moves_nothing_but_by_having_done_it(db: TestDb) {
        let store = store(&db).await;
        for (name, outcome) in outcomes() {
            let key = key(name);
            let first = won(&store, &key, natural()).await;
            age(&db, &key, LEASE).await;
            assert_eq!(store.lease_over(&key).await.unwrap(), Some(State::InDoubt));
            let second = retaken(&store, &key, Taking::Redrive).await;
            let before = view(&store, &key).await.facts;
            let settled = settle(&store, first, outcome).await;
            let after = view(&store, &key).await.facts;
            assert_eq!((after.fence, after.token, after.attempts), (before.fence, before.token, before.attempts));
            let events = history(&store, &key).await;
            if name == "done" {
                assert!(matches!(settled, Settled::Late(Claimed::Confirmed(_))), "{settled:?}");
                assert_eq!(events, ["lease_over", "redrive", "evidence_done"]);
                let late = settle(&store, second, Err(Failure::unknown("timeout"))).await;
                assert!(matches!(late, Settled::Late(Claimed::Confirmed(_))), "{late:?}");
            } else {
                assert!(matches!(settled, Settled::Late(Claimed::InFlight { .. })), "{name}: {settled:?}");
                assert_eq!(after.state, State::InFlight);
                assert_eq!(events, ["lease_over", "redrive", "late_answer"]);
                let done = settle(&store, second, Ok(receipt("ch_1"))).await;
                assert!(matches!(done, Settled::Moved(State::Confirmed)), "{done:?}");
            }
        }
    }

    async fn the_newest_holders_own_late_answer_still_counts(db: TestDb) {
        let store = store(&db).await;
        for (name, outcome) in outcomes() {
            let key = key(name);
            let claim = won(&store, &key, never()).await;
            age(&db, &key, LEASE).await;
            assert_eq!(store.lease_over(&key).await.unwrap(), Some(State::InDoubt));
            let expected = match name {
                "done" => State::Confirmed,
                "refused" | "refused_covering" => State::Abandoned,
                "not_sent" => State::Retryable,
                _ => State::InDoubt,
            };
            let settled = settle(&store, claim, outcome).await;
            if name == "unknown" {
                assert!(matches!(settled, Settled::Late(Claimed::InDoubt { .. })), "{settled:?}");
            } else {
                assert!(matches!(settled, Settled::Moved(to) if to == expected), "{name}: {settled:?}");
            }
            assert_eq!(state(&store, &key).await, expected);
        }
    }

    async fn a_claim_is_settled_after_a_restart_of_its_store(db: TestDb) {
        let key = key("m1");
        let claim = {
            let first = store(&db).await;
            let claim = won(&first, &key, never()).await;
            first.close().await;
            claim
        };
        let second = store(&db).await;
        let settled = settle(&second, claim, Ok(receipt("ch_1"))).await;
        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
    }

    async fn dropping_a_claim_writes_nothing_and_the_lease_resolves_it(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let panicked = {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move {
                let _claim = won(&store, &key, never()).await;
                panic!("in the handler, between claim and settle");
            })
        };
        assert!(panicked.await.unwrap_err().is_panic());
        let facts = view(&store, &key).await.facts;
        assert_eq!((facts.state, facts.revision), (State::InFlight, 1));
        assert_eq!(store.lease_over(&key).await.unwrap(), None, "the holder is believed until its lease ends");
        assert!(store.due(10, 10, Default::default()).await.unwrap().is_empty());
        age(&db, &key, LEASE).await;
        assert_eq!(store.due(10, 10, Default::default()).await.unwrap(), std::slice::from_ref(&key));
        assert_eq!(store.lease_over(&key).await.unwrap(), Some(State::InDoubt));
        let facts = view(&store, &key).await.facts;
        assert_eq!(facts.last_end_at.unwrap().since(facts.created_at), LEASE, "an attempt nobody settled ends with its lease");
    }

    async fn extending_moves_the_lease_and_not_send_until(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let claim = won(&store, &key, never()).await;
        let before = view(&store, &key).await.facts;
        age(&db, &key, LEASE * 2).await;
        assert!(store.extend(&claim).await.unwrap(), "nobody has taken it, so its holder may still extend it");
        let after = view(&store, &key).await.facts;
        assert!(after.due_at.unwrap() > after.now && after.revision == before.revision && after.token == before.token);
        assert_eq!(store.lease_over(&key).await.unwrap(), None, "extended meanwhile");
        age(&db, &key, LEASE).await;
        assert_eq!(store.lease_over(&key).await.unwrap(), Some(State::InDoubt));
        assert!(!store.extend(&claim).await.unwrap(), "taken away");
        let settled = settle(&store, claim, Ok(receipt("ch_1"))).await;
        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
    }

    async fn an_extended_lease_does_not_renew_the_permit(db: TestDb) {
        // A second of room after the call timeout.
        let declared = Declared { call_timeout: Duration::from_millis(100), ..never() };
        let options = earmark_claim::StoreOptions {
            margin: Duration::from_millis(10),
            ..earmark_claim::StoreOptions::new(Duration::from_millis(400))
        };
        let store = earmark_tests::claims::store_with(&db, options).await;
        let key = key("m1");
        let claim = won(&store, &key, declared).await;
        let end = tokio::time::Instant::now() + Duration::from_millis(320);
        while tokio::time::Instant::now() < end {
            assert!(store.extend(&claim).await.unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(claim.permit().last_look().is_err());
    }

    async fn waiting_ends_with_the_settle_or_with_patience(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        assert!(store.wait(&key, Duration::ZERO).await.unwrap().is_none());
        let claim = won(&store, &key, never()).await;
        let answer = store.wait(&key, Duration::from_millis(30)).await.unwrap();
        assert!(matches!(answer, Some(Claimed::InFlight { .. })), "{answer:?}");
        let waiting = {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { store.wait(&key, Duration::MAX).await })
        };
        let _ = settle(&store, claim, Ok(receipt("ch_1"))).await;
        let answer = soon("the wait", waiting).await.unwrap().unwrap();
        assert!(matches!(answer, Some(Claimed::Confirmed(_))), "{answer:?}");
    }

    /// A holder's settle, a webhook and the sweep at the same moment: one row, one truth, nothing lost.
    async fn a_settle_races_a_webhook_and_the_end_of_its_lease(db: TestDb) {
        let (one, two) = (store(&db).await, store(&db).await);
        for i in 0..15 {
            let key = key(&format!("m{i}"));
            let claim = won(&one, &key, never()).await;
            age(&db, &key, LEASE).await;
            let about = earmark_claim::About::Key(key.clone());
            let (settled, recorded, over) = tokio::join!(
                one.settle(claim, Ok(receipt("ch_1")), Backoff::default()),
                two.record_evidence(&about, earmark_tests::claims::done("ch_1")),
                two.lease_over(&key),
            );
            let (settled, _, _) = (settled.unwrap(), recorded.unwrap(), over.unwrap());
            let row = view(&one, &key).await;
            assert_eq!(row.facts.state, State::Confirmed);
            assert!(!row.facts.contradicted);
            let events = one.history(&key).await.unwrap();
            let kept = row.answer.is_some() || events.iter().any(|e| e.bytes.is_some());
            assert!(kept, "the receipt is lost: {settled:?} {events:?}");
            assert!(events.iter().any(|e| e.actor.as_deref() == Some("webhook:mailer")), "the webhook is lost");
        }
    }

    async fn not_done_as_proof_clears_the_doubt_and_earlier_looks_do_not(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let probe = ProbeTerms { lag: Duration::from_secs(5), not_found_is_proof: true, looks_max: 3 };
        in_state(&db, &store, &key, State::InDoubt, Declared { probe: Some(probe), ..never() }).await;
        let wait = Duration::from_secs(1);
        let early = view(&store, &key).await;
        let found = earmark_claim::state::Finding::NotDone;
        let after = store.record_look(&early, early.facts.now, found.clone(), wait, None).await.unwrap();
        assert_eq!((after, view(&store, &key).await.facts.looks), (State::InDoubt, 0));
        age(&db, &key, Duration::from_secs(16)).await;
        let stale = view(&store, &key).await;
        // Begun by the clock of the page that was looked at, not when it is recorded.
        let begun = stale.facts.last_end_at.unwrap();
        assert_eq!(store.record_look(&stale, begun, found.clone(), wait, None).await.unwrap(), State::InDoubt);
        assert_eq!(store.record_look(&stale, stale.facts.now, found, wait, None).await.unwrap(), State::Retryable);
        let facts = view(&store, &key).await.facts;
        assert!(!facts.doubt);
        age(&db, &key, wait).await;
        let claim = retaken(&store, &key, Taking::Take).await;
        assert_eq!(claim.permit().fence(), 2);
    }

    async fn the_ordinary_path_writes_no_event_and_every_other_move_one(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        let _ = settle(&store, won(&store, &key, never()).await, Ok(receipt("ch_1"))).await;
        assert!(history(&store, &key).await.is_empty());
        let other = earmark_tests::claims::key("m2");
        in_state(&db, &store, &other, State::Escalated, never()).await;
        let events = store.history(&other).await.unwrap();
        assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2]);
        for event in &events {
            let legal = EDGES.iter().any(|(verb, from, to)| {
                (verb.as_str(), *from, *to) == (event.name.as_str(), event.from, event.to)
            });
            assert!(legal, "{event:?}");
        }
        assert!(matches!(store.claim(&other, new_claim(never())).await.unwrap(), Claimed::Escalated));
    }

    /// A provider that is away for an hour is not called every second of it.
    async fn what_is_not_sent_again_and_again_waits_longer_and_longer(db: TestDb) {
        let store = store(&db).await;
        let mut claim = won(&store, &key("m1"), keyed()).await;
        let backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(100_000) };
        let mut longest = 0;
        // Full jitter: after fourteen tries the odds of no wait beyond ten seconds are one in billions.
        for _ in 0..14 {
            let not_sent = Err::<Receipt, _>(Failure::not_sent("connect"));
            let _ = store.settle(claim, not_sent, backoff).await.unwrap();
            let facts = view(&store, &key("m1")).await.facts;
            longest = longest.max(facts.due_at.unwrap().since(facts.now).as_secs());
            db.execute("UPDATE earmark_claim SET due_at = created_at").await.unwrap();
            claim = retaken(&store, &key("m1"), Taking::Take).await;
        }
        assert!(longest > 10, "at most {longest} s");
        assert_eq!(view(&store, &key("m1")).await.facts.attempts, 1, "and no attempt for life is used up");
    }

    /// Somebody may build an answer by hand, without the cut that ours has.
    async fn an_outcome_is_recorded_however_large_its_answer_is(db: TestDb) {
        let store = store(&db).await;
        let huge = || Answer { bytes: vec![b'x'; 20 * 1024 * 1024], ..Answer::new("text/plain", "x") };
        let claim = won(&store, &key("m1"), never()).await;
        let settled = settle(&store, claim, Ok(Receipt::new(Some(huge()), None))).await;
        assert!(matches!(settled, Settled::Moved(State::Confirmed)), "{settled:?}");
        let kept = view(&store, &key("m1")).await.answer.unwrap();
        assert_eq!((kept.bytes.len(), kept.len, kept.is_cut()), (ANSWER_BYTES_MAX, 20 * 1024 * 1024, true));
        let claim = won(&store, &key("m2"), never()).await;
        let settled = settle(&store, claim, Err(Failure::unknown("http_500").with_answer(huge()))).await;
        assert!(matches!(settled, Settled::Moved(State::InDoubt)), "{settled:?}");
    }

    /// The window was declared too long when the claim was made. An answer to an attempt that the provider took for new says nothing of
    /// the one before.
    async fn a_refusal_covers_no_more_than_the_window_that_is_registered_now(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m1"), State::Escalated, keyed()).await;
        age(&db, &key("m1"), Duration::from_secs(7200)).await;
        let facts = view(&store, &key("m1")).await.facts;
        let decision = Decision {
            seen: Seen { state: facts.state, fence: facts.fence, revision: facts.revision },
            ruling: Ruling::Repeat,
            actor: "ann".into(),
            reason: "the customer waits".into(),
            evidence: Vec::new(),
            horizon: None,
            looked: false,
        };
        let _ = store.resolve(&key("m1"), decision).await.unwrap();
        age(&db, &key("m1"), Duration::from_secs(5)).await;
        let hour = Declared { repeat: RepeatSafety::Keyed { window: Duration::from_secs(3600) }, ..never() };
        let Taken::Started(Started { claim, .. }) =
            store.take_over(&key("m1"), Taking::Take, Some(&hour)).await.unwrap()
        else {
            panic!("a granted repeat")
        };
        let settled = settle(&store, claim, Err(Failure::refused("declined").covering_earlier(true))).await;
        assert!(matches!(settled, Settled::Moved(State::InDoubt)), "{settled:?}");
    }
}
