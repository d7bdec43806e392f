//! Many services and many sweepers on one database, each in a process of its own: no leader, no lock but those of rows.

use std::collections::HashMap;
use std::convert::Infallible;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use earmark_tests::claims::eventually;
use earmark_tests::crowd::{Member, Role};
use earmark_tests::process::terminate;
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::{ConnectionTrait, Statement};
use tokio::process::Child;
use tokio::task::JoinSet;

const MESSAGES: usize = 2000;
const SERVICES: u64 = 4;

/// Calls that the killed service has in the air: they have acted, and nobody hears of it.
const CUT: usize = 8;
/// Calls of the others whose answers are lost.
const LOST: usize = 40;

per_backend! {
    async fn of_two_thousand_messages_at_four_processes_each_has_one_effect_and_two_sweepers_clear_up(db: TestDb) {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        // The first calls are the killed service's; some answers among those after it are lost.
        let mut script = vec![Reply::ActThenWait; CUT];
        let mut rest = vec![Reply::Act; MESSAGES / 2];
        rest[..LOST].fill(Reply::ActThenDrop);
        dice.shuffle(&mut rest);
        script.append(&mut rest);
        let provider = Provider::deduplicating(script).await;
        let member = |role| Member { database: db.url().to_owned(), provider: provider.origin(), role };
        let mut service = || member(Role::Service { messages: MESSAGES, seed: dice.u64(..) }).start("member");

        let mut killed = service();
        provider.arrived(CUT).await;
        let sweepers = ["one", "two"].map(|name| member(Role::Sweeper { name: name.to_owned() }).start("member"));
        let mut services: Vec<Child> = (1..SERVICES).map(|_| service()).collect();
        provider.arrived(MESSAGES / 4).await;
        killed.kill().await.unwrap();
        // A supervisor starts it again, and the broker gives it everything again.
        services.push(service());

        let mut ends = JoinSet::new();
        for mut service in services {
            ends.spawn(async move { service.wait().await.unwrap() });
        }
        let advisory_locks = AtomicI64::new(0);
        let ended = tokio::select! {
            ended = all(ends) => ended,
            never = count_advisory_locks(&db, &advisory_locks) => match never {},
        };
        assert!(ended.iter().all(ExitStatus::success), "an outcome that may not be acknowledged: {ended:?}");
        assert_eq!(advisory_locks.into_inner(), 0);
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim").await, MESSAGES as i64);
        let open = "SELECT COUNT(*) FROM earmark_claim WHERE state <> 'confirmed'";
        assert!(db.number(open).await >= CUT as i64, "the sweepers find something to do");

        // The dead one's leases end, and whatever waits is due; what a sweeper has taken over keeps its lease.
        let due = "UPDATE earmark_claim SET due_at = created_at \
                   WHERE due_at IS NOT NULL AND (state <> 'in_flight' OR fence = 1)";
        eventually("everything is confirmed", async || {
            // A sweeper may have one of the rows just then (a deadlock on MariaDB): the next time, then.
            let _ = db.execute(due).await;
            db.number(open).await == 0
        })
        .await;
        for sweeper in sweepers {
            terminate(sweeper).await;
        }
        assert_eq!(db.number("SELECT COUNT(*) FROM earmark_sweeper WHERE passes > 0").await, 2);

        let mut effects = HashMap::new();
        for key in provider.effects() {
            *effects.entry(key).or_insert(0) += 1;
        }
        assert_eq!(effects.len(), MESSAGES, "none is lost");
        assert!(effects.values().all(|n| *n == 1), "none is doubled");
        let mut calls: HashMap<String, i64> = HashMap::new();
        for call in provider.calls() {
            *calls.entry(call.key()).or_default() += 1;
        }
        // A provider that deduplicates hides a second call, so they are counted against what the claims say.
        let mut taken_over = 0;
        for (key, attempts) in attempts(&db).await {
            assert!(calls[&key] <= attempts, "{key}: {} calls in {attempts} attempts", calls[&key]);
            taken_over += usize::from(attempts > 1);
        }
        assert!(taken_over >= CUT, "{taken_over}");
    }
}

async fn all(mut ends: JoinSet<ExitStatus>) -> Vec<ExitStatus> {
    let mut all = Vec::new();
    while let Some(end) = ends.join_next().await {
        all.push(end.unwrap());
    }
    all
}

/// Counts those of this database that are seen, until it is dropped. Only PostgreSQL shows them.
async fn count_advisory_locks(db: &TestDb, seen: &AtomicI64) -> Infallible {
    let sql = "SELECT COUNT(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
               WHERE d.datname = current_database() AND l.locktype = 'advisory'";
    loop {
        if db.backend() == Backend::Postgres {
            seen.fetch_add(db.number(sql).await, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Idempotency keys with the attempts that may have left.
async fn attempts(db: &TestDb) -> Vec<(String, i64)> {
    let (text, number) = match db.backend() {
        Backend::MariaDb => ("CHAR", "SIGNED"),
        Backend::Sqlite | Backend::Postgres => ("TEXT", "BIGINT"),
    };
    let sql = format!(
        "SELECT CAST(idempotency_key AS {text}) AS k, CAST(attempts AS {number}) AS n FROM earmark_claim"
    );
    let statement = Statement::from_string(db.connection().get_database_backend(), sql);
    let rows = db.connection().query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| (row.try_get("", "k").unwrap(), row.try_get("", "n").unwrap())).collect()
}
