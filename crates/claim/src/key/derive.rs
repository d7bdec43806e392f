//! What is derived from a claim's key by SHA-256, each under its own version tag and with every field
//! length-prefixed, so that no two inputs share an encoding.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{ClaimKey, KeyError};

/// Sets apart the idempotency keys of two services, or two environments, that share one provider account.
///
/// Written once into the database by the first migration and read at start; never changed afterwards, since every
/// key derives from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// A namespace of 1 to 64 characters of `[A-Za-z0-9._-]`.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] for anything else.
    pub fn new(value: impl Into<String>) -> Result<Self, KeyError> {
        let value = value.into();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if value.is_empty() || value.len() > 64 || !value.chars().all(legal) {
            return Err(KeyError::Malformed {
                what: format!("{value:?} is not a namespace"),
                fix: "a namespace has 1 to 64 characters of A-Z a-z 0-9 . _ -",
            });
        }
        Ok(Self(value))
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key that the provider sees. The same at every attempt, for ever; a new one is a new claim.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// A UUID with the shape of version 4 (RFC 9562: version nibble 4, variant 10), from the first 16 bytes of
    /// SHA-256 over a version tag, the namespace, tenant, consumer and message id, each length-prefixed.
    ///
    /// Version 4, since some providers check for it and its 36 characters fit the narrowest key field known
    /// (36 characters, Razorpay payouts).
    pub fn derive(namespace: &Namespace, key: &ClaimKey) -> Self {
        let digest = digest_of("earmark/idempotency-key/1", namespace, key);
        let mut b = [0u8; 16];
        b.copy_from_slice(&digest[..16]);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex = hex(&b);
        Self(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
    }

    /// The message id itself, where an effect asks for that. All consumers and environments on one provider
    /// account then share it.
    ///
    /// # Errors
    /// [`KeyError::NotVerbatim`] when the id breaks the provider's rule.
    pub fn verbatim(key: &ClaimKey, rule: &VerbatimRule) -> Result<Self, KeyError> {
        rule.check(key.message_id())?;
        Ok(Self(key.message_id().to_owned()))
    }

    /// A key read back from the store.
    pub(crate) fn stored(value: String) -> Self {
        Self(value)
    }

    /// The bytes to send.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.0)
    }
}

/// What a provider accepts as a key, for effects that send the message id verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbatimRule {
    /// Fewest characters.
    pub len_min: usize,
    /// Most characters.
    pub len_max: usize,
    /// Characters allowed beside ASCII letters and digits, such as `-_.:`.
    pub also: String,
}

impl VerbatimRule {
    fn check(&self, id: &str) -> Result<(), KeyError> {
        let refuse = |what: String| Err(KeyError::NotVerbatim { what });
        if id.len() < self.len_min || id.len() > self.len_max {
            return refuse(format!(
                "{} characters, allowed are {} to {}",
                id.len(),
                self.len_min,
                self.len_max
            ));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || (c.is_ascii_graphic() && self.also.contains(c));
        match id.chars().find(|c| !legal(*c)) {
            Some(c) => refuse(format!("the provider does not take {c:?}")),
            None => Ok(()),
        }
    }
}

/// SHA-256 of the canonical request. The idempotency key is not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of an operation and the bytes that make two requests the same: the whole request, or the stable fields
    /// that the effect declares.
    pub fn of(kind: &str, canonical: &[u8]) -> Self {
        let mut hash = Sha256::new();
        for field in [b"earmark/fingerprint/1".as_slice(), kind.as_bytes(), canonical] {
            absorb(&mut hash, field);
        }
        Self(hash.finalize().into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A fingerprint read back from the store; `None` when it has not 32 bytes.
    pub(crate) fn stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The digest under `tag` of namespace and key.
pub(super) fn digest_of(tag: &str, namespace: &Namespace, key: &ClaimKey) -> [u8; 32] {
    let mut hash = Sha256::new();
    for field in [tag, namespace.as_str(), key.tenant(), key.consumer(), key.message_id()] {
        absorb(&mut hash, field.as_bytes());
    }
    hash.finalize().into()
}

/// One field: its length as 8 bytes, most significant first, then its bytes.
fn absorb(hash: &mut Sha256, field: &[u8]) {
    hash.update((field.len() as u64).to_be_bytes());
    hash.update(field);
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(DIGITS[usize::from(b >> 4)]);
        out.push(DIGITS[usize::from(b & 0xf)]);
    }
    out
}
