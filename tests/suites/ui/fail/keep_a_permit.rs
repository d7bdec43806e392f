//! A permit does not outlive its claim.

use earmark_claim::{Claim, InFlight, Permit};

fn keep(claim: Claim<InFlight>) -> Permit<'static> {
    claim.permit()
}

fn main() {}
