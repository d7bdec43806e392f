//! What a purge costs, measured by hand: bytes of a finished claim before and after it, what claims lose while it runs, and the
//! dead rows of a long load. The figures and what was decided by them: docs/adr/0007-retention-and-purge.md.
//!
//! ```text
//! cargo run --release -p earmark-tests --example purge_cost -- postgres 1000000
//! cargo run --release -p earmark-tests --example purge_cost -- dead 150
//! ```
//! On the servers that the tests use (see `earmark_tests::db`); a database of its own, dropped at the end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use earmark_claim::{Answer, ClaimStore, Claimed, NewClaim, Receipt};
use earmark_effects::stub::Stub;
use earmark_sweeper::{PurgeOptions, Purged, Purger};
use earmark_tests::claims::{age, key, keyed, never, store};
use earmark_tests::effects::earmark_with;
use earmark_tests::old::{DAY, age_closed, copy_apart};
use earmark_tests::{Backend, TestDb};
use sea_orm::ConnectionTrait;
use tokio_util::sync::CancellationToken;

/// As a payment is asked for, and as it is answered.
const REQUEST_BYTES: usize = 331;
const ANSWER_BYTES: usize = 212;
/// Effects under way at once.
const TASKS: usize = 32;
/// Interleaved, since the machine has moods.
const PAIRS: usize = 5;
const WINDOW: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u32| arguments.get(at).map_or(default, |n| n.parse().expect("a number"));
    match arguments.first().map(String::as_str) {
        Some("postgres") => cost(TestDb::new(Backend::Postgres).await, number(1, 100_000)).await,
        Some("partitioned") => cost(TestDb::partitioned().await, number(1, 100_000)).await,
        Some("mariadb") => cost(TestDb::new(Backend::MariaDb).await, number(1, 100_000)).await,
        Some("sqlite") => cost(TestDb::new(Backend::Sqlite).await, number(1, 100_000)).await,
        Some("dead") => dead(number(1, 150)).await,
        _ => println!("purge_cost postgres|partitioned|mariadb|sqlite [ROWS], or purge_cost dead [SECONDS]"),
    }
}

fn new() -> NewClaim {
    NewClaim::new("card.charge", "stripe", vec![b'x'; REQUEST_BYTES], keyed())
}

async fn perform(store: &ClaimStore, id: &str) -> Duration {
    let begun = Instant::now();
    let Claimed::Won(claim) = store.claim(&key(id), new()).await.unwrap() else { panic!("{id} is not new") };
    let took = begun.elapsed();
    let answer = Answer::new("application/json", vec![b'y'; ANSWER_BYTES]);
    let receipt = Receipt::<serde_json::Value>::new(Some(answer), Some(format!("ch_{id}")));
    let _ = store.settle(claim, Ok(receipt), Default::default()).await.unwrap();
    took
}

async fn fill(db: &TestDb, store: &ClaimStore, rows: u32) {
    perform(store, "m-0").await;
    age(db, &key("m-0"), DAY).await;
    age_closed(db, &key("m-0"), DAY * 2).await;
    copy_apart(db, "m-", rows, Duration::from_millis(1)).await;
}

/// Effects in a second, and the 99th percentile of a claim.
async fn load(store: &ClaimStore, round: usize, window: Duration) -> (f64, Duration) {
    let end = Instant::now() + window;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut claims = Vec::new();
                while Instant::now() < end {
                    let id = format!("{round}-{task}-{}-{:016x}", claims.len(), fastrand::u64(..));
                    claims.push(perform(&store, &id).await);
                }
                claims
            })
        })
        .collect();
    let mut claims = Vec::new();
    for task in tasks {
        claims.extend(task.await.unwrap());
    }
    claims.sort();
    (claims.len() as f64 / window.as_secs_f64(), claims[claims.len() * 99 / 100])
}

