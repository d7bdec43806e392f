//! The stored form `http/1`: what is frozen on a claim, so that whoever holds it can perform it and look for it,
//! with no code of the service that made it.
//!
//! Canonical and byte-exact: members in a fixed order, the body as text exactly where it is UTF-8, else base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::answers::Answers;
use super::faults::Faults;
use super::guard;
use super::probe::StoredProbe;

/// The name of the form, as it stands in the claim's `form` column.
pub const FORM: &str = "http/1";

const VERSION: u32 = 1;

/// Most bytes of a frozen request. A claim is a row: what is larger belongs into an object store, and its address into
/// the request.
pub const FROZEN_BYTES_MAX: usize = 2 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Frozen {
    v: u32,
    pub(super) call: Call,
    pub(super) answers: Answers,
    /// The first that can be filled in is asked.
    pub(super) probe: Vec<StoredProbe>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Body>,
    pub(super) credential: Option<String>,
    pub(super) key: StoredKey,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    Text(String),
    Base64(String),
}

/// Where the provider finds the idempotency key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum StoredKey {
    /// Set at the wire, the same at every attempt.
    Header { name: String, quoted: bool },
    /// In the frozen body already, at this JSON pointer.
    Json { at: String },
    /// In the frozen URL, a header or the body already, by a placeholder.
    Placed {},
    /// Nowhere.
    None {},
}

#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

impl Frozen {
    pub(super) fn new(call: Call, answers: Answers, probe: Vec<StoredProbe>) -> Self {
        Self { v: VERSION, call, answers, probe }
    }

    pub(super) fn write(&self) -> Result<Vec<u8>, Faults> {
        let bytes = serde_json::to_vec(self)
            .map_err(|e| Faults::one(format!("the request has no JSON form: {e}")))?;
        if bytes.len() > FROZEN_BYTES_MAX {
            return Err(Faults::one(format!(
                "the frozen request has {} bytes, at most {FROZEN_BYTES_MAX} are stored: send the address of a large \
                 body, not the body",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Reads what a claim holds. It comes from a database: nothing in it is believed.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Faults> {
        if bytes.len() > FROZEN_BYTES_MAX {
            return Err(Faults::one(format!(
                "the frozen request has {} bytes, at most {FROZEN_BYTES_MAX}",
                bytes.len()
            )));
        }
        let unreadable =
            |e: serde_json::Error| Faults::one(format!("the frozen request is not of form {FORM}: {e}"));
        let Versioned { v } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if v != VERSION {
            return Err(Faults::one(format!(
                "the frozen request is of version {v}, and version {VERSION} is what this code reads: upgrade it"
            )));
        }
        let frozen: Self = serde_json::from_slice(bytes).map_err(unreadable)?;
        Faults::none_in(frozen.faults())?;
        Ok(frozen)
    }

    /// One line for a person: what is sent, where, with what.
    fn outline(&self) -> String {
        let call = &self.call;
        let body = call.body.as_ref().map_or(0, |body| body.bytes().len());
        let key = match &call.key {
            StoredKey::Header { name, .. } => format!("key in the header {name}"),
            StoredKey::Json { at } => format!("key in the body at {at}"),
            StoredKey::Placed {} => "key by placeholder".to_owned(),
            StoredKey::None {} => "no key".to_owned(),
        };
        let credential =
            call.credential.as_ref().map_or("no credential".to_owned(), |c| format!("credential {c}"));
        let probes = self.probe.len();
        format!("{} {}, {body} bytes, {key}, {credential}, probes: {probes}", call.method, call.url)
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = guard::header_faults(&self.call.headers);
        faults.extend(guard::url(&self.call.url).err().unwrap_or_default());
        if let Some(fault) = method_fault(&self.call.method) {
            faults.push(fault);
        }
        if let StoredKey::Header { name, .. } = &self.call.key {
            faults.extend(guard::header_faults(&[(name.clone(), String::new())]));
        }
        if let Some(Body::Base64(text)) = &self.call.body
            && STANDARD.decode(text).is_err()
        {
            faults.push("the body is not base64".to_owned());
        }
        faults.extend(self.answers.faults());
        faults.extend(self.probe.iter().flat_map(StoredProbe::faults));
        faults
    }
}

/// A frozen call in one line, for a report: method, address, size of the body, where the key goes, the credential's
/// name. Address and body may hold personal data; secrets are not in a frozen call.
///
/// # Errors
/// [`Faults`]: it is not of form `http/1`.
pub fn outline(frozen: &[u8]) -> Result<String, Faults> {
    Ok(Frozen::read(frozen)?.outline())
}

impl Body {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(e) => Self::Base64(STANDARD.encode(e.as_bytes())),
        }
    }

    /// The bytes to send. Base64 that is none was refused when the form was read.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Base64(text) => STANDARD.decode(text).unwrap_or_default(),
        }
    }
}

pub(super) fn method_fault(method: &str) -> Option<String> {
    (!matches!(method, "POST" | "PUT" | "PATCH" | "DELETE" | "GET"))
        .then(|| format!("the method {method:?} is not one of POST, PUT, PATCH, DELETE, GET"))
}
