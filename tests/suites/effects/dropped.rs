//! The caller goes away in the middle.

use std::time::Duration;

use earmark_claim::state::Taking;
use earmark_claim::{ClaimKey, State};
use earmark_effects::Earmark;
use earmark_effects::stub::{Step, Stub};
use earmark_tests::claims::{age, keyed, store};
use earmark_tests::effects::{PATIENT, earmark_with, unbroken};
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

/// How often a future is dropped, each time a little later.
const DROPS: u32 = 150;
/// How much later; the last ones come after the end.
const STEP: Duration = Duration::from_micros(60);
/// How long the work that was left behind may take.
const GRACE: Duration = Duration::from_secs(60);

fn key(n: u32) -> ClaimKey {
    ClaimKey::new("dropped", format!("m{n}")).unwrap()
}

per_backend! {
    async fn a_run_whose_caller_is_gone_goes_on_to_its_end_or_never_began(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        let mut cut = 0;
        for n in 0..DROPS {
            let (key, request) = (key(n), json!({}));
            cut += u32::from(tokio::time::timeout(STEP * n, earmark.run::<Stub>(&key, &request)).await.is_err());
        }
        assert!(cut > 0, "none was cut");
        assert_eq!(earmark.close(GRACE).await, 0);
        let effects = stub.effects();
        for n in 0..DROPS {
            let Some(view) = store.find(&key(n)).await.unwrap() else { continue };
            assert_eq!(view.facts.state, State::Confirmed, "{n}: claimed, and then left alone");
            assert_eq!(effects.iter().filter(|k| **k == view.idempotency_key).count(), 1, "{n}");
        }
        // The messages come again, to another process.
        let second = earmark_with(&store, &stub);
        for n in 0..DROPS {
            assert!(second.run::<Stub>(&key(n), &json!({})).await.unwrap().is_confirmed(), "{n}");
        }
        assert_eq!(stub.effects().len(), DROPS as usize);
        assert_eq!(stub.calls().len(), DROPS as usize, "no key was called twice");
    }

    async fn a_redrive_whose_caller_is_gone_goes_on_to_its_end(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed()).script(vec![Step::ActThenLose; 40]);
        let builder = Earmark::builder(store.clone()).backoff(PATIENT).effect(stub.clone());
        let earmark = builder.downstream("stub", unbroken()).build().unwrap();
        for n in 0..40 {
            let _ = earmark.run::<Stub>(&key(n), &json!({})).await.unwrap();
            age(&db, &key(n), PATIENT.max).await;
            let key = key(n);
            let _ = tokio::time::timeout(STEP * n * 2, earmark.retake(&key, Taking::Redrive)).await;
        }
        assert_eq!(earmark.close(GRACE).await, 0);
        for n in 0..40 {
            let state = store.find(&key(n)).await.unwrap().unwrap().facts.state;
            assert!(matches!(state, State::Confirmed | State::InDoubt), "{n}: {state}");
        }
        assert_eq!(stub.effects().len(), 40);
    }
}
