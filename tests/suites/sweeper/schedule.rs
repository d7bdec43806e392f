//! Passes on schedule: slow ones, failing ones, the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use earmark_claim::{Declared, Failure, Permit, State};
use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Effect};
use earmark_sweeper::{Schedule, Sweeper, SweeperOptions};
use earmark_tests::claims::{key, natural, store};
use earmark_tests::{Backend, TestDb, per_backend};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::kit::{KIND, World, new, past_lease};
use crate::many::copies;

/// Slower than the interval, and says how many of its calls ran at once.
#[derive(Clone)]
struct Slow {
    running: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    done: Arc<AtomicU32>,
    stop: CancellationToken,
}

impl Effect for Slow {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        KIND
    }

    fn downstream(&self) -> &str {
        "stub"
    }

    fn declared(&self) -> Declared {
        natural()
    }

    async fn perform(&self, permit: Permit<'_>, _: &Value) -> Result<Value, Failure> {
        permit.last_look()?;
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1600)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.done.fetch_add(1, Ordering::SeqCst) + 1 == 3 {
            self.stop.cancel();
        }
        Ok(Value::Null)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_that_is_slower_than_the_interval_does_not_overlap_itself() {
    let db = TestDb::new(Backend::Sqlite).await;
    let stop = CancellationToken::new();
    let slow =
        Slow { running: Arc::default(), most: Arc::default(), done: Arc::default(), stop: stop.clone() };
    let earmark = Earmark::builder(store(&db).await).effect(slow.clone()).build().unwrap();
    let world = World::new(&db, Stub::new(KIND, natural())).await;
    world.crash(&key("m-0"), new(natural())).await;
    copies(&db, 3).await;
    // One claim a pass, so that a second pass beside it would take another.
    let options = SweeperOptions { batch_max: 1, ..SweeperOptions::default() };
    let sweeper = Sweeper::new(&earmark, options).unwrap();
    sweeper.run(&Schedule::every(Duration::from_secs(1)).unwrap(), stop).await.unwrap();
    assert_eq!((slow.done.load(Ordering::SeqCst), slow.most.load(Ordering::SeqCst)), (3, 1));
    assert_eq!(slow.running.load(Ordering::SeqCst), 0, "what was under way has settled");
}

/// A call that lasts until it is let go.
#[derive(Clone, Default)]
struct Gate {
    entered: Arc<Notify>,
    leave: Arc<Notify>,
}

impl Effect for Gate {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        KIND
    }

    fn downstream(&self) -> &str {
        "stub"
    }

    fn declared(&self) -> Declared {
        natural()
    }

    async fn perform(&self, permit: Permit<'_>, _: &Value) -> Result<Value, Failure> {
        permit.last_look()?;
        self.entered.notify_one();
        self.leave.notified().await;
        Ok(Value::Null)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_pass_is_running_another_is_skipped_and_a_stop_lets_it_settle() {
    let db = TestDb::new(Backend::Sqlite).await;
    let gate = Gate::default();
    let earmark = Earmark::builder(store(&db).await).effect(gate.clone()).build().unwrap();
    let world = World::new(&db, Stub::new(KIND, natural())).await;
    world.crash(&key("m-0"), new(natural())).await;
    copies(&db, 3).await;
    let options = SweeperOptions { concurrency: 1, ..SweeperOptions::default() };
    let sweeper = Sweeper::new(&earmark, options).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (sweeper, stop) = (sweeper.clone(), stop.clone());
        async move { sweeper.try_run_once(&stop).await.unwrap().unwrap() }
    });
    gate.entered.notified().await;
    assert_eq!(sweeper.try_run_once(&CancellationToken::new()).await.unwrap(), None);
    assert!(sweeper.vitals().since_progress.is_some());
    // The one under way is settled, and the two that wait for its place are not begun.
    stop.cancel();
    gate.leave.notify_one();
    let pass = running.await.unwrap();
    assert_eq!((pass.due, pass.performed, pass.confirmed), (3, 1, 1));
}

per_backend! {
    async fn a_pass_that_fails_is_followed_by_one_that_does_not(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m-0"), new(natural())).await;
        copies(&db, 2).await;
        db.execute("ALTER TABLE earmark_claim RENAME TO gone").await.unwrap();
        for _ in 0..2 {
            assert!(world.sweeper.run_once().await.is_err());
            assert!(!world.sweeper.vitals().has_succeeded);
        }
        db.execute("ALTER TABLE gone RENAME TO earmark_claim").await.unwrap();
        assert_eq!(world.sweep().await.confirmed, 2);
        assert!(world.sweeper.vitals().has_succeeded);
        assert_eq!(world.sweeper.vitals().since_progress, None);
    }

    async fn after_a_stop_nothing_new_is_begun(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m-0"), new(natural())).await;
        copies(&db, 3).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let pass = world.sweeper.try_run_once(&stop).await.unwrap().unwrap();
        assert_eq!((pass.performed, world.stub.calls().len()), (0, 0));
        assert_eq!(world.state(&key("m-0")).await, State::InFlight);
        // And a scheduled one ends at once.
        world.sweeper.run(&Schedule::every(past_lease() - Duration::from_secs(1)).unwrap(), stop).await.unwrap();
        assert!(world.stub.calls().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_cut_cost_no_claim() {
    earmark_tests::db::on(Backend::Postgres, |db: TestDb| async move {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m-0"), new(natural())).await;
        copies(&db, 20).await;
        for _ in 0..5 {
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .await
            .unwrap();
            let _ = world.sweeper.run_once().await;
        }
        // Whatever failed has stepped aside here; another sweeper finds it.
        let other = World::new(&db, world.stub.clone()).await;
        other.sweep().await;
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed'").await, 20);
    })
    .await;
}
