//! Asking the provider whether it happened, without causing it.

use earmark_claim::state::Finding;
use earmark_claim::{Answer, ClaimKey, IdempotencyKey, Reference};

/// Asks the provider whether an effect happened.
///
/// Not every effect can be asked; then it has no probe. A look must cause nothing: use safe methods only. What goes wrong in a look
/// means [`Finding::CannotTell`], never [`Finding::NotDone`].
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

/// What a look found, and what a person needs to believe it.
#[derive(Clone, Debug)]
pub struct Look {
    /// What it found.
    pub finding: Finding,
    /// What was asked and answered, for a person.
    pub note: String,
    /// The answer, kept as evidence.
    pub answer: Option<Answer>,
}

impl From<Finding> for Look {
    fn from(finding: Finding) -> Self {
        Self { finding, note: String::new(), answer: None }
    }
}
