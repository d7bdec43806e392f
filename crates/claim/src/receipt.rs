//! Answers and receipts: bytes, with what is needed to know them again.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::key::hex;

/// Most bytes of an answer that are kept. A longer one is cut; its true length and the digest of all that was
/// received stay. 64 KiB: the largest answer of a payment or mail API known to us is below 20 KiB.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// An answer of a provider: a cut of its bytes, its content type, and length and digest of all that was received.
///
/// Recording the outcome never depends on the body: it may be too large, not UTF-8, or cut off in the middle.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// At most [`ANSWER_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// Its content type, as the provider named it; hostile input.
    pub content_type: String,
    /// Bytes received, which may be more than were kept.
    pub len: u64,
    /// SHA-256 of the bytes received.
    pub digest: [u8; 32],
}

impl Answer {
    /// Of bytes that were received whole.
    pub fn new(content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let mut bytes = bytes.into();
        let (len, digest) = (bytes.len() as u64, Sha256::digest(&bytes).into());
        bytes.truncate(ANSWER_BYTES_MAX);
        Self { bytes, content_type: clean(content_type.into(), 128), len, digest }
    }

    /// A serialised value, as `application/json`.
    ///
    /// # Errors
    /// What `serde_json` says of a value that has no JSON form.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new("application/json", serde_json::to_vec(value)?))
    }

    /// Whether fewer bytes were kept than were received.
    pub fn is_cut(&self) -> bool {
        self.len > self.bytes.len() as u64
    }

    /// The digest in lower-case hex.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}

impl fmt::Debug for Answer {
    /// Without the body: it may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.content_type, self.len)
    }
}

/// What proves the effect, as it is replayed to every duplicate.
///
/// It is bytes: [`Receipt::decode`] reads them as `R`, and a receipt that a newer `R` cannot read is a confirmed effect all the same.
pub struct Receipt<R = serde_json::Value> {
    /// The provider's answer; `None` where the claim was confirmed without one (a ruling, a webhook, a statement). Of an answer
    /// that was [`purged`](Receipt::purged) the content type, the length and the digest are left, and no bytes.
    pub answer: Option<Answer>,
    /// The provider's id on file.
    pub provider_ref: Option<String>,
    /// Whether the claim is a tombstone: the body of its answer has been dropped.
    pub purged: bool,
    type_: PhantomData<fn() -> R>,
}

impl<R> Receipt<R> {
    /// Of an answer and the provider's id.
    pub fn new(answer: Option<Answer>, provider_ref: Option<String>) -> Self {
        Self { answer, provider_ref: provider_ref.map(provider_id), purged: false, type_: PhantomData }
    }

    /// What a tombstone has left of it.
    pub(crate) fn of_tombstone(answer: Option<Answer>, provider_ref: Option<String>) -> Self {
        let answer = answer.map(|answer| Answer { bytes: Vec::new(), ..answer });
        Self { purged: true, ..Self::new(answer, provider_ref) }
    }

    /// The same receipt, to be read as another type.
    pub fn cast<S>(self) -> Receipt<S> {
        let Self { answer, provider_ref, purged, .. } = self;
        Receipt { answer, provider_ref, purged, type_: PhantomData }
    }
}

impl<R: DeserializeOwned> Receipt<R> {
    /// Reads the answer as JSON of type `R`.
    ///
    /// # Errors
    /// [`Undecoded`]: no answer on file, an answer that was purged or cut, or one that `R` does not fit. The effect is
    /// confirmed in every case.
    pub fn decode(&self) -> Result<R, Undecoded> {
        let answer = self.answer.as_ref().ok_or(Undecoded::NoAnswer)?;
        if self.purged {
            return Err(Undecoded::Purged { len: answer.len });
        }
        if answer.is_cut() {
            return Err(Undecoded::Cut { kept: answer.bytes.len(), len: answer.len });
        }
        serde_json::from_slice(&answer.bytes).map_err(Undecoded::Shape)
    }
}

