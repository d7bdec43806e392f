//! Conditions on an answer.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pointer;
use super::seen::Seen;
use super::template::{self, Known, Place};

/// Conditions on an answer; all must hold.
///
/// ```
/// use earmark_effects::http::On;
/// On::status(200..=299);
/// On::status([400, 422]).json("/error/code", "invalid_recipient");
/// On::status(503).header("transient-error", "true");
/// ```
///
/// Conditions on the body hold only for a body that arrived whole, was not cut, and is JSON. Where it did not arrive
/// whole they can be neither held nor denied: see [`Answers`](super::Answers).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct On {
    /// Inclusive ranges; empty: any status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    status: Vec<(u16, u16)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<HeaderTest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    json: Vec<JsonTest>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderTest {
    name: String,
    is: Is<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTest {
    at: String,
    is: Is<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Is<T> {
    Present,
    Absent,
    In(Vec<T>),
}

/// Whether conditions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    No,
    /// They hold but for what the body says, and the body did not arrive whole.
    Unread,
}

/// Statuses, as [`On::status`] takes them: `402`, `200..=299`, `[400, 422]`.
pub trait Statuses {
    /// As inclusive ranges.
    fn ranges(self) -> Vec<(u16, u16)>;
}

impl Statuses for u16 {
    fn ranges(self) -> Vec<(u16, u16)> {
        vec![(self, self)]
    }
}

impl Statuses for RangeInclusive<u16> {
    fn ranges(self) -> Vec<(u16, u16)> {
        vec![self.into_inner()]
    }
}

impl<const N: usize> Statuses for [u16; N] {
    fn ranges(self) -> Vec<(u16, u16)> {
        self.into_iter().map(|s| (s, s)).collect()
    }
}

impl On {
    /// An answer with one of these statuses.
    pub fn status(statuses: impl Statuses) -> Self {
        Self { status: statuses.ranges(), ..Self::default() }
    }

    /// An answer of any status: for providers that say everything in the body.
    pub fn any_status() -> Self {
        Self::default()
    }

    /// And the header has this value. Names are compared without case, values byte for byte.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(HeaderTest { name: name.to_owned(), is: Is::In(vec![value.to_owned()]) });
        self
    }

    /// And the header is there.
    pub fn header_present(mut self, name: &str) -> Self {
        self.headers.push(HeaderTest { name: name.to_owned(), is: Is::Present });
        self
    }

    /// And the body has this value at the JSON pointer (RFC 6901). With a segment `*`: one of the values found.
    pub fn json(self, at: &str, value: impl Into<Value>) -> Self {
        self.json_in(at, [value])
    }

    /// And the body has one of these values at the JSON pointer.
    pub fn json_in<V: Into<Value>>(mut self, at: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.json.push(JsonTest { at: at.to_owned(), is: Is::In(values) });
        self
    }

    /// And the body has something at the JSON pointer that is not `null`.
    pub fn json_present(mut self, at: &str) -> Self {
        self.json.push(JsonTest { at: at.to_owned(), is: Is::Present });
        self
    }

    /// And the body has nothing, or `null`, at the JSON pointer.
    pub fn json_absent(mut self, at: &str) -> Self {
        self.json.push(JsonTest { at: at.to_owned(), is: Is::Absent });
        self
    }

    /// Whether the answer fits. `known`: what placeholders in the values stand for.
    pub(super) fn fit(&self, seen: &Seen, known: Option<&Known<'_>>) -> Fit {
        let in_range = |&(from, to): &(u16, u16)| (from..=to).contains(&seen.status);
        if !self.status.is_empty() && !self.status.iter().any(in_range) {
            return Fit::No;
        }
        if !self.headers.iter().all(|test| test.holds(seen, known)) {
            return Fit::No;
        }
        match &seen.body.json {
            _ if self.json.is_empty() => Fit::Yes,
            _ if seen.body.is_unread() => Fit::Unread,
            Some(json) if self.json.iter().all(|test| test.holds(json, known)) => Fit::Yes,
            _ => Fit::No,
        }
    }

    /// Whether a value in it is to be filled in.
    pub(super) fn names_placeholder(&self) -> bool {
        let headers = self.headers.iter().filter_map(|test| match &test.is {
            Is::In(values) => Some(values.iter().map(String::as_str)),
            _ => None,
        });
        let json = self.json.iter().filter_map(|test| match &test.is {
            Is::In(values) => Some(values.iter().filter_map(Value::as_str)),
            _ => None,
        });
        headers.flatten().chain(json.flatten()).any(template::names_any)
    }

    /// Whether it names statuses.
    pub(super) fn names_status(&self) -> bool {
        !self.status.is_empty()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.status.is_empty() && self.headers.is_empty() && self.json.is_empty() {
            faults.push("it holds for every answer: name a status, a header or a JSON pointer".to_owned());
        }
        for (from, to) in &self.status {
            if from > to || *from < 100 || *to > 999 {
                faults.push(format!("{from} to {to} are no statuses: 100 to 999, the smaller first"));
            }
        }
        for test in &self.headers {
            if http::HeaderName::try_from(test.name.as_str()).is_err() {
                faults.push(format!("{:?} is not a header name", test.name));
            }
            if let Is::In(values) = &test.is {
                faults.extend(values.iter().filter_map(|v| misspelt(v)));
            }
        }
        for test in &self.json {
            faults.extend(pointer::fault(&test.at));
            if let Is::In(values) = &test.is {
                if values.is_empty() {
                    faults.push(format!("{:?} is compared with an empty list, which never holds", test.at));
                }
                faults.extend(values.iter().filter_map(Value::as_str).filter_map(misspelt));
            }
        }
        faults
    }
}

