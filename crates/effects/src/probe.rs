//! Asking the provider whether it happened, without causing it.

use earmark_claim::{ClaimKey, IdempotencyKey, Look, Reference};

/// Asks the provider whether an effect happened.
///
/// Not every effect can be asked; then it has no probe. A look must cause nothing: use safe methods only. What goes wrong in a look
/// means [`Finding::CannotTell`](earmark_claim::state::Finding::CannotTell), never
/// [`Finding::NotDone`](earmark_claim::state::Finding::NotDone).
pub trait Probe: Send + Sync + 'static {
    /// Looks once.
    fn look(&self, about: &Subject<'_>) -> impl Future<Output = Look> + Send;
}

/// What a look is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The claim's key.
    pub key: &'a ClaimKey,
    /// The stored name of the operation.
    pub kind: &'a str,
    /// What the provider saw.
    pub idempotency_key: &'a IdempotencyKey,
    /// The short handle, where the request carried it.
    pub reference: &'a Reference,
    /// The provider's id, where one is on file.
    pub provider_ref: Option<&'a str>,
    /// The frozen request.
    pub request: &'a [u8],
}
