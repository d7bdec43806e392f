//! Each row of a batch keeps its own fate: who loses learns to what, and costs nobody else anything.

use earmark_claim::{About, Backoff, Claimed, NewClaim, Settled, State};
use earmark_tests::claims::{count, done, history, in_state, key, never, new_claim, receipt, store, view};
use earmark_tests::{TestDb, per_layout};

use super::kit::{claim_all, confirm_all, keys, moved, win_all};

const STATES: [State; 7] = [
    State::Held,
    State::InFlight,
    State::Retryable,
    State::InDoubt,
    State::Escalated,
    State::Confirmed,
    State::Abandoned,
];

per_layout! {
    async fn each_loser_of_a_batch_learns_to_what_it_lost(db: TestDb) {
        let store = store(&db).await;
        let mut claims = Vec::new();
        for (i, state) in STATES.into_iter().enumerate() {
            let old = key(&format!("old{i}"));
            in_state(&db, &store, &old, state, never()).await;
            claims.push((key(&format!("new{i}")), new_claim(never())));
            claims.push((old.clone(), new_claim(never())));
            // The same key with another request.
            claims.push((old, NewClaim { request: b"other".to_vec(), ..NewClaim::new("mail.welcome", "mailer", "other", never()) }));
        }
        let before = count(&db, "earmark_event").await;
        // The second time, what is likely to be a duplicate is looked for first.
        for round in 0..2 {
            let answers = store.claim_many(claims.clone()).await.unwrap();
            for (i, state) in STATES.into_iter().enumerate() {
                let [new, old, other] = &answers[3 * i..3 * i + 3] else { panic!() };
                match new.as_ref().unwrap() {
                    Claimed::Won(_) => assert_eq!(round, 0),
                    Claimed::InFlight { .. } => assert_eq!(round, 1),
                    answer => panic!("{answer:?}"),
                }
                let old = old.as_ref().unwrap();
                assert!(
                    matches!(
                        (state, old),
                        (State::Held, Claimed::Held { .. })
                            | (State::InFlight, Claimed::InFlight { .. })
                            | (State::Retryable, Claimed::Retryable { .. })
                            | (State::InDoubt, Claimed::InDoubt { .. })
                            | (State::Escalated, Claimed::Escalated)
                            | (State::Confirmed, Claimed::Confirmed(_))
                            | (State::Abandoned, Claimed::Abandoned { .. })
                    ),
                    "{state:?}: {old:?}"
                );
                assert!(matches!(other.as_ref().unwrap(), Claimed::Mismatch), "{other:?}");
            }
        }
        // Each mismatch is kept once, however often it comes.
        assert_eq!(count(&db, "earmark_event").await, before + STATES.len() as i64);
        assert_eq!(count(&db, "earmark_claim").await, 2 * STATES.len() as i64);
    }

    async fn of_two_with_one_key_in_one_call_the_first_is_the_claim(db: TestDb) {
        let store = store(&db).await;
        let all: Vec<_> = keys("m", 20).into_iter().flat_map(|key| [key.clone(), key]).collect();
        for (i, answer) in claim_all(&store, &all).await.into_iter().enumerate() {
            match answer.unwrap() {
                Claimed::Won(_) => assert_eq!(i % 2, 0, "{i}"),
                Claimed::InFlight { .. } => assert_eq!(i % 2, 1, "{i}"),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn a_claim_that_is_invalid_fails_in_its_place_alone(db: TestDb) {
        let store = store(&db).await;
        let bad = NewClaim { kind: String::new(), ..new_claim(never()) };
        let claims = [(key("a"), new_claim(never())), (key("b"), bad), (key("c"), new_claim(never()))];
        let answers = store.claim_many(claims).await.unwrap();
        assert!(matches!(&answers[..], [Ok(Claimed::Won(_)), Err(earmark_claim::Error::Invalid { .. }), Ok(Claimed::Won(_))]), "{answers:?}");
        assert!(store.claim_many([]).await.unwrap().is_empty());
    }

    /// Evidence was faster with one of them; the others are as if nothing had been.
    async fn an_outcome_whose_row_has_changed_meanwhile_changes_nothing_for_its_neighbours(db: TestDb) {
        let store = store(&db).await;
        let keys = keys("m", 20);
        let claims = win_all(&store, &keys).await;
        let _ = store.record_evidence(&About::Key(keys[7].clone()), done("ch_1")).await.unwrap();
        let settled = confirm_all(&store, claims).await;
        for (i, settled) in settled.iter().enumerate() {
            if i == 7 {
                assert!(matches!(settled, Ok(Settled::Late(Claimed::Confirmed(_)))), "{settled:?}");
                continue;
            }
            assert!(moved(settled), "{i}: {settled:?}");
            assert!(history(&store, &keys[i]).await.is_empty(), "{i} was written as it is ordinarily");
            assert!(view(&store, &keys[i]).await.answer.is_some());
        }
    }

    /// Outcomes that are no ordinary confirmations go their own way, in their places.
    async fn many_ends_of_every_sort_are_each_recorded(db: TestDb) {
        let store = store(&db).await;
        let claims = win_all(&store, &keys("m", 8)).await;
        let ends = claims.into_iter().enumerate().map(|(i, claim)| {
            let end = match i % 4 {
                0 => Ok(receipt("ch_1")),
                1 => Err(earmark_claim::Failure::refused("declined")),
                2 => Err(earmark_claim::Failure::not_sent("offline")),
                _ => Err(earmark_claim::Failure::unknown("timeout")),
            };
            (claim, end)
        });
        let settled = store.settle_many(ends, Backoff::default()).await;
        let states: Vec<_> = settled.into_iter().map(|settled| match settled.unwrap() {
            Settled::Moved(state) => state,
            other => panic!("{other:?}"),
        }).collect();
        let four = [State::Confirmed, State::Abandoned, State::Retryable, State::InDoubt];
        assert_eq!(states, [four, four].concat());
    }
}
