//! How long a pass takes beside many finished claims: printed for a person, asserted by nobody.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use earmark_claim::{State, Walk};
use earmark_effects::Earmark;
use earmark_effects::stub::Stub;
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{in_state, key, natural};
use earmark_tests::fill::text_and_number;
use earmark_tests::{Backend, TestDb};

use crate::stage::{analyze, due, finished, with_finished};

/// Claims that are due, of a hundred tenants.
const DUE: u64 = 10_000;
const PASSES: usize = 9;

async fn measure(backend: Backend) {
    let db = TestDb::new(backend).await;
    let filling = Instant::now();
    let store = with_finished(&db).await;
    in_state(&db, &store, &key("due-0"), State::InDoubt, natural()).await;
    due(&db, "due-", DUE, &text_and_number(backend, "t", "({n} % 100)")).await;
    db.execute("DELETE FROM earmark_claim WHERE message_id = 'due-0' AND tenant = ''").await.unwrap();
    analyze(&db).await;
    println!("{backend:?}: {} finished, {DUE} due, made in {:?}", finished(), filling.elapsed());

    let earmark =
        Earmark::builder(store.clone()).effect(Stub::new("mail.welcome", natural())).build().unwrap();
    let sweeper = Sweeper::new(&earmark, SweeperOptions::default()).unwrap();
    let (mut walks, mut passes) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        let begun = Instant::now();
        let found = store.walk_due(Walk::default(), 100, 500, HashSet::new()).await.unwrap();
        walks.push((begun.elapsed(), found.rows_read));
        let begun = Instant::now();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.confirmed), (500, 500), "{pass:?}");
        passes.push((begun.elapsed(), 500));
    }
    for (what, mut times) in [("finding 500", walks), ("a pass of 500", passes)] {
        times.sort();
        let (least, middle, most): ((Duration, u64), _, _) = (times[0], times[PASSES / 2], times[PASSES - 1]);
        println!(
            "{backend:?}: {what}: {:?} [{:?} to {:?}], {} rows read",
            middle.0, least.0, most.0, middle.1
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for a person: prints times"]
async fn sqlite() {
    measure(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for a person: prints times"]
async fn postgres() {
    measure(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for a person: prints times"]
async fn mariadb() {
    measure(Backend::MariaDb).await;
}
