//! Freezing: a call and its claim's key become bytes that are the same at every attempt.

use std::fmt::Write;

use earmark_claim::{Fingerprint, IdempotencyKey, Reference};
use serde_json::Value;

use super::call::{Draft, HttpCall, KeyPlace};
use super::faults::Faults;
use super::form::{Body, Call, Frozen, StoredKey};
use super::template::{Known, Place, fill};
use super::{guard, pointer};

/// A call frozen for one claim.
#[derive(Clone, Debug)]
pub struct FrozenCall {
    /// The claim's `request`, of form [`FORM`](super::FORM). It holds no secret.
    pub bytes: Vec<u8>,
    /// Of the request without the idempotency key and without the tables: a deploy that mends a table makes no
    /// mismatch.
    pub fingerprint: Fingerprint,
    /// The name of the credential.
    pub credential: Option<String>,
    /// Where it goes: `https://api.example.com`.
    pub origin: String,
}

impl HttpCall {
    /// Freezes the call for a claim.
    ///
    /// `kind`: the stored name of the operation; it is part of the fingerprint.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong with the call, each with its fix. Nothing was sent or stored.
    pub fn freeze(
        &self,
        kind: &str,
        key: &IdempotencyKey,
        reference: &Reference,
    ) -> Result<FrozenCall, Faults> {
        let known =
            Known { idempotency_key: key.as_str(), reference: reference.as_str(), provider_ref: None };
        let (frozen, origin) = self.frozen_with(&known)?;
        Ok(FrozenCall {
            bytes: frozen.write()?,
            fingerprint: Fingerprint::of(kind, &self.canonical()),
            credential: self.credential.clone(),
            origin,
        })
    }

