//! What a user writes: an effect, and the code that performs it under a permit.

use std::time::Duration;

use earmark_claim::{Declared, Failure, KeyChoice, Money, Permit};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An act in the outside world that a transaction cannot roll back.
///
/// The checklist for an author:
///
/// 1. Build the whole request first; what fails there is [`before_send`](earmark_claim::BeforeSend::before_send).
/// 2. Send the permit's idempotency key, the same bytes at every attempt, wherever the provider reads it.
/// 3. Take the permit's [`last_look`](Permit::last_look) right before the request is handed to the client.
/// 4. Switch the client's own retries and redirects off: each is an attempt that nobody counts.
/// 5. `?` means *it may have happened*. Say [`Failure::not_sent`] and [`Failure::refused`] by hand, with the provider's promise
///    cited beside it.
/// 6. Be harmless when dropped: a call is cut at its timeout.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an effect",
    note = "implement `earmark_effects::Effect`: kind, downstream, declared and perform"
)]
pub trait Effect: Send + Sync + 'static {
    /// What is asked for. It is stored as JSON when the claim is committed, and read back at every attempt.
    type Request: Serialize + DeserializeOwned + Send + Sync;
    /// What proves that it happened. Stored as JSON and replayed to every duplicate.
    type Receipt: Serialize + DeserializeOwned + Send;

    /// The stored name of the operation (`billing.charge`). Renaming it is a migration.
    fn kind(&self) -> &str;

    /// The provider or system called: a short stored name (`stripe`).
    fn downstream(&self) -> &str;

    /// What it declares; frozen on every claim.
    fn declared(&self) -> Declared;

    /// Performs it once.
    ///
    /// # Errors
    /// [`Failure`]: refused, not sent, or unknown.
    fn perform(
        &self,
        permit: Permit<'_>,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Self::Receipt, Failure>> + Send;

    /// The provider's id in a receipt, for look-ups, statements and the discovery of doubles.
    fn provider_ref(&self, _receipt: &Self::Receipt) -> Option<String> {
        None
    }

    /// What a person sees of a request: no secret, and no more personal data than is needed.
    fn describe(&self, _request: &Self::Request) -> Description {
        Description::default()
    }

    /// The bytes that make two requests the same, where that is less than the whole request: leave out timestamps and
    /// other fields that change between deliveries of one message. `None`: the whole request.
    fn canonical(&self, _request: &Self::Request) -> Option<Vec<u8>> {
        None
    }

    /// Which idempotency key the provider sees.
    fn key_choice(&self) -> KeyChoice {
        KeyChoice::Derived
    }

    /// How long after it was claimed it may still be sent; a password reset an hour old must not be. `None`: at any time.
    fn send_within(&self) -> Option<Duration> {
        None
    }
}

/// What a person sees of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// One line.
    pub summary: Option<String>,
    /// The caller's own reference, such as an order number.
    pub business_ref: Option<String>,
    /// The amount.
    pub amount: Option<Money>,
}
