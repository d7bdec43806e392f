//! Performing a frozen call.

use std::time::{Duration, Instant};

use earmark_claim::{
    ANSWER_BYTES_MAX, Declared, ErrorClass, Failure, IdempotencyKey, Permit, Receipt, RepeatSafety,
};
use http::{HeaderName, HeaderValue, Method};
use reqwest::{Client, Request};

use super::call::HttpCall;
use super::faults::Faults;
use super::form::{Body, Call, Frozen, StoredKey};
use super::options::HttpOptions;
use super::seen::Seen;
use super::{guard, pointer, table};
use crate::credentials::Credentials;

/// Performs and looks for frozen calls of form `http/1`. Cheap to share: one serves every kind and claim.
pub struct HttpEffect {
    pub(super) client: Client,
    pub(super) credentials: Credentials,
    pub(super) look_timeout: Duration,
    connect_timeout: Duration,
    attempt_header: Option<HeaderName>,
}

/// Timers fire on whole milliseconds, rounded up.
const TIMER_GRAIN: Duration = Duration::from_millis(5);

/// What a call needs of its claim. Beside the permit, so that the call can be tested without a store.
pub(super) struct Attempt<'a> {
    pub(super) key: &'a IdempotencyKey,
    pub(super) fence: u64,
    pub(super) timeout: Duration,
}

impl HttpEffect {
    /// Builds the client.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong with the options, or why the client could not be built.
    ///
    /// # Panics
    /// `reqwest` panics where the binary chose its feature `rustls-no-provider` and has not installed a provider.
    pub fn new(mut options: HttpOptions, credentials: Credentials) -> Result<Self, Faults> {
        Faults::none_in(options.faults())?;
        let attempt_header = options.attempt_header.as_ref().and_then(|name| HeaderName::try_from(name).ok());
        Ok(Self {
            client: options.client()?,
            credentials,
            look_timeout: options.look_timeout,
            connect_timeout: options.connect_timeout_is(),
            attempt_header,
        })
    }

    /// Whether a call fits what its effect declares and how this process is set up: worth a call when the service
    /// starts, with an example.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong, each with its fix.
    pub fn check(&self, call: &HttpCall, declared: &Declared) -> Result<(), Faults> {
        let mut faults = declared.faults();
        if declared.call_timeout <= self.connect_timeout {
            faults.push(format!(
                "call_timeout ({:?}) is not longer than connect_timeout ({:?}): a call that never connected would \
                 look as if it may have happened",
                declared.call_timeout, self.connect_timeout
            ));
        }
        if matches!(declared.repeat, RepeatSafety::Keyed { .. }) && !call.sends_key() {
            faults.push(
                "declared Keyed, but the provider never sees the key: say where it goes with .key_header(…) or \
                 .key_at(…), or declare Never"
                    .to_owned(),
            );
        }
        match (declared.probe, call.probes.is_empty()) {
            (Some(_), true) => {
                faults.push("a probe is declared, but the call has none: .probe(…)".to_owned())
            }
            (None, false) => faults.push("the call has a probe, but its terms are not declared".to_owned()),
            _ => {}
        }
        match call.check() {
            Err(of_call) => faults.extend_from_slice(of_call.list()),
            Ok(()) => {
                let refused = |(credential, origin): (Option<String>, String)| {
                    self.credentials
                        .admit(credential.as_deref(), &origin)
                        .err()
                        .map(|failure| failure.message)
                };
                faults.extend(call.goes_to().into_iter().filter_map(refused));
            }
        }
        Faults::none_in(faults)
    }

    /// Whether this process may make a frozen call: it can be read, and its credential and origin are allowed here. For a
    /// check-up; nothing is sent and no secret is read.
    ///
    /// # Errors
    /// The [`Failure`] that an attempt would end with.
    pub fn admit(&self, frozen: &[u8]) -> Result<(), Failure> {
        let Frozen { call, .. } = Frozen::read(frozen).map_err(unreadable)?;
        let url = reqwest::Url::parse(&call.url).map_err(|_| {
            Failure::not_sent(ErrorClass::REQUEST_UNREADABLE).because("the address is no URL")
        })?;
        self.credentials.admit(call.credential.as_deref(), &guard::origin(&url))
    }

