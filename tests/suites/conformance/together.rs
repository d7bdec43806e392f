//! What many write at once, with one statement, is on file as if each had written it alone.

use earmark_claim::{Answer, Backoff, Claimed, Receipt};
use earmark_tests::claims::{key, keyed, new_claim, store, view};
use earmark_tests::{TestDb, per_backend};
use tokio::task::JoinSet;

/// Enough at once that most of them share a statement.
const CLAIMS: usize = 64;

/// Sizes around what a server keeps in a row, in a page and elsewhere.
const SIZES: [usize; 7] = [1, 22, 331, 800, 5_000, 70_000, 250_000];

/// Bytes of every kind: no text.
fn bytes(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + n * 7) as u8).collect()
}

per_backend! {
    async fn every_request_and_every_receipt_is_kept_byte_by_byte(db: TestDb) {
        let store = store(&db).await;
        let mut tasks = JoinSet::new();
        for n in 0..CLAIMS {
            let store = store.clone();
            tasks.spawn(async move {
                let len = SIZES[n % SIZES.len()];
                let new = earmark_claim::NewClaim { request: bytes(n, len), ..new_claim(keyed()) };
                let Claimed::Won(claim) = store.claim(&key(&format!("m{n}")), new).await.unwrap() else {
                    panic!("m{n} is not new")
                };
                let answer = Answer::new("application/octet-stream", bytes(n + 1, len.min(50_000)));
                let receipt: Receipt = Receipt::new(Some(answer), Some(format!("ch_{n}")));
                let _ = store.settle(claim, Ok(receipt), Backoff::default()).await.unwrap();
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        for n in 0..CLAIMS {
            let (key, len) = (key(&format!("m{n}")), SIZES[n % SIZES.len()]);
            assert_eq!(store.request(&key).await.unwrap(), Some(bytes(n, len)), "{key}, {len} bytes");
            let on_file = view(&store, &key).await.receipt();
            let answer = on_file.answer.unwrap_or_else(|| panic!("{key}: no answer on file"));
            assert_eq!(answer.bytes, bytes(n + 1, len.min(50_000)), "{key}");
        }
    }
}