async fn cost(db: TestDb, rows: u32) {
    let claiming = store(&db).await;
    fill(&db, &claiming, rows).await;
    compact(&db).await;
    println!("bytes of a finished claim: {}", sizes(&db, rows).await);

    // In a process of its own: its own connections.
    let purging = store(&db).await;
    let earmark = earmark_with(&purging, &Stub::new("card.charge", never()));
    let purger = Purger::new(&earmark, PurgeOptions::new(DAY)).unwrap();
    load(&claiming, 0, WINDOW / 2).await;
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        let (alone, alone_p99) = load(&claiming, 2 * pair + 1, WINDOW).await;
        let stop = CancellationToken::new();
        let running = {
            let (purger, stop) = (purger.clone(), stop.clone());
            tokio::spawn(async move { purger.run_once(&stop, |_| {}).await.unwrap() })
        };
        let (beside, beside_p99) = load(&claiming, 2 * pair + 2, WINDOW).await;
        stop.cancel();
        let purged = running.await.unwrap();
        ratios.push(beside / alone);
        println!(
            "effects/s {alone:.0} -> {beside:.0} ({:.2}), claim p99 {alone_p99:.1?} -> {beside_p99:.1?}; purged {}/s in {} batches",
            beside / alone,
            rate(&purged, WINDOW),
            purged.batches
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median: {:.2} of the throughput without a purge", ratios[PAIRS / 2]);

    let begun = Instant::now();
    let options = PurgeOptions { share_percent: 100, ..PurgeOptions::new(DAY) };
    let rest =
        Purger::new(&earmark, options).unwrap().run_once(&CancellationToken::new(), |_| {}).await.unwrap();
    println!("the rest, unthrottled and alone: {} claims, {}/s", rest.claims, rate(&rest, begun.elapsed()));
    // What the load has made is not what is asked about.
    let made = "DELETE FROM earmark_claim WHERE purged_at IS NULL";
    db.connection().execute_unprepared(made).await.unwrap();
    compact(&db).await;
    println!("bytes of a tombstone: {}", sizes(&db, rows).await);
}

fn rate(purged: &Purged, window: Duration) -> u64 {
    (purged.claims as f64 / window.as_secs_f64()) as u64
}

async fn compact(db: &TestDb) {
    let sql = match db.backend() {
        Backend::Postgres => "VACUUM (FULL, ANALYZE) earmark_claim",
        Backend::MariaDb => "OPTIMIZE TABLE earmark_claim",
        Backend::Sqlite => "VACUUM",
    };
    db.connection().execute_unprepared(sql).await.unwrap();
}

async fn sizes(db: &TestDb, rows: u32) -> String {
    let of = async |sql: &str| db.number(sql).await / i64::from(rows);
    match db.backend() {
        Backend::Postgres => {
            let parts = "FROM pg_class WHERE relkind = 'r' AND relname LIKE 'earmark_claim%'";
            let table = of(&format!("SELECT sum(pg_table_size(oid))::bigint {parts}")).await;
            let indexes = of(&format!("SELECT sum(pg_indexes_size(oid))::bigint {parts}")).await;
            format!("{table} in the table, {indexes} in its indexes")
        }
        Backend::MariaDb => {
            let of_table = |column: &str| {
                format!(
                    "SELECT CAST({column} AS SIGNED) FROM information_schema.tables \
                     WHERE table_schema = DATABASE() AND table_name = 'earmark_claim'"
                )
            };
            let (table, indexes) = (of(&of_table("data_length")).await, of(&of_table("index_length")).await);
            format!("{table} in the table, {indexes} in its indexes")
        }
        Backend::Sqlite => {
            let pages = of("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").await;
            format!("{pages} in the file")
        }
    }
}

/// Dead rows after a long load on PostgreSQL, with the server's own settings of vacuum and with ours.
async fn dead(seconds: u32) {
    for reset in [true, false] {
        let db = TestDb::new(Backend::Postgres).await;
        if reset {
            let default = "ALTER TABLE earmark_claim RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, \
                           autovacuum_analyze_scale_factor)";
            db.connection().execute_unprepared(default).await.unwrap();
        }
        let store = store(&db).await;
        fill(&db, &store, 500_000).await;
        db.connection().execute_unprepared("VACUUM ANALYZE earmark_claim").await.unwrap();
        println!("{}", if reset { "the server's settings" } else { "ours" });
        let mut most = 0;
        for part in 0..seconds.div_ceil(10) {
            let (rate, p99) = load(&store, part as usize, Duration::from_secs(10)).await;
            let stat = |column: &str| {
                format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 'earmark_claim'")
            };
            let rows = db.number(&stat("n_dead_tup")).await;
            most = most.max(rows);
            println!(
                "  {:>3} s: {rate:.0} effects/s, claim p99 {p99:.1?}, dead rows {rows}, HOT {} of {} updates, vacuums {}, due index {} KiB",
                (part + 1) * 10,
                db.number(&stat("n_tup_hot_upd")).await,
                db.number(&stat("n_tup_upd")).await,
                db.number(&stat("autovacuum_count")).await,
                db.number("SELECT pg_relation_size('earmark_claim_due') / 1024").await,
            );
        }
        println!("  most dead rows seen: {most}");
    }
}
