//! While a permit is out, the call may still be under way: the claim cannot be settled.

use earmark_claim::{Backoff, Claim, ClaimStore, InFlight, Receipt};

async fn settle(store: &ClaimStore, claim: Claim<InFlight>, receipt: Receipt) {
    let permit = claim.permit();
    let _ = store.settle(claim, Ok(receipt), Backoff::default()).await;
    let _ = permit.last_look();
}

fn main() {}
