//! Batches that are made on purpose: `claim_many` queues its rows at once, and an idle store writes them together.

use earmark_claim::{
    Backoff, Claim, ClaimKey, ClaimStore, Claimed, Error, InFlight, Settled, State, StoreOptions,
};
use earmark_tests::claims::{begin, eventually, host, key, never, new_claim, receipt};
use earmark_tests::fault::Proxy;
use earmark_tests::{Backend, TestDb};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use tokio::task::JoinHandle;

/// The keys of so many messages.
pub fn keys(prefix: &str, n: usize) -> Vec<ClaimKey> {
    (0..n).map(|i| key(&format!("{prefix}{i:04}"))).collect()
}

/// Claims these keys together.
pub async fn claim_all(store: &ClaimStore, keys: &[ClaimKey]) -> Vec<Result<Claimed, Error>> {
    let claims = keys.iter().map(|key| (key.clone(), new_claim(never())));
    store.claim_many(claims).await.expect("they enter the queue")
}

/// The same; any answer but a win fails the test.
pub async fn win_all(store: &ClaimStore, keys: &[ClaimKey]) -> Vec<Claim<InFlight>> {
    claim_all(store, keys).await.into_iter().map(won).collect()
}

/// The claim of an answer that must be a win.
pub fn won(answer: Result<Claimed, Error>) -> Claim<InFlight> {
    match answer {
        Ok(Claimed::Won(claim)) => claim,
        other => panic!("not won: {other:?}"),
    }
}

/// Confirms these claims together.
pub async fn confirm_all(store: &ClaimStore, claims: Vec<Claim<InFlight>>) -> Vec<Result<Settled, Error>> {
    let ends = claims.into_iter().map(|claim| (claim, Ok(receipt("ch_1"))));
    store.settle_many(ends, Backoff::default()).await
}

/// Whether the claim was confirmed by its holder.
pub fn moved(settled: &Result<Settled, Error>) -> bool {
    matches!(settled, Ok(Settled::Moved(State::Confirmed)))
}

/// A database that stands still: on a server nothing gets through to it any more, on SQLite somebody writes and does not stop.
pub struct Stalled<'a> {
    proxy: Option<&'a Proxy>,
    writer: Option<DatabaseTransaction>,
}

/// A store whose database can be made to stand still.
pub struct Bench {
    pub db: TestDb,
    pub proxy: Option<Proxy>,
    pub store: ClaimStore,
}

impl Bench {
    pub async fn new(db: TestDb, options: StoreOptions) -> Self {
        let proxy = match db.backend() {
            Backend::Sqlite => None,
            _ => Some(Proxy::new(&db).await),
        };
        let url = proxy.as_ref().map_or(db.url(), Proxy::url);
        let store = ClaimStore::connect(url, options).await.expect("a store");
        Self { db, proxy, store }
    }

    /// Until [`Stalled::go_on`].
    pub async fn stall(&self) -> Stalled<'_> {
        let writer = match &self.proxy {
            Some(proxy) => {
                proxy.set_paused(true);
                None
            }
            None => {
                let tx = begin(&host(&self.db).await).await;
                tx.execute_unprepared("UPDATE earmark_meta SET value = value").await.expect("a write");
                Some(tx)
            }
        };
        Stalled { proxy: self.proxy.as_ref(), writer }
    }

    /// Whoever empties the queue is at work, and stands still: nothing that comes later is handed over. (SQLite shows nobody how far it is.)
    pub async fn occupy(&self) -> Vec<JoinHandle<Result<Claimed, Error>>> {
        let mut occupied = Vec::new();
        // On MySQL and SQLite one batch of claims is under way at most.
        let batches = if self.db.backend() == Backend::Postgres { 2 } else { 1 };
        for i in 0..batches {
            let before = self.proxy.as_ref().map(Proxy::requests);
            let (store, key) = (self.store.clone(), key(&format!("occupied{i}")));
            occupied.push(tokio::spawn(async move { store.claim(&key, new_claim(never())).await }));
            if let Some(proxy) = &self.proxy {
                eventually("it is handed over", async || Some(proxy.requests()) > before).await;
            }
        }
        occupied
    }

    /// Every place in the queue is free: so many rows as it has enter together, and at once.
    pub async fn queue_is_free(&self, prefix: &str) {
        let capacity = self.store.options().queue_capacity;
        let claims = win_all(&self.store, &keys(prefix, capacity)).await;
        let settled = confirm_all(&self.store, claims).await;
        assert!(settled.iter().all(moved), "{settled:?}");
    }
}

impl Stalled<'_> {
    pub async fn go_on(self) {
        if let Some(proxy) = self.proxy {
            proxy.set_paused(false);
        }
        if let Some(writer) = self.writer {
            writer.rollback().await.expect("a roll-back");
        }
    }
}
