//! A permit is lent by a claim in flight, and made by nobody.

use earmark_claim::{Claim, InFlight, Permit};

fn forge(claim: &Claim<InFlight>) -> Permit<'_> {
    Permit { claim }
}

fn main() {}
