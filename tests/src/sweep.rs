//! A sweep in a few lines, with public means only: what is due, what the rules say, and doing it.

use earmark_claim::policy::{Act, decide};
use earmark_claim::state::Room;
use earmark_claim::{ClaimKey, ClaimView};
use earmark_effects::{Earmark, Error};

/// More than any test makes.
const MOST: u32 = 1000;

/// One pass over everything that is due. Answers what was done, in order; what cannot be done in this process is left alone.
pub async fn sweep_once(earmark: &Earmark) -> Vec<(ClaimKey, Act)> {
    let mut acts = Vec::new();
    for key in earmark.store().due(MOST, MOST as usize, Default::default()).await.expect("what is due") {
        // Into doubt, then decided again: two acts at most.
        for _ in 0..2 {
            let Some(view) = earmark.store().find(&key).await.expect("a row that can be read") else { break };
            let act = decide(&earmark.judged(&view), room(earmark));
            if !do_it(earmark, &view, &act).await.expect("a database that answers") {
                break;
            }
            acts.push((key.clone(), act.clone()));
            if act != Act::Doubt {
                break;
            }
        }
    }
    acts
}

/// `false`: nothing was done.
async fn do_it(earmark: &Earmark, view: &ClaimView, act: &Act) -> Result<bool, Error> {
    let (store, key) = (earmark.store(), &view.key);
    Ok(match act {
        Act::Nothing => false,
        Act::Doubt => store.lease_over(key).await?.is_some(),
        Act::Expire => store.expire_due(key).await?.is_some(),
        Act::Perform(_) if !earmark.can_perform(view) => false,
        Act::Perform(how) => {
            earmark.retake(key, *how).await?;
            true
        }
        Act::Look if !earmark.can_look(view) => false,
        Act::Look => {
            earmark.look(view).await?;
            true
        }
        Act::Escalate(cause) => {
            store.escalate(key, *cause, None, earmark.registered(view).as_ref()).await?;
            true
        }
    })
}

fn room(earmark: &Earmark) -> Room {
    let options = earmark.store().options();
    Room { lease: options.lease, margin: options.margin }
}
