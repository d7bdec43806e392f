//! B22: a service that is told to stop while its calls are under way. What callers and panics do to it is in the suite
//! `effects`.

use std::time::Duration;

use earmark_claim::{ClaimStore, State};
use earmark_tests::claims::{LEASE, age, key, store};
use earmark_tests::http::service;
use earmark_tests::process::{Service, declared, terminate};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};

const CALLS: usize = 20;

fn told_to_stop(db: &TestDb, provider: &Provider, grace: Duration) -> Service {
    let (database, provider) = (db.url().to_owned(), provider.origin());
    Service { database, provider, messages: CALLS, keyed: true, grace }
}

async fn states(store: &ClaimStore) -> Vec<State> {
    let mut states = Vec::new();
    for n in 0..CALLS {
        states.push(store.find(&key(&format!("m{n}"))).await.unwrap().unwrap().facts.state);
    }
    states
}

per_backend! {
    async fn with_time_enough_every_outcome_is_recorded_before_it_stops(db: TestDb) {
        let provider = Provider::deduplicating(vec![Reply::ActThenWait; CALLS]).await;
        let child = told_to_stop(&db, &provider, Duration::from_secs(60)).start("service");
        provider.arrived(CALLS).await;
        let stopped = tokio::spawn(terminate(child));
        provider.release();
        stopped.await.unwrap();
        assert_eq!(states(&store(&db).await).await, [State::Confirmed; CALLS]);
        assert_eq!((provider.calls().len(), provider.effects().len()), (CALLS, CALLS));
    }

    async fn with_too_little_time_what_is_left_is_swept_and_happens_once(db: TestDb) {
        let provider = Provider::deduplicating(vec![Reply::ActThenHold; CALLS]).await;
        let child = told_to_stop(&db, &provider, Duration::from_millis(1)).start("service");
        provider.arrived(CALLS).await;
        terminate(child).await;
        let store = store(&db).await;
        assert_eq!(states(&store).await, [State::InFlight; CALLS], "never a false \"no\"");
        for n in 0..CALLS {
            age(&db, &key(&format!("m{n}")), LEASE).await;
        }
        sweep_once(&service(&store, &provider, declared(true))).await;
        assert_eq!(states(&store).await, [State::Confirmed; CALLS]);
        assert_eq!((provider.calls().len(), provider.effects().len()), (2 * CALLS, CALLS));
    }
}
