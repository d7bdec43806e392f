//! Every way in which a call can end, for every promise that a provider can make.

use std::time::Duration;

use earmark_claim::state::ClosedBy;
use earmark_claim::{ClaimStore, Declared, State};
use earmark_effects::Outcome;
use earmark_effects::stub::{Step, Stub};
use earmark_tests::claims::{age, key, keyed, natural, never, store};
use earmark_tests::effects::{PATIENT, brief, earmark_with, probed};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::{Value, json};

const STEPS: [Step; 7] = [
    Step::Done,
    Step::Refuse("declined"),
    Step::NotSent("busy"),
    Step::ActThenLose,
    Step::Lose,
    Step::ActThenHang,
    Step::Panic,
];

/// Name and declaration: three promises, each with and without a probe.
fn promises() -> Vec<(String, Declared)> {
    let plain = [("keyed", keyed()), ("natural", natural()), ("never", never())];
    let with_probe = plain.clone().map(|(name, d)| (format!("{name}, probed"), probed(d)));
    plain
        .map(|(name, d)| (name.to_owned(), d))
        .into_iter()
        .chain(with_probe)
        .map(|(name, d)| (name, brief(d)))
        .collect()
}

/// What is known right after the call, how many calls arrived, and how often it happened.
fn right_after(step: &Step) -> (State, Option<&'static str>, usize, usize) {
    match step {
        Step::Done => (State::Confirmed, None, 1, 1),
        Step::Refuse(_) => (State::Abandoned, Some("declined"), 1, 0),
        Step::NotSent(_) => (State::Retryable, Some("stub_not_sent"), 0, 0),
        Step::ActThenLose => (State::InDoubt, Some("stub_lost"), 1, 1),
        Step::Lose => (State::InDoubt, Some("stub_lost"), 1, 0),
        Step::ActThenHang => (State::InDoubt, Some("timeout"), 1, 1),
        Step::Panic => (State::InDoubt, Some("panic"), 0, 0),
    }
}

fn says(outcome: &Outcome<Value>, state: State) -> bool {
    match outcome {
        Outcome::Confirmed(receipt) => state == State::Confirmed && receipt.provider_ref.is_some(),
        Outcome::Abandoned { by, class } => {
            state == State::Abandoned && *by == ClosedBy::Refused && class.is_some()
        }
        Outcome::Retryable { .. } => state == State::Retryable,
        Outcome::InDoubt { .. } => state == State::InDoubt,
        Outcome::Escalated => state == State::Escalated,
        Outcome::Held { .. } | Outcome::InFlight { .. } | Outcome::Mismatch => false,
    }
}

async fn state(store: &ClaimStore, message: &str) -> State {
    store.find(&key(message)).await.unwrap().unwrap().facts.state
}

per_backend! {
    async fn each_end_of_a_call_is_recorded_and_a_redelivery_makes_no_call(db: TestDb) {
        let store = store(&db).await;
        for (name, declared) in promises() {
            for step in STEPS {
                let what = format!("{name}: {step:?}");
                let stub = Stub::new("test.step", declared.clone()).script([step.clone()]);
                let earmark = earmark_with(&store, &stub);
                let (expected, class, calls, effects) = right_after(&step);
                for delivery in ["first", "second", "third"] {
                    let outcome = earmark.run::<Stub>(&key(&what), &json!({})).await.unwrap();
                    assert!(says(&outcome, expected), "{what}, {delivery}: {outcome:?}");
                    assert_eq!(stub.calls().len(), calls, "{what}, {delivery}");
                    assert_eq!(stub.effects().len(), effects, "{what}, {delivery}");
                }
                assert_eq!(stub.looks(), 0, "{what}: looking belongs to the sweep");
                let facts = store.find(&key(&what)).await.unwrap().unwrap().facts;
                assert_eq!(facts.error_class.as_ref().map(|c| c.as_str()), class, "{what}");
                assert_eq!(facts.fence, 1, "{what}");
                assert_eq!(facts.attempts, u32::from(!matches!(step, Step::NotSent(_))), "{what}");
            }
        }
    }

    async fn the_sweep_ends_each_of_them_and_repeats_only_where_that_is_harmless(db: TestDb) {
        let store = store(&db).await;
        for (name, declared) in promises() {
            for step in STEPS {
                let what = format!("{name}: {step:?}");
                let stub = Stub::new("test.step", declared.clone()).script([step.clone()]);
                let earmark = earmark_with(&store, &stub);
                let _ = earmark.run::<Stub>(&key(&what), &json!({})).await.unwrap();
                // Three of the longest waits.
                for _ in 0..3 {
                    if !matches!(state(&store, &what).await, State::Retryable | State::InDoubt) {
                        break;
                    }
                    age(&db, &key(&what), PATIENT.max).await;
                    sweep_once(&earmark).await;
                }
                let (ended, effects) = (state(&store, &what).await, stub.effects().len());
                let doubtful = right_after(&step).0 == State::InDoubt;
                let blind = name == "never";
                let expected = match step {
                    Step::Refuse(_) => State::Abandoned,
                    _ if doubtful && blind => State::Escalated,
                    _ => State::Confirmed,
                };
                assert_eq!(ended, expected, "{what}");
                match name.as_str() {
                    // Repeating it is what its author allowed: the stub acts at every call.
                    "natural" | "natural, probed" => assert!(effects <= 2, "{what}: {effects}"),
                    _ => assert!(effects <= 1, "{what}: {effects}"),
                }
                if ended == State::Confirmed {
                    assert!(effects >= 1, "{what}: confirmed, but it never happened");
                }
                if doubtful && name.starts_with("never") {
                    assert!(stub.calls().len() <= 1 || step == Step::Lose, "{what}: {:?}", stub.calls());
                }
                let keys = stub.calls();
                assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{what}: {keys:?}");
            }
        }
    }

    async fn looking_waits_until_not_found_can_be_proof(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("test.step", probed(never())).script([Step::Lose]);
        let earmark = earmark_with(&store, &stub);
        let _ = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        // Due, but a request may land for ten seconds more, and the probe may lag behind for one.
        db.execute("UPDATE earmark_claim SET due_at = last_end_at").await.unwrap();
        sweep_once(&earmark).await;
        assert_eq!((stub.looks(), state(&store, "m1").await), (1, State::InDoubt), "too early to be proof");
        age(&db, &key("m1"), Duration::from_secs(12)).await;
        sweep_once(&earmark).await;
        assert_eq!((stub.looks(), state(&store, "m1").await), (2, State::Retryable));
        assert_eq!(stub.calls().len(), 1);
    }
}
