//! Looking whether it happened.

use earmark_claim::state::Finding;
use earmark_claim::{Failure, IdempotencyKey, Look, Reference};
use http::{HeaderName, HeaderValue, Method};
use reqwest::Request;

use super::effect::{HttpEffect, unreadable};
use super::form::Frozen;
use super::probe::{LOOK_BYTES_MAX, StoredProbe};
use super::seen::Seen;
use super::template::{Known, Place, fill};
use super::{guard, table};

/// Whom a look is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The claim's idempotency key.
    pub idempotency_key: &'a IdempotencyKey,
    /// The claim's reference.
    pub reference: &'a Reference,
    /// The provider's id, where one is on file.
    pub provider_ref: Option<&'a str>,
}

impl HttpEffect {
    /// Asks the provider whether it happened.
    ///
    /// Never an error: what goes wrong means *cannot tell*. [`HttpEffect::look_with_note`] says why.
    pub async fn look(&self, about: &Subject<'_>, frozen: &[u8]) -> Finding {
        self.look_with_note(about, frozen).await.finding
    }

    /// Asks the provider whether it happened, and keeps the answer as evidence.
    pub async fn look_with_note(&self, about: &Subject<'_>, frozen: &[u8]) -> Look {
        match self.ask(about, frozen).await {
            Ok(look) => look,
            Err(failure) => Look {
                finding: Finding::CannotTell,
                note: failure.message,
                answer: failure.answer.map(|answer| *answer),
            },
        }
    }

    async fn ask(&self, about: &Subject<'_>, frozen: &[u8]) -> Result<Look, Failure> {
        let probes = Frozen::read(frozen).map_err(unreadable)?.probe;
        let known = Known {
            idempotency_key: about.idempotency_key.as_str(),
            reference: about.reference.as_str(),
            provider_ref: about.provider_ref,
        };
        let can_be_asked = |probe: &&StoredProbe| known.provider_ref.is_some() || !probe.needs_provider_ref();
        let Some(probe) = probes.iter().find(can_be_asked) else {
            return Err(unreadable(match probes.is_empty() {
                true => "the frozen request has no probe",
                false => "the probe asks by the provider's id, and none is on file",
            }));
        };
        let mut request = question(probe, &known).map_err(unreadable)?;
        let origin = guard::origin(request.url());
        self.credentials.admit(probe.credential.as_deref(), &origin)?;
        self.add_secret(&mut request, probe.credential.as_deref()).await?;
        *request.timeout_mut() = Some(self.look_timeout);
        let asked = format!("{} {}{}", probe.method, origin, request.url().path());
        let response = self.client.execute(request).await.map_err(|e| {
            let failure = table::of_error(e);
            let message = format!("{asked}: {}", failure.message);
            failure.because(message)
        })?;
        let seen = Seen::read(response, LOOK_BYTES_MAX).await;
        Ok(Look {
            finding: probe.judge(&seen, &known),
            note: format!("{asked}: status {} {}", seen.status, seen.reason()),
            answer: Some(seen.answer()),
        })
    }
}

fn question(probe: &StoredProbe, known: &Known<'_>) -> Result<Request, String> {
    let url = probe.url(known).map_err(|faults| faults.join("; "))?;
    let method = Method::from_bytes(probe.method.as_bytes()).map_err(|e| e.to_string())?;
    let mut request = Request::new(method, url);
    for (name, value) in &probe.headers {
        let value = fill(value, known, Place::Plain)?;
        let header = HeaderName::try_from(name.as_str()).map_err(|e| e.to_string())?;
        let value = HeaderValue::from_str(&value).map_err(|e| format!("the header {name}: {e}"))?;
        request.headers_mut().append(header, value);
    }
    if let Some(body) = &probe.body {
        *request.body_mut() = Some(fill(body, known, Place::Json)?.into());
    }
    Ok(request)
}
