//! B20: PgBouncer lends two servers, transaction by transaction, and is restarted in the middle, three times.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use earmark_claim::{ClaimStore, StoreOptions};
use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Effect};
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{LEASE, eventually, key, never};
use earmark_tests::effects::{earmark_with, probed};
use earmark_tests::pgbouncer::{PgBouncer, TRANSACTIONS};
use earmark_tests::{Backend, TestDb};
use serde_json::json;
use tokio::task::JoinSet;

const CLAIMS: usize = 10_000;
/// Of each of the two services.
const TASKS: usize = 16;

/// What the store says to its log, in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Of everything in this process, from now on.
    fn install() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let filter = tracing_subscriber::EnvFilter::new("earmark_claim=debug");
        let told = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        told.with_writer(move || writer.clone()).init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn service(url: &str, stub: &Stub) -> Earmark {
    let options = StoreOptions { pooler: true, ..StoreOptions::new(LEASE) };
    earmark_with(&ClaimStore::connect(url, options).await.unwrap(), stub)
}

fn sweeper(earmark: &Earmark) -> Sweeper {
    let options = SweeperOptions { batch_max: 2000, share_max: 2000, ..SweeperOptions::default() };
    Sweeper::new(earmark, options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_ten_thousand_claims_through_a_pooler_that_is_restarted_are_each_done_once() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let log = Log::install();
    let db = TestDb::new(Backend::Postgres).await;
    let mut pooler = PgBouncer::start(&db, TRANSACTIONS).await;
    // A provider that deduplicates nothing and can be asked.
    let stub = Stub::new("mail.welcome", probed(never()));
    assert!(stub.declared().probe.is_some());
    let services = [service(pooler.url(), &stub).await, service(pooler.url(), &stub).await];
    let sweeping = {
        let sweeper = sweeper(&service(pooler.url(), &stub).await);
        tokio::spawn(async move {
            loop {
                // The pooler may be away just then.
                let _ = sweeper.run_once().await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    };
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..2 * TASKS {
        let (earmark, next) = (services[task % 2].clone(), next.clone());
        tasks.spawn(async move {
            let mut given_back = 0;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= CLAIMS {
                    return given_back;
                }
                // An error: the message is delivered again.
                while let Err(error) = earmark.run::<Stub>(&key(&format!("m{n}")), &json!({ "n": n })).await {
                    given_back += 1;
                    let said = earmark_claim::failure::chain(&error);
                    assert!(!said.contains("prepared statement"), "{said}");
                }
            }
        });
    }
    for quarter in 1..4 {
        while next.load(Ordering::Relaxed) < CLAIMS / 4 * quarter {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        pooler.restart().await;
    }
    let given_back: u32 = tasks.join_all().await.into_iter().sum();
    sweeping.abort();
    let _ = sweeping.await;

    // Whoever lost sight of a claim at the restart is dead by now.
    let last = sweeper(&service(pooler.url(), &stub).await);
    let open = "SELECT COUNT(*) FROM earmark_claim WHERE state <> 'confirmed'";
    println!("given back {given_back}, open {}", db.number(open).await);
    let micros = LEASE.as_micros() * 600;
    let columns = ["due_at", "created_at", "window_from", "last_end_at"];
    let past = columns.map(|c| format!("{c} = {c} - {micros}")).join(", ");
    eventually("every claim is resolved", async || {
        db.execute(&format!("UPDATE earmark_claim SET {past} WHERE state <> 'confirmed'")).await.unwrap();
        last.run_once().await.unwrap();
        db.number(open).await == 0
    })
    .await;

    assert_eq!(db.number("SELECT COUNT(*) FROM earmark_claim").await, CLAIMS as i64);
    let effects = stub.effects();
    let distinct: std::collections::HashSet<_> = effects.iter().collect();
    assert_eq!((effects.len(), distinct.len()), (CLAIMS, CLAIMS), "one effect each");
    let said = log.text();
    let cut = said.lines().filter(|line| line.contains("trying again")).count();
    assert!(cut > 0, "the restart cut nothing");
    let statements = ["prepared statement", "26000", "42P05", "bind message"];
    let wrong: Vec<_> = said.lines().filter(|line| statements.iter().any(|s| line.contains(s))).collect();
    assert!(wrong.is_empty(), "{} statements went astray: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}
