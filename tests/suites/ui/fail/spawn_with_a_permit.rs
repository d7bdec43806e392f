//! A call cannot be left running behind the back of its claim.

use earmark_claim::{Claim, InFlight};

async fn leave(claim: Claim<InFlight>) {
    let permit = claim.permit();
    tokio::spawn(async move {
        let _ = permit.last_look();
    });
}

fn main() {}
