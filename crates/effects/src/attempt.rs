//! One attempt: the permit, the call, the settle.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use earmark_claim::{
    Backoff, Claim, ClaimStore, ErrorClass, Failure, InFlight, Receipt, Settled, State, Verdict,
};
use futures_util::FutureExt;
use metrics::SharedString;

use crate::erased::Performer;
use crate::error::Error;
use crate::gate::Pass;
use crate::telemetry;

/// Performs an in-flight claim and settles it. Whatever the effect does (an error, a panic, no answer in time), its end is recorded.
pub(crate) async fn attempt(
    store: &ClaimStore,
    mut pass: Pass,
    claim: Claim<InFlight>,
    downstream: &str,
    performer: &dyn Performer,
    request: &[u8],
    backoff: Backoff,
) -> Result<(Settled, Option<Receipt>), Error> {
    let labels = Labels {
        consumer: Arc::<str>::from(claim.key().consumer()).into(),
        kind: Arc::<str>::from(claim.kind()).into(),
        downstream: Arc::<str>::from(downstream).into(),
    };
    let begun = Instant::now();
    pass.begin();
    let outcome = call(&claim, performer, request).await;
    pass.end(&outcome);
    labels.attempt(&outcome, begun);
    let receipt = outcome.as_ref().ok().cloned();
    let settled = store.settle(claim, outcome, backoff).await?;
    if let Settled::Moved(state) = &settled {
        labels.closed(*state);
    }
    Ok((settled, receipt))
}

/// The call itself, cut at its timeout. A panic of the effect's code ends here: it may have happened.
async fn call(
    claim: &Claim<InFlight>,
    performer: &dyn Performer,
    request: &[u8],
) -> Result<Receipt, Failure> {
    let permit = claim.permit();
    permit.last_look()?;
    let limit = permit.call_timeout();
    let performed = AssertUnwindSafe(performer.perform(permit, request)).catch_unwind();
    match tokio::time::timeout(limit, performed).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(Failure::unknown(ErrorClass::PANIC).because(text_of(&*panic))),
        Err(_) => Err(Failure::unknown(ErrorClass::TIMEOUT)
            .because(format!("no answer within the call timeout of {limit:?}"))),
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the effect panicked: {}", text.unwrap_or_else(|| "with no message".to_owned()))
}

/// Shared: a label is copied into every metric of an attempt.
struct Labels {
    consumer: SharedString,
    kind: SharedString,
    downstream: SharedString,
}

impl Labels {
    fn attempt(&self, outcome: &Result<Receipt, Failure>, begun: Instant) {
        let (result, class) = match outcome {
            Ok(_) => ("done", SharedString::const_str("")),
            Err(failure) => {
                let result = match failure.verdict {
                    Verdict::Refused { .. } => "refused",
                    Verdict::NotSent => "not_sent",
                    Verdict::Unknown => "unknown",
                };
                (result, SharedString::from(failure.class.to_string()))
            }
        };
        let labels = [
            ("consumer", self.consumer.clone()),
            ("kind", self.kind.clone()),
            ("downstream", self.downstream.clone()),
            ("result", SharedString::const_str(result)),
            ("error_class", class),
        ];
        metrics::counter!(telemetry::ATTEMPTS, &labels).increment(1);
        metrics::histogram!(telemetry::ATTEMPT_SECONDS, &labels[..4]).record(begun.elapsed().as_secs_f64());
    }

    fn closed(&self, state: State) {
        let result = match state {
            State::Confirmed => "answer",
            State::Abandoned => "refused",
            State::Held | State::InFlight | State::Retryable | State::InDoubt | State::Escalated => return,
        };
        let labels = [
            ("consumer", self.consumer.clone()),
            ("kind", self.kind.clone()),
            ("downstream", self.downstream.clone()),
            ("state", SharedString::const_str(state.as_str())),
            ("result", SharedString::const_str(result)),
        ];
        metrics::counter!(telemetry::CLOSED, &labels).increment(1);
    }
}