    pub(super) fn frozen_with(&self, known: &Known<'_>) -> Result<(Frozen, String), Faults> {
        let mut faults = self.own_faults();
        let url = self.filled_url(known).map_err(|of_url| faults.extend(of_url));
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            match fill(value, known, Place::Plain) {
                Ok(value) => headers.push((name.clone(), value)),
                Err(fault) => faults.push(format!("the header {name}: {fault}")),
            }
        }
        let body = self.filled_body(known).map_err(|fault| faults.push(fault));
        if let Some(content_type) = self.content_type(&headers) {
            headers.push(("content-type".to_owned(), content_type));
        }
        faults.extend(guard::header_faults(&headers));
        let (Ok(url), Ok(body)) = (url, body) else {
            return Err(Faults::none_in(faults)
                .err()
                .unwrap_or_else(|| Faults::one("the call is unusable".into())));
        };
        Faults::none_in(faults)?;
        let call = Call {
            method: self.method.clone(),
            url: url.to_string(),
            headers,
            body: body.map(Body::of),
            credential: self.credential.clone(),
            key: self.stored_key(),
        };
        let probes = self.probes.iter().map(|probe| probe.stored(self.credential.as_ref())).collect();
        Ok((Frozen::new(call, self.answers.clone(), probes), guard::origin(&url)))
    }

    fn filled_url(&self, known: &Known<'_>) -> Result<url::Url, Vec<String>> {
        let filled = fill(&self.url, known, Place::Url).map_err(|e| vec![e])?;
        let url = guard::url(&filled)?;
        let secrets = guard::secret_parameter_faults(&url);
        if secrets.is_empty() { Ok(url) } else { Err(secrets) }
    }

    fn filled_body(&self, known: &Known<'_>) -> Result<Option<Vec<u8>>, String> {
        let filled =
            |text: &str, place| if self.fill_body { fill(text, known, place) } else { Ok(text.to_owned()) };
        match &self.body {
            Draft::None => Ok(None),
            Draft::Json(text) => Ok(Some(self.with_members(filled(text, Place::Json)?, known)?.into_bytes())),
            Draft::Form(fields) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                for (name, value) in fields {
                    form.append_pair(name, &filled(value, Place::Plain)?);
                }
                Ok(Some(form.finish().into_bytes()))
            }
            Draft::Raw { bytes, .. } => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(filled(text, Place::Plain)?.into_bytes())),
                Err(_) if self.fill_body => Err("placeholders_in_body needs a body of UTF-8".to_owned()),
                Err(_) => Ok(Some(bytes.clone())),
            },
        }
    }

    /// Key and reference put into the JSON body.
    fn with_members(&self, text: String, known: &Known<'_>) -> Result<String, String> {
        let key = match &self.key {
            Some(KeyPlace::Json(at)) => Some((at, known.idempotency_key)),
            _ => None,
        };
        let members: Vec<_> =
            key.into_iter().chain(self.reference_at.as_ref().map(|at| (at, known.reference))).collect();
        if members.is_empty() {
            // Not even parsed: the bytes are those that were given.
            return Ok(text);
        }
        let mut body: Value =
            serde_json::from_str(&text).map_err(|e| format!("the body cannot be read again: {e}"))?;
        if let Some(number) = inexact(&body) {
            return Err(format!(
                "the body holds the number {number}, which JSON readers round, and the body must be read to put the \
                 key or the reference in: send it as a string"
            ));
        }
        for (at, value) in members {
            pointer::insert(&mut body, at, Value::String(value.to_owned()))?;
        }
        Ok(body.to_string())
    }

    fn content_type(&self, headers: &[(String, String)]) -> Option<String> {
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            return None;
        }
        match &self.body {
            Draft::None => None,
            Draft::Json(_) => Some("application/json".to_owned()),
            Draft::Form(_) => Some("application/x-www-form-urlencoded".to_owned()),
            Draft::Raw { content_type, .. } => Some(content_type.clone()),
        }
    }

    fn stored_key(&self) -> StoredKey {
        match &self.key {
            Some(KeyPlace::Header { name, quoted }) => {
                StoredKey::Header { name: name.clone(), quoted: *quoted }
            }
            Some(KeyPlace::Json(at)) => StoredKey::Json { at: at.clone() },
            None if self.sends_key() => StoredKey::Placed {},
            None => StoredKey::None {},
        }
    }

    /// What makes two requests the same: method, URL, headers and body as they were written, key and reference left
    /// out, which both follow from the claim. JSON in a fixed order of members, since maps have none.
    fn canonical(&self) -> Vec<u8> {
        if let Some(stable) = &self.stable {
            return stable.clone();
        }
        let mut headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        headers.sort();
        let head = Value::from(vec![
            Value::from(self.method.as_str()),
            Value::from(self.url.as_str()),
            headers.into_iter().map(|(name, value)| Value::from(vec![name, value.to_owned()])).collect(),
        ]);
        let mut out = canonical_json(&head).into_bytes();
        // JSON written like this holds no line feed, so the two parts cannot be taken for others.
        out.push(b'\n');
        match &self.body {
            Draft::None => {}
            Draft::Json(text) => match serde_json::from_str(text) {
                Ok(value) if inexact(&value).is_none() => out.extend(canonical_json(&value).into_bytes()),
                _ => out.extend(text.as_bytes()),
            },
            Draft::Form(fields) => {
                out.extend(
                    url::form_urlencoded::Serializer::new(String::new())
                        .extend_pairs(fields)
                        .finish()
                        .bytes(),
                );
            }
            Draft::Raw { content_type, bytes } => {
                out.extend(content_type.as_bytes());
                out.push(b'\n');
                out.extend(bytes);
            }
        }
        out
    }
}

/// Compact JSON with the members of every object in the order of their names, whatever the map behind it does.
pub(super) fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (n, (name, value)) in members.into_iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

/// A number that a 64-bit float does not hold exactly: an integer beyond 64 bits, read as a float.
fn inexact(value: &Value) -> Option<String> {
    /// 2^53: above it, floats skip integers.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(n) if n.is_f64() => n.as_f64().filter(|f| f.abs() > EXACT_MAX).map(|_| n.to_string()),
        Value::Array(items) => items.iter().find_map(inexact),
        Value::Object(members) => members.values().find_map(inexact),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_is_this_and_stays_this() {
        // Fingerprints on file are of this text.
        let value = json!({"b": [1, 0.5, {"z": null, "a": "\u{1F600}\n\""}], "": true, "a": -1});
        assert_eq!(
            canonical_json(&value),
            "{\"\":true,\"a\":-1,\"b\":[1,0.5,{\"a\":\"\u{1F600}\\n\\\"\",\"z\":null}]}"
        );
    }
}
