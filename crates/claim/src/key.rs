//! What identifies a claim here, and what identifies its effect at the provider.
//!
//! - [`ClaimKey`]: tenant, consumer, message id. Opaque bytes, never normalised, never cut.
//! - [`IdempotencyKey`]: what the provider sees, derived from the claim's key alone, so that it is the same at
//!   every attempt, in every process, and even after the row was lost.
//! - [`Reference`]: a short second handle with a check character, for metadata, statements and telephones.
//! - [`Fingerprint`]: a digest of the request, so that the same key with another request is a mismatch.

mod derive;
mod message_id;
mod reference;

use std::fmt;
use std::sync::Arc;

pub(crate) use derive::hex;
pub use derive::{Fingerprint, IdempotencyKey, Namespace, VerbatimRule};
pub use message_id::MessageId;
pub use reference::{BadReference, Reference};

/// Most bytes of a tenant.
pub const TENANT_BYTES_MAX: usize = 128;
/// Most bytes of a consumer.
pub const CONSUMER_BYTES_MAX: usize = 128;
/// Most bytes of a message id. Long enough for a CloudEvents source and id; the three parts together stay far
/// below the 3072 bytes that InnoDB can index.
pub const MESSAGE_ID_BYTES_MAX: usize = 512;

/// The key of a claim: unique on (tenant, consumer, message id).
///
/// Compared byte for byte on every database: case, accents, trailing spaces and normal forms all distinguish.
///
/// Cheap to clone: every phase of an effect holds one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
struct Parts {
    tenant: String,
    consumer: String,
    message_id: String,
}

impl ClaimKey {
    /// A key of the empty tenant.
    ///
    /// `consumer` names the handler that acts, so that two handlers of one message do not suppress each other.
    /// `message_id` must be the same at every delivery of the message: see [`MessageId`] for what qualifies.
    ///
    /// # Errors
    /// [`KeyError`] when a part is empty, too long in bytes, or holds a control character.
    pub fn new(consumer: impl Into<String>, message_id: impl Into<MessageId>) -> Result<Self, KeyError> {
        Self::in_tenant("", consumer, message_id)
    }

    /// A key of a tenant: the customer or client in a shared system. The empty tenant is allowed.
    ///
    /// # Errors
    /// As [`ClaimKey::new`].
    pub fn in_tenant(
        tenant: impl Into<String>,
        consumer: impl Into<String>,
        message_id: impl Into<MessageId>,
    ) -> Result<Self, KeyError> {
        let (tenant, consumer) = (tenant.into(), consumer.into());
        let message_id = message_id.into().into_string();
        check("tenant", &tenant, TENANT_BYTES_MAX, true)?;
        check("consumer", &consumer, CONSUMER_BYTES_MAX, false)?;
        check("message id", &message_id, MESSAGE_ID_BYTES_MAX, false)?;
        Ok(Self(Arc::new(Parts { tenant, consumer, message_id })))
    }

    /// The customer or client in a shared system; empty where there is none.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// Which handler acts.
    pub fn consumer(&self) -> &str {
        &self.0.consumer
    }

    /// What is stable across redeliveries of the message.
    pub fn message_id(&self) -> &str {
        &self.0.message_id
    }
}

impl serde::Serialize for ClaimKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// `tenant/consumer/message id`, escaped so that two different keys never look alike: combining marks, invisible
/// characters and spaces at either end are shown by their code.
impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.tenant.is_empty() {
            write!(f, "{}/", shown(&self.0.tenant))?;
        }
        write!(f, "{}/{}", shown(&self.0.consumer), shown(&self.0.message_id))
    }
}

/// Character by character: `str::escape_debug` would leave a combining mark in the middle as it is.
fn shown(part: &str) -> String {
    let last = part.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(part.len());
    for (at, c) in part.chars().enumerate() {
        match c {
            '/' => out.push_str("\\/"),
            ' ' if at == 0 || at == last => out.push_str("\\u{20}"),
            '\'' | '"' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

impl fmt::Debug for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimKey({self})")
    }
}

/// Why a key was refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The part must not be empty.
    #[error("the {part} is empty: give the stable id that the producer set")]
    Empty {
        /// `consumer` or `message id`.
        part: &'static str,
    },
    /// The part is longer than the store keeps. Keys are never cut: two long ids would become one claim.
    #[error(
        "the {part} has {bytes} bytes of UTF-8, more than the {max} that are kept: use a shorter stable id, or a digest of this one"
    )]
    TooLong {
        /// `tenant`, `consumer` or `message id`.
        part: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A control character, which a store, a header or a log cannot carry faithfully.
    #[error("the {part} holds the control character U+{code:04X} at byte {at}: remove it at the producer")]
    Control {
        /// `tenant`, `consumer` or `message id`.
        part: &'static str,
        /// The character.
        code: u32,
        /// Its byte offset.
        at: usize,
    },
    /// The producer's id has a part that its own format does not allow.
    #[error("{what}: {fix}")]
    Malformed {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// The message id cannot serve as the provider's key verbatim.
    #[error("the message id cannot be sent verbatim as the idempotency key: {what}")]
    NotVerbatim {
        /// Which rule of the provider it breaks.
        what: String,
    },
}

fn check(part: &'static str, value: &str, max: usize, may_be_empty: bool) -> Result<(), KeyError> {
    if value.is_empty() && !may_be_empty {
        return Err(KeyError::Empty { part });
    }
    if value.len() > max {
        return Err(KeyError::TooLong { part, bytes: value.len(), max });
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(KeyError::Control { part, code: u32::from(c), at }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
