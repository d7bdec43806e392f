//! A claim is settled once.

use earmark_claim::{Backoff, Claim, ClaimStore, InFlight, Receipt};

async fn settle(store: &ClaimStore, claim: Claim<InFlight>, receipt: Receipt) {
    let _ = store.settle(claim, Ok(receipt.clone()), Backoff::default()).await;
    let _ = store.settle(claim, Ok(receipt), Backoff::default()).await;
}

fn main() {}
