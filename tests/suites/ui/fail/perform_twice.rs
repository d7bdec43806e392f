//! A held claim is performed once.

use earmark_claim::{Claim, Held};
use earmark_effects::Earmark;

async fn perform(earmark: &Earmark, held: Claim<Held>) {
    let _ = earmark.perform::<()>(held).await;
    let _ = earmark.perform::<()>(held).await;
}

fn main() {}
