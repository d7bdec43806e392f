//! Pauses: rows that say who, when and why, and that the walk over what is due obeys.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_claim::state::Taking;
use earmark_claim::{Error, Joined, NewClaim, State, Taken, Timestamp, When};
use earmark_tests::claims::{age, in_state, key, never, new_claim, store};
use earmark_tests::{TestDb, per_backend};

per_backend! {
    async fn a_pause_says_who_when_and_why_and_so_does_its_end(db: TestDb) {
        let store = store(&db).await;
        assert_eq!(store.resume("stripe", "K. Lang", "by mistake").await.unwrap(), None, "it is not paused");
        let before = store.now().await.unwrap();
        let (pause, ours) = store.pause("stripe", "K. Lang", "outage, ticket 4711").await.unwrap();
        assert!(ours);
        assert_eq!((pause.downstream.as_str(), pause.seq, pause.resumed.clone()), ("stripe", 1, None));
        assert_eq!((pause.actor.as_str(), pause.reason.as_str()), ("K. Lang", "outage, ticket 4711"));
        assert!(pause.at >= before);
        let (stands, ours) = store.pause("stripe", "M. Roth", "another reason").await.unwrap();
        assert_eq!((&stands, ours), (&pause, false), "the first stands");
        assert_eq!(store.pauses().await.unwrap(), std::slice::from_ref(&pause));

        let over = store.resume("stripe", "M. Roth", "they say it is over").await.unwrap().unwrap();
        let resumed = over.resumed.clone().unwrap();
        assert_eq!((resumed.actor.as_str(), resumed.reason.as_str()), ("M. Roth", "they say it is over"));
        assert!(resumed.at >= pause.at);
        assert_eq!(store.pauses().await.unwrap(), []);
        for (actor, reason) in [("K. Lang", "me too"), ("M. Roth", "they say it is over")] {
            assert_eq!(store.resume("stripe", actor, reason).await.unwrap(), None, "it is over, whoever says so again");
        }

        let (again, ours) = store.pause("stripe", "K. Lang", "it was not").await.unwrap();
        assert!(ours && again.seq == 2);
        store.pause("mailer", "K. Lang", "spam").await.unwrap();
        let history = store.snapshot(before).await.unwrap().pauses;
        let names: Vec<_> = history.iter().map(|p| (p.downstream.as_str(), p.seq, p.resumed.is_some())).collect();
        assert_eq!(names, [("mailer", 1, false), ("stripe", 1, true), ("stripe", 2, false)]);
        let standing = store.snapshot(Timestamp::from_micros(9_000_000_000_000_000)).await.unwrap().pauses;
        assert_eq!(standing.len(), 2, "those that stand are told however old");
    }

    async fn of_many_that_pause_at_once_one_does(db: TestDb) {
        let store = store(&db).await;
        for round in 1..=3 {
            let mut people = tokio::task::JoinSet::new();
            for n in 0..8 {
                let store = store.clone();
                people.spawn(async move { store.pause("stripe", &format!("person {n}"), "outage").await.unwrap() });
            }
            let all = people.join_all().await;
            assert_eq!(all.iter().filter(|(_, ours)| *ours).count(), 1, "{all:?}");
            assert!(all.iter().all(|(pause, _)| *pause == all[0].0 && pause.seq == round), "{all:?}");
            assert!(store.resume("stripe", "K. Lang", "over").await.unwrap().is_some());
        }
    }

    async fn a_pause_that_would_say_nothing_is_refused(db: TestDb) {
        let store = store(&db).await;
        for (downstream, actor, reason) in [
            ("", "K. Lang", "why"),
            (" stripe", "K. Lang", "why"),
            ("stripe\n", "K. Lang", "why"),
            ("str\u{ef}pe", "K. Lang", "why"),
            ("stripe", " ", "why"),
            ("stripe", "K. Lang", ""),
        ] {
            let refused = store.pause(downstream, actor, reason).await;
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{downstream:?} {refused:?}");
            let refused = store.resume(downstream, actor, reason).await;
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{downstream:?} {refused:?}");
        }
        assert_eq!(store.pauses().await.unwrap(), []);
    }

    async fn held_claims_of_a_paused_downstream_are_not_due_until_they_expire_and_others_are(db: TestDb) {
        let store = store(&db).await;
        let held = async |id: &str, downstream: &str, send_by: Option<When>| {
            let new = NewClaim { downstream: downstream.into(), send_by, ..new_claim(never()) };
            let joined = store.claim_held(&key(id), new, Duration::ZERO).await.unwrap();
            assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
        };
        held("waits", "mailer", None).await;
        held("may wait", "mailer", Some(When::In(Duration::from_secs(3600)))).await;
        held("expires", "mailer", Some(When::In(Duration::from_secs(60)))).await;
        held("another's", "stripe", None).await;
        for state in [State::Retryable, State::InDoubt, State::InFlight] {
            in_state(&db, &store, &key(&state.to_string()), state, never()).await;
        }
        for id in ["expires", "in_flight"] {
            age(&db, &key(id), Duration::from_secs(120)).await;
        }
        let due = async || store.due(100, 100, Default::default()).await.unwrap().into_iter().collect::<BTreeSet<_>>();
        let all = ["waits", "may wait", "expires", "another's", "retryable", "in_doubt", "in_flight"].map(key);
        assert_eq!(due().await, BTreeSet::from(all.clone()));
        store.pause("mailer", "K. Lang", "outage").await.unwrap();
        assert_eq!(due().await, all[2..].iter().cloned().collect::<BTreeSet<_>>());
        store.resume("mailer", "K. Lang", "over").await.unwrap();
        assert_eq!(due().await, BTreeSet::from(all));
    }

    async fn a_claim_that_is_made_held_is_answered_as_such_and_can_be_begun(db: TestDb) {
        let store = store(&db).await;
        let hour = Duration::from_secs(3600);
        let joined = store.claim_held(&key("m1"), new_claim(never()), hour).await.unwrap();
        let Joined::Held(held) = joined else { panic!("{joined:?}") };
        let view = store.find(&key("m1")).await.unwrap().unwrap();
        assert_eq!((view.facts.state, view.facts.fence, view.facts.attempts), (State::Held, 0, 0));
        assert_eq!(view.facts.not_before, None, "it is worth a look in an hour, and no promise is broken before");
        assert!(view.facts.due_at.unwrap() >= view.facts.created_at.plus(hour));
        assert!(store.left(&held).await.unwrap().is_some());
        let again = store.claim_held(&key("m1"), new_claim(never()), hour).await.unwrap();
        assert!(matches!(again, Joined::Lost(earmark_claim::Claimed::Held { .. })), "{again:?}");
        let other = NewClaim::new("mail.welcome", "mailer", "another request", never());
        let mismatch = store.claim_held(&key("m1"), other, hour).await.unwrap();
        assert!(matches!(mismatch, Joined::Lost(earmark_claim::Claimed::Mismatch)), "{mismatch:?}");
        assert!(store.due(10, 10, Default::default()).await.unwrap().is_empty());
        let taken = store.take_over(&key("m1"), Taking::Begin, None).await.unwrap();
        assert!(matches!(taken, Taken::Started(_)), "{taken:?}");
    }
}