    /// Performs a frozen call: one attempt, at most one request.
    ///
    /// # Errors
    /// [`Failure`]: whatever is not a receipt. *Not sent* before any byte has left: a request that cannot be read, an
    /// origin that is not allowed, a credential that cannot be read, a last look that came too late.
    pub async fn perform(&self, permit: Permit<'_>, frozen: &[u8]) -> Result<Receipt, Failure> {
        let attempt =
            Attempt { key: permit.idempotency_key(), fence: permit.fence(), timeout: permit.call_timeout() };
        self.send(&attempt, frozen, || permit.last_look().map_err(Failure::from)).await
    }

    pub(super) async fn send(
        &self,
        attempt: &Attempt<'_>,
        frozen: &[u8],
        last_look: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Receipt, Failure> {
        let begun = Instant::now();
        let Frozen { call, answers, .. } = Frozen::read(frozen).map_err(unreadable)?;
        let mut request = self.request(attempt, &call)?;
        let origin = guard::origin(request.url());
        self.credentials.admit(call.credential.as_deref(), &origin)?;
        let secret = self.add_secret(&mut request, call.credential.as_deref());
        // Nothing has left yet. Cut from outside, at the call timeout, it would look as if something might have.
        tokio::time::timeout(attempt.timeout / 2, secret).await.map_err(|_| {
            Failure::not_sent(ErrorClass::OPERATOR)
                .because("reading the credential took more than half of the call timeout")
        })??;
        // What is left of the call timeout, less the grain of timers: an answer that has begun must be cut here, where it still
        // counts, and not from outside.
        let left = attempt.timeout.saturating_sub(begun.elapsed());
        *request.timeout_mut() = Some(left.saturating_sub(TIMER_GRAIN.min(left / 10)));

        // Nothing that can wait may stand between these two.
        last_look()?;
        let answered = self.client.execute(request).await;

        match answered {
            Ok(response) => table::classify(&answers, &Seen::read(response, ANSWER_BYTES_MAX).await),
            Err(error) => Err(table::of_error(error)),
        }
    }

    /// Adds the secret. It replaces nothing: a credential set up for the header that the key goes into would take the
    /// key's place, and every repeat would be a new effect.
    pub(super) async fn add_secret(
        &self,
        request: &mut Request,
        credential: Option<&str>,
    ) -> Result<(), Failure> {
        let Some(name) = credential else { return Ok(()) };
        let (header, secret) = self.credentials.header(name).await?;
        if request.headers().contains_key(&header) {
            return Err(Failure::not_sent(ErrorClass::OPERATOR).because(format!(
                "the credential {name:?} is sent in the header {header}, which the request uses itself: change one"
            )));
        }
        request.headers_mut().insert(header, secret);
        Ok(())
    }

    /// The request but for its secret. All that can be wrong with a frozen call is found here, before anything leaves.
    fn request(&self, attempt: &Attempt<'_>, call: &Call) -> Result<Request, Failure> {
        let url = guard::url(&call.url).map_err(|faults| unreadable(faults.join("; ")))?;
        let method = Method::from_bytes(call.method.as_bytes()).map_err(unreadable)?;
        let mut request = Request::new(method, url);
        for (name, value) in &call.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(unreadable)?;
            request.headers_mut().append(name, HeaderValue::from_str(value).map_err(unreadable)?);
        }
        if let Some(name) = &self.attempt_header {
            // It replaces nothing: in the place of the key it would make every repeat a new effect.
            if request.headers().contains_key(name) {
                return Err(Failure::not_sent(ErrorClass::OPERATOR).because(format!(
                    "the header {name} is the attempt's here, and the request uses it itself: change attempt_header"
                )));
            }
            request.headers_mut().insert(name.clone(), HeaderValue::from(attempt.fence));
        }
        if let Some(body) = &call.body {
            *request.body_mut() = Some(body.bytes().into());
        }
        match &call.key {
            StoredKey::Header { name, quoted } => {
                let name = HeaderName::try_from(name.as_str()).map_err(unreadable)?;
                // Set, not added: a second one would be another key.
                request.headers_mut().insert(name, key_value(attempt.key, *quoted)?);
            }
            StoredKey::Json { at } => key_in_body(attempt.key, at, call.body.as_ref())?,
            StoredKey::Placed {} | StoredKey::None {} => {}
        }
        Ok(request)
    }
}

