//! An attempt runs in a task of its own, so its future has to be `Send`.

use std::rc::Rc;

use earmark_claim::{Declared, Failure, Permit};
use earmark_effects::Effect;

struct Local;

impl Effect for Local {
    type Request = ();
    type Receipt = ();

    fn kind(&self) -> &str {
        "local"
    }

    fn downstream(&self) -> &str {
        "nobody"
    }

    fn declared(&self) -> Declared {
        unimplemented!()
    }

    async fn perform(&self, _: Permit<'_>, _: &()) -> Result<(), Failure> {
        let local = Rc::new(());
        tokio::task::yield_now().await;
        drop(local);
        Ok(())
    }
}

fn main() {}
