//! Effects for tests beyond the stub: one that does what its script of code says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use earmark_claim::{Backoff, Declared, Failure, KeyChoice, Permit, ProbeTerms};
use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Effect, Limits};
use serde_json::Value;

use crate::claims::never;

/// A wait that no test outlasts by accident: nothing becomes due unless the test ages it.
pub const PATIENT: Backoff =
    Backoff { base: Duration::from_secs(3600 * 6), max: Duration::from_secs(3600 * 6) };

/// How long a call of [`brief`] may take: what never answers is cut then.
pub const BRIEF: Duration = Duration::from_millis(50);

/// The same declaration with calls that are cut at once.
pub fn brief(declared: Declared) -> Declared {
    Declared { call_timeout: BRIEF, ..declared }
}

/// The same declaration with a probe whose "not found" is proof.
pub fn probed(declared: Declared) -> Declared {
    let probe = ProbeTerms { lag: Duration::from_secs(1), not_found_is_proof: true, looks_max: 3 };
    Declared { probe: Some(probe), ..declared }
}

/// A downstream that may fail as often as its script says: no breaker stops the calls that a test counts.
pub fn unbroken() -> Limits {
    Limits { breaker_failures: u32::MAX, ..Limits::default() }
}

/// An Earmark with that stub alone, probed if it declares so, and [`PATIENT`].
pub fn earmark_with(store: &earmark_claim::ClaimStore, stub: &Stub) -> Earmark {
    let builder = Earmark::builder(store.clone()).backoff(PATIENT);
    let builder = match stub.declared().probe {
        Some(_) => builder.probed(stub.clone(), stub.clone()),
        None => builder.effect(stub.clone()),
    };
    builder.build().expect("effects that can be used")
}

/// What an effect of [`By`] does when it is performed.
pub type Act = fn(&Permit<'_>, &Value) -> Result<Value, Failure>;

/// An effect that is a function, with everything about it open to change.
#[derive(Clone)]
pub struct By {
    /// Its stored name.
    pub kind: &'static str,
    /// Its provider.
    pub downstream: &'static str,
    /// What it declares.
    pub declared: Declared,
    /// Which key the provider sees.
    pub key_choice: KeyChoice,
    /// How long after it was claimed it may still be sent.
    pub send_within: Option<Duration>,
    /// The member of the request that makes two requests the same; `None`: the whole request.
    pub stable: Option<&'static str>,
    /// What it does.
    pub act: Act,
    /// How often its code was reached.
    pub performed: Arc<AtomicUsize>,
}

impl By {
    /// An effect that does this.
    pub fn new(act: Act) -> Self {
        Self {
            kind: "test.by",
            downstream: "nobody",
            declared: never(),
            key_choice: KeyChoice::Derived,
            send_within: None,
            stable: None,
            act,
            performed: Arc::default(),
        }
    }

    /// How often its code was reached.
    pub fn performed(&self) -> usize {
        self.performed.load(Ordering::SeqCst)
    }
}

impl Effect for By {
    type Request = Value;
    type Receipt = Value;

    fn kind(&self) -> &str {
        self.kind
    }

    fn downstream(&self) -> &str {
        self.downstream
    }

    fn declared(&self) -> Declared {
        self.declared.clone()
    }

    async fn perform(&self, permit: Permit<'_>, request: &Value) -> Result<Value, Failure> {
        self.performed.fetch_add(1, Ordering::SeqCst);
        (self.act)(&permit, request)
    }

    fn canonical(&self, request: &Value) -> Option<Vec<u8>> {
        Some(request.get(self.stable?)?.to_string().into_bytes())
    }

    fn key_choice(&self) -> KeyChoice {
        self.key_choice.clone()
    }

    fn send_within(&self) -> Option<Duration> {
        self.send_within
    }
}
