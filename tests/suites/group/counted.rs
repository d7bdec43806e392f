//! What it costs: counted where each database lets it be counted.

use earmark_claim::{Backoff, ClaimStore, Settled, State};
use earmark_tests::claims::{LEASE, key, keyed, never, receipt, soon, won};
use earmark_tests::fault::Proxy;
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::{ConnectionTrait, DatabaseTransaction};

use super::kit::{claim_all, confirm_all, keys, moved, win_all};

const TASKS: usize = 128;
const EFFECTS: usize = 1000;

/// Counts requests on the way to a server, and commits in the log of a SQLite file.
struct Meter {
    proxy: Option<Proxy>,
    /// Keeps the log from being started anew.
    _reader: Option<DatabaseTransaction>,
    file: String,
}

impl Meter {
    async fn new(db: &TestDb) -> (Self, ClaimStore) {
        let options = earmark_claim::StoreOptions::new(LEASE);
        if db.backend() == Backend::Sqlite {
            let store = ClaimStore::connect(db.url(), options).await.unwrap();
            let file = db.url().trim_start_matches("sqlite://").split('?').next().unwrap().to_owned();
            let host = earmark_tests::claims::host(db).await;
            // A read that lasts.
            let reader = sea_orm::TransactionTrait::begin(&host).await.unwrap();
            reader.execute_unprepared("SELECT COUNT(*) FROM earmark_meta").await.unwrap();
            return (Self { proxy: None, _reader: Some(reader), file: format!("{file}-wal") }, store);
        }
        let proxy = Proxy::new(db).await;
        let store = ClaimStore::connect(proxy.url(), options).await.unwrap();
        (Self { proxy: Some(proxy), _reader: None, file: String::new() }, store)
    }

    fn read(&self) -> usize {
        match &self.proxy {
            Some(proxy) => proxy.requests(),
            None => commits_of(&std::fs::read(&self.file).unwrap()),
        }
    }
}

/// A write-ahead log: a header of 32 bytes, then frames, each with a header of 24. A frame that ends a commit says how large the
/// database is then, any other says zero. <https://sqlite.org/fileformat2.html#walformat>
fn commits_of(log: &[u8]) -> usize {
    if log.len() < 32 {
        return 0;
    }
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let (page, salt) = (word(8) as usize, &log[16..24]);
    let frames = (32..log.len().saturating_sub(24 + page - 1)).step_by(24 + page);
    frames.filter(|at| word(at + 4) > 0 && log[at + 8..at + 16] == *salt).count()
}

per_backend! {
    async fn many_effects_of_many_tasks_take_far_fewer_commits(db: TestDb) {
        let (meter, store) = Meter::new(&db).await;
        let before = meter.read();
        let keys = keys("m", EFFECTS);
        let next = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let keys = std::sync::Arc::new(keys);
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (store, keys, next) = (store.clone(), keys.clone(), next.clone());
                tokio::spawn(async move {
                    while let Some(key) = keys.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                        let claim = won(&store, key, never()).await;
                        let settled = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                        assert!(matches!(settled, Settled::Moved(State::Confirmed)));
                    }
                })
            })
            .collect();
        for task in tasks {
            soon("the crowd", task).await.unwrap();
        }
        let counted = meter.read() - before;
        println!("{counted} for {EFFECTS} effects of two writes each");
        assert!(counted < EFFECTS / 2, "{counted}");
        if db.backend() == Backend::Postgres {
            // The last writer of each row: so many transactions settled them.
            let commits = db.number("SELECT COUNT(DISTINCT xmin::text) FROM earmark_claim").await;
            println!("{commits} commits wrote the outcomes");
            assert!(commits < EFFECTS as i64 / 4, "{commits}");
        }
    }

    async fn one_task_alone_pays_two_statements_and_two_commits_for_an_effect(db: TestDb) {
        let (meter, store) = Meter::new(&db).await;
        let effect = async |id: String| {
            let claim = won(&store, &key(&id), never()).await;
            let _ = store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
        };
        // A connection that is used for the first time has its statements to prepare; there are few.
        let (mut counted, mut effects) = (0, 0);
        for round in 0..10 {
            let before = meter.read();
            for i in 0..50 {
                effect(format!("m{round}-{i}")).await;
            }
            effects += 50;
            counted = meter.read() - before;
            if counted == 100 {
                break;
            }
        }
        assert_eq!(counted, 100);
        if db.backend() == Backend::Postgres {
            // The last writer of each row: none was written together with another.
            let commits = db.number("SELECT COUNT(DISTINCT xmin::text) FROM earmark_claim").await;
            assert_eq!(commits, effects);
        }
    }

    async fn a_batch_is_one_request_and_its_losers_are_one_read(db: TestDb) {
        let (meter, store) = Meter::new(&db).await;
        if meter.proxy.is_none() {
            return; // reads leave nothing in a file
        }
        for round in 0..8 {
            let claims = win_all(&store, &keys(&format!("warm{round}-"), 100)).await;
            assert!(confirm_all(&store, claims).await.iter().all(moved));
            drop(claim_all(&store, &keys("warm0-", 100)).await);
            drop(win_all(&store, &keys(&format!("calm{round}-"), 2)).await);
        }
        let counted = async |what: &str, asked: usize| {
            println!("{what}: {asked}");
            asked
        };
        let before = meter.read();
        let claims = win_all(&store, &keys("m", 400)).await;
        // A large request may arrive in parts.
        assert!(counted("400 claims", meter.read() - before).await <= 8);
        let before = meter.read();
        assert!(confirm_all(&store, claims).await.iter().all(moved));
        assert!(counted("400 outcomes", meter.read() - before).await <= 8);
        let before = meter.read();
        drop(claim_all(&store, &keys("m", 400)).await);
        assert!(counted("400 losers", meter.read() - before).await <= 16);
        let before = meter.read();
        drop(claim_all(&store, &keys("m", 400)).await);
        // By now they are looked for first, and nothing is written.
        assert!(counted("400 likely duplicates", meter.read() - before).await <= 8);
    }

    /// Requests near the bound of what may be frozen: no statement is larger than any server takes.
    async fn large_requests_are_written_in_batches_of_a_bounded_size(db: TestDb) {
        // Not about patience: megabytes take a busy disk their time.
        let options = earmark_claim::StoreOptions { patience: LEASE, ..earmark_claim::StoreOptions::new(LEASE) };
        let store = earmark_tests::claims::store_with(&db, options).await;
        let large = |key| {
            let new = earmark_claim::NewClaim::new("mail.welcome", "mailer", vec![0xff; 1024 * 1024], keyed());
            (key, new)
        };
        let answers = store.claim_many(keys("m", 24).into_iter().map(large)).await.unwrap();
        let claims: Vec<_> = answers.into_iter().map(crate::kit::won).collect();
        let length = "SELECT COUNT(*) FROM earmark_claim WHERE LENGTH(request) = 1048576";
        assert_eq!(db.number(length).await, 24);
        let receipt = || earmark_claim::Receipt::<()>::new(Some(earmark_claim::Answer::new("a/b", vec![9; 64 * 1024])), None);
        let ends = claims.into_iter().map(|claim| (claim, Ok(receipt())));
        assert!(store.settle_many(ends, Backoff::default()).await.iter().all(moved));
        let length = "SELECT COUNT(*) FROM earmark_claim WHERE LENGTH(receipt) = 65536";
        assert_eq!(db.number(length).await, 24);
    }
}
