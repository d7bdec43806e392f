//! The claim in the hands of its holder, and the permit that it lends. The wrong order does not compile.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::failure::{ErrorClass, Failure};
use crate::key::{ClaimKey, Fingerprint, IdempotencyKey, Reference};
use crate::state::Facts;

/// A fresh random value written by every taking, never reused: the identity that a settle names and that a
/// read-back compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) [u8; 16]);

impl Token {
    /// 16 bytes from the operating system.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub(crate) fn fresh() -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", crate::key::hex(&self.0[..4]))
    }
}

/// A claim made inside the caller's transaction, or to be performed later. Nothing was sent.
#[derive(Debug)]
pub enum Held {}

/// A claim that may have been sent: the only kind that lends a permit.
#[derive(Debug)]
pub enum InFlight {}

/// What its holder knows of a claim. Neither cloned nor made by hand; consumed by `begin` and `settle`.
///
/// Dropping one writes nothing: forgetting is not safe, so the lease turns it into doubt and the sweep resolves it.
#[must_use = "an unsettled claim becomes in doubt when its lease ends"]
pub struct Claim<S> {
    pub(crate) key: ClaimKey,
    pub(crate) facts: Box<Facts>,
    pub(crate) idempotency_key: IdempotencyKey,
    pub(crate) reference: Reference,
    pub(crate) kind: Box<str>,
    pub(crate) fingerprint: Box<Fingerprint>,
    /// Send-until in this process: counted from before the taking's statement was handed over.
    pub(crate) send_until: Instant,
    /// Until when the lease lasts at least, in this process: counted the same way.
    pub(crate) believed_until: Instant,
    pub(crate) state: PhantomData<fn() -> S>,
}

impl<S> Claim<S> {
    /// The claim's key.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// The stored name of the operation.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The short handle.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// What the provider sees. Sending it needs a [`Permit`].
    pub fn idempotency_key(&self) -> &IdempotencyKey {
        &self.idempotency_key
    }
}

impl Claim<InFlight> {
    /// Lends the permit to call. While it lives, the claim cannot be settled.
    pub fn permit(&self) -> Permit<'_> {
        Permit { claim: self }
    }
}

impl<S> fmt::Debug for Claim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({}, fence {}, {:?})", self.key, self.facts.fence, self.facts.state)
    }
}

/// Borrowed proof that the effect may be called now. Only a committed, in-flight claim yields one.
///
/// Build the request with the key, then take the last look, then hand the request to the client, with nothing
/// between the two that can wait:
///
/// ```no_run
/// # use earmark_claim::{Failure, Permit};
/// # async fn send(_key: &str) -> Result<(), std::io::Error> { Ok(()) }
/// async fn perform(permit: Permit<'_>) -> Result<(), Failure> {
///     let request = send(permit.idempotency_key().as_str());
///     permit.last_look()?; // too late: "not sent", and nothing leaves
///     Ok(request.await?) // any error: it may have happened
/// }
/// ```
pub struct Permit<'a> {
    claim: &'a Claim<InFlight>,
}

impl Permit<'_> {
    /// The key to send: the same bytes at every attempt.
    pub fn idempotency_key(&self) -> &IdempotencyKey {
        &self.claim.idempotency_key
    }

    /// The short handle, for the provider's metadata or reference field.
    pub fn reference(&self) -> &Reference {
        &self.claim.reference
    }

    /// The claim's key.
    pub fn key(&self) -> &ClaimKey {
        &self.claim.key
    }

    /// The stored name of the operation.
    pub fn kind(&self) -> &str {
        &self.claim.kind
    }

    /// Which taking this is, from 1: for a header or a log line, so that a repeat below us shows.
    pub fn fence(&self) -> u64 {
        self.claim.facts.fence
    }

    /// How long the call may take.
    pub fn call_timeout(&self) -> Duration {
        self.claim.facts.declared.call_timeout
    }

    /// The last look, right before the request is handed to the client: may sending still start? It checks
    /// send-until, the one number that the taking fixed, and nothing else.
    ///
    /// # Errors
    /// [`TooLate`], which `?` turns into *not sent*.
    pub fn last_look(&self) -> Result<(), TooLate> {
        if Instant::now() < self.claim.send_until { Ok(()) } else { Err(TooLate(())) }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({}, fence {})", self.claim.key, self.fence())
    }
}

/// Send-until has passed: nothing may leave any more under this taking. Not an [`std::error::Error`], so that `?`
/// makes it *not sent* and never *unknown*.
#[derive(Debug)]
pub struct TooLate(());

impl From<TooLate> for Failure {
    fn from(_: TooLate) -> Self {
        Self::not_sent(ErrorClass::TOO_LATE)
            .because("the time in which sending may start was over at the last look; nothing was handed over")
    }
}
