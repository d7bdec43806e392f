//! An HTTP call as a service author writes it.

use serde::Serialize;

use super::answers::Answers;
use super::faults::Faults;
use super::on::misspelt;
use super::probe::HttpProbe;
use super::template::{self, Known};
use super::{form, guard, pointer};

/// Most probes of one call: by id, by reference, and room for two more.
const PROBES_MAX: usize = 4;

/// One call of a provider's HTTP interface: what is sent, where the idempotency key goes, what the answers mean, and
/// how to ask whether it happened. Frozen on the claim, all of it: see [`HttpCall::freeze`].
///
/// Nothing fails while it is written; [`HttpCall::check`] and [`HttpCall::freeze`] name every fault at once.
///
/// ```
/// use earmark_effects::http::{Answers, HttpCall, HttpProbe, Items, On};
/// let call = HttpCall::post("https://api.example.com/v1/charges")
///     .json(&serde_json::json!({"amount": 1200, "currency": "EUR"}))
///     .reference_at("/metadata/reference")
///     .credential("example")
///     .key_header("Idempotency-Key")
///     .answers(
///         Answers::new()
///             .provider_id("/id")
///             .refused_and_stored(On::status(402).json("/error/code", "card_declined"), "card_declined")
///             .not_sent(On::status(429), "rate_limited"),
///     )
///     .probe(
///         HttpProbe::get("https://api.example.com/v1/charges?reference={reference}")
///             .done_items(On::status(200), Items::at("/data").with("/metadata/reference", "{reference}").id("/id"))
///             .not_done(On::status(200).json("/has_more", false)),
///     );
/// call.check()?;
/// # Ok::<(), earmark_effects::http::Faults>(())
/// ```
///
/// **Placeholders.** URL and header values may hold `{idempotency_key}` and `{reference}`; in a URL they are
/// percent-encoded. In a body they are filled in only after [`HttpCall::placeholders_in_body`], since bodies often
/// hold text that users wrote; for JSON there are [`HttpCall::key_at`] and [`HttpCall::reference_at`].
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpCall {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Draft,
    pub(super) credential: Option<String>,
    pub(super) key: Option<KeyPlace>,
    pub(super) reference_at: Option<String>,
    pub(super) fill_body: bool,
    pub(super) stable: Option<Vec<u8>>,
    pub(super) answers: Answers,
    pub(super) probes: Vec<HttpProbe>,
    /// What went wrong while it was written.
    pub(super) faults: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Draft {
    None,
    /// As `serde_json` wrote it.
    Json(String),
    Form(Vec<(String, String)>),
    Raw {
        content_type: String,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum KeyPlace {
    Header { name: String, quoted: bool },
    Json(String),
}

impl HttpCall {
    /// A POST.
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// A PUT.
    pub fn put(url: &str) -> Self {
        Self::new("PUT", url)
    }

    /// A PATCH.
    pub fn patch(url: &str) -> Self {
        Self::new("PATCH", url)
    }

    /// A DELETE.
    pub fn delete(url: &str) -> Self {
        Self::new("DELETE", url)
    }

    /// A call with another method: POST, PUT, PATCH, DELETE, or GET for providers that act on a GET.
    pub fn new(method: &str, url: &str) -> Self {
        Self {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Draft::None,
            credential: None,
            key: None,
            reference_at: None,
            fill_body: false,
            stable: None,
            answers: Answers::new(),
            probes: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Sends this header. One that carries a secret is refused: name a [`HttpCall::credential`] instead.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a JSON body, as `application/json` unless a header says otherwise. The bytes are frozen as serialised
    /// here; a repeat sends the very same.
    pub fn json<T: Serialize + ?Sized>(mut self, body: &T) -> Self {
        match serde_json::to_string(body) {
            Ok(text) => self.body = Draft::Json(text),
            Err(e) => self.faults.push(format!("the body has no JSON form: {e}")),
        }
        self
    }

    /// Sends a form, as `application/x-www-form-urlencoded` unless a header says otherwise.
    pub fn form<K: Into<String>, V: Into<String>>(
        mut self,
        fields: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.body =
            Draft::Form(fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Sends these bytes.
    pub fn body(mut self, content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Draft::Raw { content_type: content_type.to_owned(), bytes: bytes.into() };
        self
    }

    /// Fills in placeholders in the body, too: escaped for JSON and forms, as they are elsewhere. Off by default,
    /// since a body often holds text that users wrote.
    pub fn placeholders_in_body(mut self) -> Self {
        self.fill_body = true;
        self
    }

    /// Whose secret is added at the wire: the name of a configured credential. Without one the call is anonymous, and
    /// its origin must be configured as open to that.
    pub fn credential(mut self, name: &str) -> Self {
        self.credential = Some(name.to_owned());
        self
    }

    /// The idempotency key goes into this header, as it is.
    pub fn key_header(mut self, name: &str) -> Self {
        self.key = Some(KeyPlace::Header { name: name.to_owned(), quoted: false });
        self
    }

    /// The idempotency key goes into this header as a structured string, in quotes, as
    /// draft-ietf-httpapi-idempotency-key-header-07 §2.1 has it. Few providers take that: most read the quotes as a
    /// part of the key.
    pub fn key_header_quoted(mut self, name: &str) -> Self {
        self.key = Some(KeyPlace::Header { name: name.to_owned(), quoted: true });
        self
    }

    /// The idempotency key goes into the JSON body at this pointer, before it is frozen. Objects on the way are made.
    pub fn key_at(mut self, pointer: &str) -> Self {
        self.key = Some(KeyPlace::Json(pointer.to_owned()));
        self
    }

    /// The reference goes into the JSON body at this pointer, before it is frozen: most often a metadata field, so
    /// that a probe, a webhook or a statement finds it.
    pub fn reference_at(mut self, pointer: &str) -> Self {
        self.reference_at = Some(pointer.to_owned());
        self
    }

    /// What makes two requests the same, where that is less than the whole request: for a body with a time or a
    /// random value in it. Two claims of one key with other stable fields are a mismatch.
    pub fn stable<T: Serialize + ?Sized>(mut self, fields: &T) -> Self {
        match serde_json::to_value(fields) {
            Ok(value) => self.stable = Some(super::freeze::canonical_json(&value).into_bytes()),
            Err(e) => self.faults.push(format!("the stable fields have no JSON form: {e}")),
        }
        self
    }

    /// What the answers mean.
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    /// How to ask whether it happened. Of several, the first that can be filled in is asked.
    pub fn probe(mut self, probe: HttpProbe) -> Self {
        self.probes.push(probe);
        self
    }

    /// Whether it can be frozen: worth a call when the service starts.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong with it, each with its fix.
    pub fn check(&self) -> Result<(), Faults> {
        let example = Known {
            idempotency_key: "00000000-0000-4000-8000-000000000000",
            reference: "0000000000000000",
            provider_ref: None,
        };
        self.frozen_with(&example).map(|_| ())
    }

    /// Whether the provider sees the key.
    pub(crate) fn sends_key(&self) -> bool {
        let headers = self.headers.iter().map(|(_, value)| value);
        let in_body = self.fill_body
            && match &self.body {
                Draft::None => false,
                Draft::Json(text) => template::names_key(text),
                Draft::Form(fields) => fields.iter().any(|(_, value)| template::names_key(value)),
                Draft::Raw { bytes, .. } => std::str::from_utf8(bytes).is_ok_and(template::names_key),
            };
        self.key.is_some() || in_body || headers.chain([&self.url]).any(|text| template::names_key(text))
    }

    /// Credential and origin of the call and of each probe.
    pub(super) fn goes_to(&self) -> Vec<(Option<String>, String)> {
        let own = url::Url::parse(&self.url).ok().map(|url| (self.credential.clone(), guard::origin(&url)));
        let probes = self.probes.iter().filter_map(|probe| {
            let stored = probe.stored(self.credential.as_ref());
            let url = url::Url::parse(&stored.url).ok()?;
            Some((stored.credential, guard::origin(&url)))
        });
        own.into_iter().chain(probes).collect()
    }

    /// What is wrong with it before anything is filled in.
    pub(super) fn own_faults(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        faults.extend(form::method_fault(&self.method));
        faults.extend(guard::fixed_origin(&self.url).err().unwrap_or_default());
        faults.extend(guard::secret_faults(&self.headers));
        for text in self.headers.iter().map(|(_, value)| value).chain([&self.url]) {
            faults.extend(misspelt(text));
            if template::names_provider_ref(text) {
                faults
                    .push("{provider_ref} is not known before the call: only a probe can use it".to_owned());
            }
        }
        faults.extend(self.key_faults());
        if self.reference_at.is_some() && !matches!(self.body, Draft::Json(_)) {
            faults.push("reference_at needs a JSON body: give one with .json(…)".to_owned());
        }
        faults.extend(self.reference_at.iter().flat_map(|at| one_place(at)));
        faults.extend(self.answers.faults());
        if self.probes.len() > PROBES_MAX {
            faults.push(format!("{} probes, at most {PROBES_MAX}", self.probes.len()));
        }
        faults.extend(self.probes.iter().flat_map(HttpProbe::faults));
        faults
    }

    fn key_faults(&self) -> Vec<String> {
        match &self.key {
            Some(KeyPlace::Header { name, .. }) => {
                let mut faults = guard::header_faults(&[(name.clone(), String::new())]);
                if guard::is_secret_header(name) {
                    faults.push(format!("the idempotency key cannot go into {name}, which carries a secret"));
                }
                if self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                    faults.push(format!(
                        "the header {name} is set by hand, too: leave it out, the key goes there"
                    ));
                }
                faults
            }
            Some(KeyPlace::Json(_)) if !matches!(self.body, Draft::Json(_)) => {
                vec!["key_at needs a JSON body: give one with .json(…)".to_owned()]
            }
            Some(KeyPlace::Json(at)) => one_place(at),
            None => Vec::new(),
        }
    }
}

/// What is wrong with a pointer that says where something is put.
fn one_place(at: &str) -> Vec<String> {
    let wild = pointer::is_wild(at).then(|| format!("{at:?} names several places: name one, without \"*\""));
    pointer::fault(at).into_iter().chain(wild).collect()
}