/// The key as a header's value; quoted, as a structured string (RFC 8941 §3.3.3), it escapes `"` and `\`.
fn key_value(key: &IdempotencyKey, quoted: bool) -> Result<HeaderValue, Failure> {
    let text = match quoted {
        true => format!("\"{}\"", key.as_str().replace('\\', "\\\\").replace('"', "\\\"")),
        false => key.as_str().to_owned(),
    };
    HeaderValue::from_str(&text).map_err(unreadable)
}

/// The body was frozen with the key in it. With another key it belongs to another claim, and must not be sent.
fn key_in_body(key: &IdempotencyKey, at: &str, body: Option<&Body>) -> Result<(), Failure> {
    let bytes = body.map(Body::bytes).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(unreadable)?;
    match pointer::find(&json, at).as_slice() {
        [found] if found.as_str() == Some(key.as_str()) => Ok(()),
        _ => Err(unreadable(format!("the frozen body does not hold the claim's idempotency key at {at:?}"))),
    }
}

pub(super) fn unreadable(why: impl std::fmt::Display) -> Failure {
    Failure::not_sent(ErrorClass::REQUEST_UNREADABLE).because(why)
}

impl std::fmt::Debug for HttpEffect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpEffect({:?})", self.credentials)
    }
}

#[cfg(test)]
mod tests {
    use earmark_claim::ProbeTerms;

    use super::*;
    use crate::http::{HttpProbe, On};

    const CALL_TIMEOUT: Duration = Duration::from_secs(20);

    fn effect() -> HttpEffect {
        // Whoever comes first installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let credentials = Credentials::new([], ["https://h"]).expect("origins");
        HttpEffect::new(HttpOptions::new(), credentials).expect("a client")
    }

    fn declared() -> Declared {
        Declared {
            repeat: RepeatSafety::Keyed { window: Duration::from_secs(86_400) },
            landing_horizon: None,
            probe: Some(ProbeTerms { lag: Duration::ZERO, not_found_is_proof: false, looks_max: 3 }),
            call_timeout: CALL_TIMEOUT,
            attempts_max: 5,
            age_max: Duration::from_secs(86_400),
        }
    }

    #[test]
    fn a_call_must_fit_what_is_declared_and_configured() {
        let probe = || HttpProbe::get("https://h/{reference}").done_without_id(On::status(200));
        let call = || HttpCall::post("https://h/").key_header("Idempotency-Key").probe(probe());
        effect().check(&call(), &declared()).expect("fits");
        let no_probe = Declared { probe: None, ..declared() };
        let hasty = Declared { call_timeout: Duration::from_secs(10), ..declared() };
        for (call, declared, part) in [
            (HttpCall::post("https://h/").probe(probe()), declared(), "never sees the key"),
            (HttpCall::post("https://h/").key_header("K"), declared(), "the call has none"),
            (call(), no_probe, "its terms are not declared"),
            (call(), hasty, "connect_timeout"),
            (
                HttpCall::post("https://i/").key_header("K").probe(probe()),
                declared(),
                "https://i, which is not allowed",
            ),
            (call().credential("x"), declared(), "[credentials.x]"),
            (
                call().probe(HttpProbe::get("https://j/").done_without_id(On::status(200))),
                declared(),
                "https://j, which is not allowed",
            ),
            (call().header("Cookie", "a"), declared(), "Cookie"),
        ] {
            let faults = effect().check(&call, &declared).expect_err("does not fit");
            assert!(faults.to_string().contains(part), "{part} in {faults}");
        }
    }

    #[test]
    fn options_are_refused_whole() {
        let bad = HttpOptions::new()
            .connect_timeout(Duration::ZERO)
            .look_timeout(Duration::ZERO)
            .attempt_header(Some("a b"))
            .user_agent("a\nb");
        let faults = HttpEffect::new(bad, Credentials::default()).expect_err("refused");
        assert_eq!(faults.list().len(), 4, "{faults}");
    }
}
