//! Two holders of one claim would be two calls.

use earmark_claim::{Claim, InFlight};

fn copy(claim: &Claim<InFlight>) -> Claim<InFlight> {
    claim.clone()
}

fn main() {}
