//! What is no effect is told how to become one.

use earmark_claim::ClaimStore;
use earmark_effects::Earmark;

struct SendMail;

fn build(store: ClaimStore) {
    let _ = Earmark::builder(store).effect(SendMail);
}

fn main() {}
