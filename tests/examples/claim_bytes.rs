//! How many bytes a claim takes on each database: the numbers behind the sizing table of docs/scaling.md.
//!
//! `cargo run -p earmark-tests --example claim_bytes -- 50000`, with the servers that the tests use (see `tests/run --help`).
//! So many claims are made and confirmed through the store, each with a request of 331 bytes and a receipt of 212 in a database of
//! its own, which is dropped again. Then the receipts and requests are dropped as a purge drops them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use earmark_claim::{Answer, Backoff, ClaimKey, Claimed, NewClaim, Receipt};
use earmark_tests::claims::{keyed, store};
use earmark_tests::{Backend, TestDb};
use tokio::task::JoinSet;

const REQUEST_BYTES: usize = 331;
const RECEIPT_BYTES: usize = 212;
const TASKS: usize = 32;

#[tokio::main]
async fn main() {
    let count = match std::env::args().nth(1).map(|n| n.parse::<u32>()) {
        Some(Ok(count)) if count > 0 => count,
        _ => {
            eprintln!("claim_bytes COUNT: how many claims, at least 1");
            std::process::exit(2);
        }
    };
    println!("{count} claims; bytes a claim");
    for backend in Backend::all() {
        let db = TestDb::new(*backend).await;
        let before = size(&db).await;
        fill(&db, count).await;
        let of = |bytes: i64| (bytes as f64 / f64::from(count)).round();
        println!("{backend:?} as written: {}", of(size(&db).await - before));
        compact(&db).await;
        println!("{backend:?} compact: {}", of(size(&db).await - before));
        db.execute("UPDATE earmark_claim SET request = NULL, receipt = NULL, purged_at = closed_at")
            .await
            .expect("a purge");
        compact(&db).await;
        println!("{backend:?} tombstone, compact: {}", of(size(&db).await - before));
    }
}

async fn fill(db: &TestDb, count: u32) {
    let store = store(db).await;
    let next = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (store, next) = (store.clone(), next.clone());
        tasks.spawn(async move {
            let body = |bytes: usize| format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - 8)).into_bytes();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    break;
                }
                // As long and as random as a UUID.
                let id = format!("{:032x}-{n:03x}", fastrand::u128(..));
                let key = ClaimKey::in_tenant("acme", "billing", &id[..36]).expect("a key");
                let mut new = NewClaim::new("billing.charge", "stripe", body(REQUEST_BYTES), keyed());
                new.business_ref = Some(format!("order-{n}"));
                let Claimed::Won(claim) = store.claim(&key, new).await.expect("a claim") else {
                    panic!("{key} is not new")
                };
                let answer = Answer::new("application/json", body(RECEIPT_BYTES));
                let receipt: Receipt =
                    Receipt::new(Some(answer), Some(format!("ch_{:016x}", fastrand::u64(..))));
                let _ = store.settle(claim, Ok(receipt), Backoff::default()).await.expect("a settle");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("claims");
    }
    store.close().await;
}

/// All of `earmark_claim` with its indexes; on SQLite the file, in which little else is.
async fn size(db: &TestDb) -> i64 {
    match db.backend() {
        Backend::Postgres => db.number("SELECT pg_total_relation_size('earmark_claim')").await,
        Backend::MariaDb => {
            let sql = "SELECT CAST(file_size AS SIGNED) FROM information_schema.innodb_sys_tablespaces \
                       WHERE name = CONCAT(DATABASE(), '/earmark_claim')";
            db.number(sql).await
        }
        Backend::Sqlite => {
            db.number("PRAGMA wal_checkpoint(TRUNCATE)").await;
            db.number("SELECT p.page_count * s.page_size FROM pragma_page_count p, pragma_page_size s").await
        }
    }
}

/// Without the room that rows took before they were updated.
async fn compact(db: &TestDb) {
    let sql = match db.backend() {
        Backend::Postgres => "VACUUM FULL earmark_claim",
        Backend::MariaDb => "ALTER TABLE earmark_claim FORCE",
        Backend::Sqlite => "VACUUM",
    };
    db.execute(sql).await.expect("a compact table");
}