impl<R> Clone for Receipt<R> {
    fn clone(&self) -> Self {
        let Self { answer, provider_ref, purged, .. } = self;
        Self {
            answer: answer.clone(),
            provider_ref: provider_ref.clone(),
            purged: *purged,
            type_: PhantomData,
        }
    }
}

impl<R> fmt::Debug for Receipt<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purged = if self.purged { ", purged" } else { "" };
        write!(f, "Receipt({:?}, {:?}{purged})", self.provider_ref, self.answer)
    }
}

/// Why a receipt could not be read. The effect happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Undecoded {
    /// Confirmed without a response: by a person, a webhook or a statement.
    #[error("confirmed, with no response on file")]
    NoAnswer,
    /// The claim is a tombstone: the body of the response has been dropped, as old as it is. Its content type, length and digest
    /// are in [`Receipt::answer`].
    #[error("confirmed, but the {len} bytes of the response have been purged")]
    Purged {
        /// Bytes received.
        len: u64,
    },
    /// The answer was longer than is kept.
    #[error("confirmed, but only {kept} of {len} bytes of the response are on file")]
    Cut {
        /// Bytes kept.
        kept: usize,
        /// Bytes received.
        len: u64,
    },
    /// The answer does not have the shape of the type.
    #[error("confirmed, but the response on file does not have the expected shape")]
    Shape(#[source] serde_json::Error),
}

/// A provider's id as it is kept: what no column can carry is replaced, so that a hostile id never costs an outcome.
pub(crate) fn provider_id(id: String) -> String {
    clean(id, 255)
}

/// Text from outside as it is kept: control characters (PostgreSQL takes no NUL) become U+FFFD, and it is cut to `max` bytes.
pub(crate) fn clean(s: String, max: usize) -> String {
    let s = if s.chars().any(char::is_control) {
        s.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        s
    };
    cut(s, max)
}

/// At most `max` bytes of `s`, cut between characters.
pub(crate) fn cut(mut s: String, max: usize) -> String {
    if s.len() > max {
        let end = (0..=max).rev().find(|&i| s.is_char_boundary(i)).unwrap_or(0);
        s.truncate(end);
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_that_a_newer_type_cannot_read_is_still_a_receipt() {
        let old = Answer::json(&serde_json::json!({"id": "ch_1"})).expect("json");
        let receipt = Receipt::<u32>::new(Some(old), Some("ch_1".into()));
        assert!(matches!(receipt.decode(), Err(Undecoded::Shape(_))));
        assert_eq!(receipt.provider_ref.as_deref(), Some("ch_1"));
    }

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        let answer = Answer::new("text/plain", vec![7u8; ANSWER_BYTES_MAX + 1]);
        assert!(answer.is_cut());
        assert_eq!((answer.bytes.len(), answer.len), (ANSWER_BYTES_MAX, ANSWER_BYTES_MAX as u64 + 1));
        assert!(matches!(Receipt::<u32>::new(Some(answer), None).decode(), Err(Undecoded::Cut { .. })));
    }

    #[test]
    fn of_a_purged_answer_all_but_the_body_is_left() {
        let old = Answer::json(&serde_json::json!(7)).expect("json");
        let receipt =
            Receipt::<u8>::of_tombstone(Some(old.clone()), Some("ch_1".into())).cast::<u32>().clone();
        assert!(receipt.purged && matches!(receipt.decode(), Err(Undecoded::Purged { len: 1 })));
        let answer = receipt.answer.expect("what is left of it");
        assert_eq!((&answer.content_type, answer.digest), (&old.content_type, old.digest));
        assert!(answer.bytes.is_empty() && receipt.provider_ref.as_deref() == Some("ch_1"));
        let ruled = Receipt::<u32>::of_tombstone(None, None);
        assert!(matches!(ruled.decode(), Err(Undecoded::NoAnswer)));
    }

    #[test]
    fn text_from_outside_is_kept_whatever_it_holds() {
        assert_eq!(cut("a\u{1F600}".into(), 3), "a");
        assert_eq!(provider_id("ch\0_1".into()), "ch\u{FFFD}_1");
        assert_eq!(Receipt::<u32>::new(None, Some("x".repeat(999))).provider_ref.unwrap().len(), 255);
    }
}
