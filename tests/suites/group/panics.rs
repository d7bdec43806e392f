//! Code that panics in the middle of a batch, such as a logger of the host's: whoever waits is told that nobody knows, and the queue goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use earmark_claim::{Claimed, Error};
use earmark_tests::claims::{key, never, new_claim, soon, store};
use earmark_tests::{Backend, TestDb};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::kit::{claim_all, keys, won};

static ARMED: AtomicBool = AtomicBool::new(false);

/// Panics once at the word that a batch has failed.
struct Panics;

impl Visit for Panics {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let said = format!("{value:?}");
        if field.name() == "message" && said.contains("a batch failed") && ARMED.swap(false, Ordering::SeqCst)
        {
            panic!("the host's logger");
        }
    }
}

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("earmark_claim")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_batch_does_not_wedge_the_queue() {
    tracing::subscriber::set_global_default(Panics).unwrap();
    let db = TestDb::new(Backend::Sqlite).await;
    db.execute(
        "CREATE TRIGGER shop BEFORE INSERT ON earmark_claim WHEN NEW.message_id = 'poison' \
         BEGIN SELECT RAISE(ABORT, 'shop rule'); END",
    )
    .await
    .unwrap();
    let store = store(&db).await;
    for round in 0..3 {
        let mut all = keys(&format!("m{round}-"), 20);
        all.push(key("poison"));
        let later = keys(&format!("later{round}-"), 700);
        ARMED.store(true, Ordering::SeqCst);
        // More than one batch: those behind the panic are written by whoever comes after.
        let (hit, behind) =
            soon("the answers", async { tokio::join!(claim_all(&store, &all), claim_all(&store, &later)) })
                .await;
        assert!(!ARMED.load(Ordering::SeqCst), "nothing panicked");
        let unclear = |answer: &Result<Claimed, Error>| matches!(answer, Err(Error::Unclear { .. }));
        assert!(hit.iter().all(unclear), "{hit:?}");
        let (known, lost): (Vec<_>, Vec<_>) = behind.into_iter().partition(|answer| !unclear(answer));
        assert!(known.len() >= 200, "{} are behind", known.len());
        drop(known.into_iter().map(won).collect::<Vec<_>>());
        println!("{} shared the batch", lost.len());
        // Nothing keeps their keys: they were rolled back, and are claimed anew.
        drop(claim_all(&store, &all[..20]).await.into_iter().map(won).collect::<Vec<_>>());
    }
    drop(won(store.claim(&key("alone"), new_claim(never())).await));
    soon("the end", store.close()).await;
}
