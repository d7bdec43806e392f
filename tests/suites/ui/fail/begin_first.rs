//! A claim that has not begun lends no permit: its transaction may not even be committed.

use earmark_claim::{Claim, Held};

fn perform(held: &Claim<Held>) {
    let _ = held.permit();
}

fn main() {}
