//! What a sweep can do with a claim in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use earmark_claim::policy::{look_again, look_wait};
use earmark_claim::state::{Facts, Finding};
use earmark_claim::{ClaimView, Declared, Look, RepeatSafety, State};

use crate::erased::Performer;
use crate::error::Error;
use crate::probe::Subject;
use crate::run::Earmark;
use crate::telemetry;

/// Longest a look may take: it holds nothing but its own task.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

impl Earmark {
    /// Whether this process can perform the claim: `http/1` wherever the HTTP effect is set up, other forms where the kind's code is
    /// registered.
    pub fn can_perform(&self, view: &ClaimView) -> bool {
        self.performer_of(view).is_some()
    }

    /// Whether this process can look for the claim's effect.
    pub fn can_look(&self, view: &ClaimView) -> bool {
        match self.parts.entries.get(&view.kind) {
            Some(entry) if !is_http(view) => entry.probes,
            _ => is_http(view) && self.can_perform(view),
        }
    }

    /// What the claim's kind declares now, if it is registered here.
    pub fn registered(&self, view: &ClaimView) -> Option<Declared> {
        self.parts.entries.get(&view.kind).map(|entry| entry.declared.clone())
    }

    /// For how long providers remember the keys of the effects that are registered here, each with its kind.
    pub fn key_windows(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.parts.entries.values().filter_map(|entry| match entry.declared.repeat {
            RepeatSafety::Keyed { window } => Some((entry.kind.as_str(), window)),
            RepeatSafety::Natural | RepeatSafety::Never => None,
        })
    }

    /// The claim's facts as the sweep judges them: on the stricter of what is frozen and what is registered.
    pub fn judged(&self, view: &ClaimView) -> Facts {
        let mut facts = view.facts.clone();
        if let Some(registered) = self.registered(view) {
            facts.declared = facts.declared.stricter(&registered);
        }
        facts
    }

    /// Looks whether a claim in doubt happened, and records what was found. Answers the state that is on file then.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::NotRegistered`] when this process cannot look; [`Error::HeldBack`] when the downstream is not to be asked
    /// now: it is paused, or at its limits.
    pub async fn look(&self, view: &ClaimView) -> Result<State, Error> {
        let performer =
            self.performer_of(view).ok_or_else(|| Error::NotRegistered(format!("kind {:?}", view.kind)))?;
        let mut pass = self.admit_look(&view.downstream).await?;
        let request = self.parts.store.request(&view.key).await?.unwrap_or_default();
        // The moment from which the look counts, by the database's clock, and before it begins.
        let begun_at = self.parts.store.now().await?;
        let begun = Instant::now();
        pass.begin();
        let look = self.look_once(view, &performer, &request).await;
        drop(pass);
        tracing::debug!(reference = %view.reference, found = ?look.finding, took = ?begun.elapsed(), "looked");
        metrics::counter!(
            telemetry::LOOKS,
            "consumer" => view.key.consumer().to_owned(),
            "kind" => view.kind.clone(),
            "downstream" => view.downstream.clone(),
            "result" => word(&look.finding),
        )
        .increment(1);
        let judged = self.judged(view);
        let backoff = self.parts.backoff;
        let wait = look_wait(&judged, backoff.base, backoff.max, fastrand::f64());
        let again_in = look_again(&judged, wait);
        Ok(self
            .parts
            .store
            .record_look(view, begun_at, look, again_in, self.registered(view).as_ref())
            .await?)
    }

    async fn look_once(&self, view: &ClaimView, performer: &Arc<dyn Performer>, request: &[u8]) -> Look {
        use futures_util::FutureExt;
        let about = Subject {
            key: &view.key,
            kind: &view.kind,
            idempotency_key: &view.idempotency_key,
            reference: &view.reference,
            provider_ref: view.facts.provider_ref.as_deref(),
            request,
        };
        let looked = std::panic::AssertUnwindSafe(performer.look(about)).catch_unwind();
        match tokio::time::timeout(LOOK_TIMEOUT, looked).await {
            Ok(Ok(look)) => look,
            Ok(Err(_)) => Look { note: "the probe panicked".into(), ..Finding::CannotTell.into() },
            Err(_) => {
                Look { note: format!("no answer within {LOOK_TIMEOUT:?}"), ..Finding::CannotTell.into() }
            }
        }
    }

    pub(crate) fn performer_of(&self, view: &ClaimView) -> Option<Arc<dyn Performer>> {
        #[cfg(feature = "http")]
        if is_http(view) {
            return self.parts.http.clone().map(|http| http as Arc<dyn Performer>);
        }
        self.parts.entries.get(&view.kind)?.performer.clone()
    }
}

#[cfg(feature = "http")]
fn is_http(view: &ClaimView) -> bool {
    view.form == crate::http::FORM
}

#[cfg(not(feature = "http"))]
fn is_http(_: &ClaimView) -> bool {
    false
}

fn word(finding: &Finding) -> &'static str {
    match finding {
        Finding::Done { .. } => "done",
        Finding::Refused { .. } => "refused",
        Finding::NotDone => "not_done",
        Finding::CannotTell => "cannot_tell",
    }
}
