//! A service that is told to stop.

use std::sync::Arc;
use std::time::Duration;

use earmark_claim::state::Taking;
use earmark_claim::{ClaimKey, Failure, Permit, State};
use earmark_effects::{Earmark, Effect, Error};
use earmark_tests::claims::{key, never, store};
use earmark_tests::{TestDb, per_backend};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

const CALLS: usize = 20;
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);

/// Calls that take until the gate is opened.
#[derive(Clone)]
struct Gated {
    gate: Arc<Semaphore>,
    under_way: watch::Sender<usize>,
}

impl Gated {
    fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), under_way: watch::channel(0).0 }
    }

    async fn all_under_way(&self) {
        self.under_way.subscribe().wait_for(|n| *n == CALLS).await.unwrap();
    }
}

impl Effect for Gated {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        "test.gated"
    }

    fn downstream(&self) -> &str {
        "nobody"
    }

    fn declared(&self) -> earmark_claim::Declared {
        earmark_claim::Declared { call_timeout: Duration::from_secs(50), landing_horizon: None, ..never() }
    }

    async fn perform(&self, permit: Permit<'_>, _: &Value) -> Result<Value, Failure> {
        permit.last_look()?;
        self.under_way.send_modify(|n| *n += 1);
        let _open = self.gate.acquire().await?;
        Ok(json!({}))
    }
}

fn message(n: usize) -> ClaimKey {
    key(&format!("m{n}"))
}

fn run_all(earmark: &Earmark) {
    for n in 0..CALLS {
        let earmark = earmark.clone();
        tokio::spawn(async move { earmark.run::<Gated>(&message(n), &json!({})).await });
    }
}

async fn states(earmark: &Earmark) -> Vec<State> {
    let mut states = Vec::new();
    for n in 0..CALLS {
        if let Some(view) = earmark.store().find(&message(n)).await.unwrap() {
            states.push(view.facts.state);
        }
    }
    states
}

per_backend! {
    async fn a_long_grace_records_every_outcome_and_begins_nothing_new(db: TestDb) {
        let gated = Gated::new();
        let earmark = Earmark::builder(store(&db).await).effect(gated.clone()).build().unwrap();
        run_all(&earmark);
        gated.all_under_way().await;
        let closing = earmark.clone();
        let closed = tokio::spawn(async move { closing.close(LONG).await });
        // Until it is closing, this one would begin.
        let refused = async {
            while !matches!(earmark.run::<Gated>(&message(0), &json!({})).await, Err(Error::Closing)) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, refused).await.expect("it closes");
        let late = earmark.run::<Gated>(&key("late"), &json!({})).await;
        assert!(matches!(late, Err(Error::Closing)), "{late:?}");
        assert!(earmark.store().find(&key("late")).await.unwrap().is_none(), "nothing was written");
        gated.gate.add_permits(CALLS);
        assert_eq!(closed.await.unwrap(), 0);
        assert_eq!(states(&earmark).await, [State::Confirmed; CALLS]);
    }

    async fn a_short_grace_leaves_claims_in_flight_for_the_sweep(db: TestDb) {
        let gated = Gated::new();
        let earmark = Earmark::builder(store(&db).await).effect(gated.clone()).build().unwrap();
        run_all(&earmark);
        gated.all_under_way().await;
        assert_eq!(earmark.close(SHORT).await, CALLS);
        assert_eq!(states(&earmark).await, [State::InFlight; CALLS]);
        let refused = earmark.retake(&message(0), Taking::Redrive).await;
        assert!(matches!(refused, Err(Error::Closing)), "a sweep begins nothing either: {refused:?}");
    }

    async fn what_was_claimed_when_it_closed_is_waited_for(db: TestDb) {
        let store = store(&db).await;
        for round in 0..30_u32 {
            let gated = Gated::new();
            gated.gate.add_permits(CALLS);
            let earmark = Earmark::builder(store.clone()).effect(gated.clone()).build().unwrap();
            let message = |n: usize| key(&format!("{round}-{n}"));
            for n in 0..5 {
                let (earmark, key) = (earmark.clone(), message(n));
                tokio::spawn(async move { earmark.run::<Gated>(&key, &json!({})).await });
            }
            // A little later each round: some are then between their claim and their call.
            tokio::time::sleep(Duration::from_micros(100) * round).await;
            assert_eq!(earmark.close(LONG).await, 0);
            for n in 0..5 {
                let Some(view) = store.find(&message(n)).await.unwrap() else { continue };
                assert_eq!(view.facts.state, State::Confirmed, "{}", view.key);
            }
        }
    }
}
