//! An answer as the tables look at it.

use std::time::SystemTime;

use earmark_claim::{ANSWER_BYTES_MAX, Answer};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Most bytes of an answer to a call that are received; the rest is not waited for. The outcome never depends on them;
/// 1 MiB is far beyond any answer that means something, and bounds what an endless one costs.
pub(super) const RECEIVED_BYTES_MAX: u64 = 1024 * 1024;

/// An answer: status, headers, and as much of the body as arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    /// When it arrived, for a `Retry-After` that names a moment and comes without `Date`.
    pub(super) at: SystemTime,
}

/// The body: a cut of it, with length and digest of all that was received.
#[derive(Clone, Debug)]
pub(super) struct Body {
    kept: Vec<u8>,
    len: u64,
    digest: [u8; 32],
    /// Nothing was cut, and the end was seen.
    pub(super) whole: bool,
    /// Its content, where it is whole and JSON.
    pub(super) json: Option<Value>,
}

impl Body {
    /// Whether conditions on its content can neither hold nor fail: it did not arrive whole, or it is JSON by its first
    /// character and our reader does not take it (half a character in an escape, hundreds of levels, absurd numbers).
    pub(super) fn is_unread(&self) -> bool {
        let text = self.kept.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.kept).trim_ascii_start();
        !self.whole || (self.json.is_none() && matches!(text.first(), Some(b'{' | b'[')))
    }
}

impl Seen {
    /// An answer made by hand, to try a table with: see [`Answers::judge`](super::Answers::judge). Headers that are
    /// none are left out.
    pub fn new(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let legal = headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(*name).ok()?, HeaderValue::from_str(value).ok()?))
        });
        let mut reader = Reader::keeping(ANSWER_BYTES_MAX);
        let more = reader.take(body.as_ref());
        Self { status, headers: legal.collect(), body: reader.finish(more), at: SystemTime::UNIX_EPOCH }
    }

    /// An answer off the wire. Whatever becomes of the body, the status is known and the answer is one.
    ///
    /// `keep`: bytes of the body that are held and can be judged.
    pub(super) async fn read(mut response: reqwest::Response, keep: usize) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut reader = Reader::keeping(keep);
        let whole = loop {
            match response.chunk().await {
                Ok(Some(bytes)) if reader.take(&bytes) => {}
                Ok(Some(_)) | Err(_) => break false,
                Ok(None) => break true,
            }
        };
        // The one look at the host's wall clock: `Retry-After` and the provider's own dates are in it, and it is
        // used only where the answer brings no `Date` of its own.
        Self { status: status.as_u16(), headers, body: reader.finish(whole), at: SystemTime::now() }
    }

    /// The answer as evidence: at most [`ANSWER_BYTES_MAX`] bytes of it.
    pub(super) fn answer(&self) -> Answer {
        let content_type = self.header("content-type").unwrap_or_default();
        let mut answer = Answer::new(content_type, self.body.kept.as_slice());
        (answer.len, answer.digest) = (self.body.len, self.body.digest);
        answer
    }

    /// A header's value, where it is readable text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// The standard name of the status, for a person.
    pub(super) fn reason(&self) -> &'static str {
        StatusCode::from_u16(self.status).ok().and_then(|s| s.canonical_reason()).unwrap_or("")
    }
}

struct Reader {
    kept: Vec<u8>,
    keep: usize,
    len: u64,
    hash: Sha256,
}

impl Reader {
    fn keeping(keep: usize) -> Self {
        Self { kept: Vec::new(), keep, len: 0, hash: Sha256::new() }
    }

    /// Whether more is wanted.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let room = self.keep.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.hash.update(bytes);
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.len <= RECEIVED_BYTES_MAX
    }

    fn finish(self, ended: bool) -> Body {
        let whole = ended && self.len == self.kept.len() as u64;
        let json = if whole { serde_json::from_slice(&self.kept).ok() } else { None };
        Body { kept: self.kept, len: self.len, digest: self.hash.finalize().into(), whole, json }
    }
}
