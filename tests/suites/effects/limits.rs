//! Breaker and limits of a downstream, in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use earmark_claim::state::Taking;
use earmark_claim::{Declared, Failure, Permit, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Effect, Error, Halt, Limits, Outcome, Retaken};
use earmark_tests::claims::{key, keyed, natural, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::{TestDb, per_backend};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(60);

/// Counts how many of its calls are under way.
#[derive(Clone, Default)]
struct Counting {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Effect for Counting {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        "test.counting"
    }

    fn downstream(&self) -> &str {
        "narrow"
    }

    fn declared(&self) -> Declared {
        keyed()
    }

    async fn perform(&self, _: Permit<'_>, _: &Value) -> Result<Value, Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(json!({}))
    }
}

per_backend! {
    async fn no_more_calls_are_under_way_than_allowed_and_every_message_gets_its_turn(db: TestDb) {
        let effect = Counting::default();
        let limits = Limits { concurrent_calls: Some(2), patience: LONG, ..Limits::default() };
        let builder = Earmark::builder(store(&db).await).effect(effect.clone());
        let earmark = builder.downstream("narrow", limits).build().unwrap();
        let mut runs = tokio::task::JoinSet::new();
        for n in 0..20 {
            let earmark = earmark.clone();
            // Each of them comes twice.
            runs.spawn(async move { earmark.run::<Counting>(&key(&format!("m{}", n / 2)), &json!({})).await.unwrap() });
        }
        runs.join_all().await;
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed'").await, 10);
        assert_eq!((effect.calls.load(Ordering::SeqCst), effect.most.load(Ordering::SeqCst)), (10, 2));
    }

    async fn what_is_beyond_the_rate_is_claimed_and_left_to_the_sweep(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let slow = Limits { calls_per_second: Some(0.01), burst: Some(3), patience: Duration::ZERO, ..Limits::default() };
        let earmark = Earmark::builder(store.clone()).effect(stub.clone()).downstream("stub", slow).build().unwrap();
        for n in 0..3 {
            let message = key(&format!("m{n}"));
            for _ in 0..3 {
                assert!(earmark.run::<Stub>(&message, &json!({})).await.unwrap().is_confirmed(), "a duplicate costs no turn");
            }
        }
        let outcome = earmark.run::<Stub>(&key("beyond"), &json!({})).await.unwrap();
        let Outcome::Held { until } = outcome else { panic!("{outcome:?}") };
        assert!(until.since(store.now().await.unwrap()) > LONG, "not before the next turn");
        assert!(earmark.run::<Stub>(&key("m0"), &json!({})).await.unwrap().is_confirmed(), "a duplicate is answered");
        let retaken = earmark.retake(&key("beyond"), Taking::Begin).await.unwrap();
        assert!(matches!(retaken, Retaken::HeldBack(Halt::Limited { .. })), "{retaken:?}");
        assert_eq!(stub.calls().len(), 3);
        // Another process has limits of its own.
        let other = Earmark::builder(store.clone()).effect(stub.clone()).build().unwrap();
        let retaken = other.retake(&key("beyond"), Taking::Begin).await.unwrap();
        assert!(matches!(retaken, Retaken::Performed(Outcome::Confirmed(_))), "{retaken:?}");
        assert_eq!(stub.effects().len(), 4);
    }

    async fn a_provider_that_fails_in_a_row_is_sampled_and_nothing_is_lost_or_doubled(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed()).script(vec![Step::ActThenLose; 5]);
        let limits = Limits { breaker_sample_every: LONG, ..Limits::default() };
        let earmark =
            Earmark::builder(store.clone()).effect(stub.clone()).downstream("stub", limits).backoff(PATIENT).build().unwrap();
        for n in 0..8 {
            let outcome = earmark.run::<Stub>(&key(&format!("m{n}")), &json!({})).await.unwrap();
            match n {
                0..5 => assert!(matches!(outcome, Outcome::InDoubt { .. }), "{n}: {outcome:?}"),
                _ => assert!(matches!(outcome, Outcome::Held { .. }), "{n}: {outcome:?}"),
            }
        }
        assert!(earmark.is_failing("stub"));
        assert_eq!(stub.calls().len(), 5);
        // Somebody else's breaker is closed: the claims are anybody's.
        let other = Earmark::builder(store.clone()).effect(stub.clone()).build().unwrap();
        db.execute("UPDATE earmark_claim SET due_at = created_at").await.unwrap();
        for n in 0..8 {
            let how = if n < 5 { Taking::Redrive } else { Taking::Begin };
            let retaken = other.retake(&key(&format!("m{n}")), how).await.unwrap();
            assert!(matches!(retaken, Retaken::Performed(Outcome::Confirmed(_))), "{n}: {retaken:?}");
        }
        assert_eq!(stub.effects().len(), 8);
    }

    async fn a_sample_that_is_answered_closes_the_breaker(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", natural()).script(vec![Step::NotSent("refused_connection"); 3]);
        let limits = Limits { breaker_failures: 2, breaker_sample_every: Duration::from_millis(30), ..Limits::default() };
        let earmark =
            Earmark::builder(store.clone()).effect(stub.clone()).downstream("stub", limits).backoff(PATIENT).build().unwrap();
        let (mut n, mut held) = (0, 0);
        // Two fail and open it, a sample fails, the next one is answered.
        while !earmark.run::<Stub>(&key(&format!("m{n}")), &json!({})).await.unwrap().is_confirmed() {
            n += 1;
            let last = store.find(&key(&format!("m{}", n - 1))).await.unwrap().unwrap().facts.state;
            held += usize::from(last == State::Held);
            assert!(n < 100_000, "it never closes");
        }
        assert!(!earmark.is_failing("stub"));
        assert_eq!(n - held, 3, "three calls failed, and all others were held");
    }

    async fn limits_are_checked_when_things_are_built(db: TestDb) {
        let builder = Earmark::builder(store(&db).await)
            .downstream("stripe", Limits { concurrent_calls: Some(0), ..Limits::default() })
            .downstream("bad\nname", Limits::default())
            .pauses_every(Duration::from_secs(3600));
        let Err(Error::Config(faults)) = builder.build() else { panic!("it was built") };
        for says in ["downstream stripe: concurrent_calls", "\"bad\\nname\" is no stored name", "pauses_every is 3600s"] {
            assert!(faults.iter().any(|fault| fault.contains(says)), "{says}: {faults:?}");
        }
    }
}
