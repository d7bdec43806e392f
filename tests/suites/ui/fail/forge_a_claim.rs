//! A claim comes from the store: it cannot be made of another one's parts.

use earmark_claim::{Claim, Held, InFlight};

fn forge(held: Claim<Held>) -> Claim<InFlight> {
    let Claim { key, .. } = held;
    Claim { key, state: std::marker::PhantomData }
}

fn main() {}