impl HeaderTest {
    fn holds(&self, seen: &Seen, known: Option<&Known<'_>>) -> bool {
        let value = seen.header(&self.name);
        match &self.is {
            Is::Present => value.is_some(),
            Is::Absent => value.is_none(),
            Is::In(values) => {
                value.is_some_and(|v| values.iter().any(|t| filled(t, known).as_deref() == Some(v)))
            }
        }
    }
}

impl JsonTest {
    fn holds(&self, json: &Value, known: Option<&Known<'_>>) -> bool {
        let found = pointer::find(json, &self.at);
        let present = found.iter().any(|v| !v.is_null());
        match &self.is {
            Is::Present => present,
            Is::Absent => !present,
            Is::In(values) => values.iter().any(|v| found.iter().any(|f| same(f, v, known))),
        }
    }
}

/// Whether a value of the answer is the one of the table, placeholders filled in.
pub(super) fn same(found: &Value, wanted: &Value, known: Option<&Known<'_>>) -> bool {
    match wanted {
        Value::String(text) => found.as_str().is_some_and(|f| filled(text, known).as_deref() == Some(f)),
        other => found == other,
    }
}

fn filled(text: &str, known: Option<&Known<'_>>) -> Option<String> {
    match known {
        Some(known) => template::fill(text, known, Place::Plain).ok(),
        None => Some(text.to_owned()),
    }
}

pub(super) fn misspelt(text: &str) -> Option<String> {
    template::misspelt(text).map(|word| {
        format!(
            "{word} is no placeholder: {{idempotency_key}}, {{reference}}, and for a probe {{provider_ref}}"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(status: u16, body: &str) -> Seen {
        Seen::new(status, &[("X-Mark", "true")], body)
    }

    #[test]
    fn every_condition_must_hold() {
        let body = r#"{"error":{"code":"declined"},"n":1,"none":null,"list":[{"a":1},{"a":2}]}"#;
        for (on, fits) in [
            (On::status(402), Fit::Yes),
            (On::status([400, 402]), Fit::Yes),
            (On::status(400..=499), Fit::Yes),
            (On::status(200..=299), Fit::No),
            (On::any_status().json("/n", 1), Fit::Yes),
            (On::status(402).json("/error/code", "declined"), Fit::Yes),
            (On::status(402).json_in("/error/code", ["x", "declined"]), Fit::Yes),
            (On::status(402).json("/error/code", "other"), Fit::No),
            (On::status(402).json("/list/*/a", 2), Fit::Yes),
            (On::status(402).json("/list/*/a", 3), Fit::No),
            (On::status(402).json_present("/none"), Fit::No),
            (On::status(402).json_absent("/none"), Fit::Yes),
            (On::status(402).json_absent("/nowhere"), Fit::Yes),
            (On::status(402).json_absent("/n"), Fit::No),
            (On::status(402).header("x-mark", "true"), Fit::Yes),
            (On::status(402).header("x-mark", "false"), Fit::No),
            (On::status(402).header_present("X-MARK"), Fit::Yes),
            (On::status(402).header_present("x-other"), Fit::No),
        ] {
            assert_eq!(on.fit(&seen(402, body), None), fits, "{on:?}");
            assert_eq!(on.faults(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_body_that_is_not_json_fits_no_condition_on_json() {
        for body in ["", "<html>", "failed", " "] {
            assert_eq!(On::status(200).json_absent("/error").fit(&seen(200, body), None), Fit::No);
        }
    }

    #[test]
    fn json_that_our_reader_does_not_take_is_not_judged() {
        let deep = format!("{{\"status\":\"failed\",\"a\":{}1{}}}", "[".repeat(500), "]".repeat(500));
        let half = r#"{"status":"failed","echo":"Hi \ud83d"}"#;
        for body in
            [half, &deep, r#" {"status":"failed","n":1e999}"#, "\u{feff}{\"status\":\"failed\"}", "[1,"]
        {
            let on = On::status(200).json("/status", "failed");
            assert_eq!(on.fit(&seen(200, body), None), Fit::Unread, "{body:.60}");
            assert_eq!(
                On::status(402).json_present("/x").fit(&seen(200, body), None),
                Fit::No,
                "the status is read"
            );
        }
    }

    #[test]
    fn a_body_that_was_cut_is_not_judged() {
        let long = format!("{:?}", "x".repeat(earmark_claim::ANSWER_BYTES_MAX));
        assert_eq!(On::status(200).json_absent("/error").fit(&seen(200, &long), None), Fit::Unread);
        assert_eq!(On::status(201).json_absent("/error").fit(&seen(200, &long), None), Fit::No);
    }

    #[test]
    fn every_fault_is_named() {
        let on = On { status: vec![(99, 20)], ..On::any_status() }
            .header("a b", "{referense}")
            .json("error", json!("{provider}"))
            .json_in("/x", Vec::<Value>::new());
        assert_eq!(on.faults().len(), 6, "{:?}", on.faults());
        assert_eq!(On::any_status().faults().len(), 1);
    }
}
