//! The messages: JSON Lines, the bundled ones or the user's. A bad line is named and skipped; the rest is used.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use earmark_effects::claim::{ClaimKey, Currency};
use serde::{Deserialize, Serialize};

/// What a newcomer sees first: made with a fixed seed, and kept as a file, so that it can be read and changed.
const BUNDLED: &str = include_str!("messages.jsonl");

/// The demo is to be over in a minute; a file of another size is most likely another file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const MESSAGES_MAX: usize = 5_000;
/// Longest address and subject: what mail itself allows (RFC 5321 §4.5.3.1.3), and one line for a person.
const TO_BYTES_MAX: usize = 254;
const SUBJECT_BYTES_MAX: usize = 200;

/// One message: what is to be done, once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) tenant: String,
    pub(super) kind: Kind,
    pub(super) to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) amount_minor: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) currency: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Email,
    Charge,
}

impl Message {
    /// What makes two lines the same message.
    pub(super) fn id(&self) -> MessageId {
        (self.tenant.clone(), self.id.clone())
    }

    fn fault(&self) -> Option<String> {
        if let Err(fault) = ClaimKey::in_tenant(self.tenant.as_str(), "demo", self.id.as_str()) {
            return Some(fault.to_string());
        }
        let text = |name: &str, value: &str, max: usize| {
            if value.len() > max || value.chars().any(char::is_control) {
                return Some(format!("{name} has more than {max} bytes or a control character: shorten it"));
            }
            None
        };
        if self.to.is_empty() {
            return Some("to is empty: an address, or whom to charge".to_owned());
        }
        let subject = self.subject.as_deref().unwrap_or_default();
        if let Some(fault) =
            text("to", &self.to, TO_BYTES_MAX).or_else(|| text("subject", subject, SUBJECT_BYTES_MAX))
        {
            return Some(fault);
        }
        match (self.kind, self.amount_minor, self.currency.as_deref()) {
            (Kind::Email, None, None) => None,
            (_, Some(minor), Some(_)) if minor <= 0 => {
                Some(format!("amount_minor is {minor}: it must be greater than 0"))
            }
            (_, Some(_), Some(code)) if Currency::new(code).is_none() => {
                Some(format!("currency is {code:?}: it must be three upper-case letters, such as EUR"))
            }
            (_, Some(_), Some(_)) => None,
            (_, None, _) => Some("amount_minor is missing: whole minor units, such as 1250".to_owned()),
            (_, _, None) => Some("currency is missing: three upper-case letters, such as EUR".to_owned()),
        }
    }
}

/// Tenant and id.
pub(super) type MessageId = (String, String);

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Distinct, in the order of the file.
    pub(super) distinct: Vec<Message>,
    /// Same id, another body: each must be told apart from a duplicate, and cause nothing.
    pub(super) mismatches: Vec<Message>,
    /// Lines that said the same as an earlier one: one more delivery each.
    pub(super) repeated: Vec<Message>,
    /// Bad lines, each with its number and what is wrong.
    pub(super) bad: Vec<(usize, String)>,
}

impl Messages {
    /// Those of the file, or the bundled ones.
    pub(super) fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self::parse(BUNDLED.as_bytes())) };
        let fix = "give a readable file of JSON Lines with --messages";
        let size = std::fs::metadata(path)
            .with_context(|| format!("--messages: {} cannot be read: {fix}", path.display()))?
            .len();
        anyhow::ensure!(
            size <= FILE_BYTES_MAX,
            "--messages: {} has {size} bytes, more than {FILE_BYTES_MAX}: give a shorter file",
            path.display()
        );
        let bytes = std::fs::read(path)
            .with_context(|| format!("--messages: {} cannot be read: {fix}", path.display()))?;
        let read = Self::parse(&bytes);
        let first = read.bad.first().map(|(n, what)| format!(" (line {n}: {what})")).unwrap_or_default();
        anyhow::ensure!(
            !read.distinct.is_empty(),
            "--messages: {} holds no usable message{first}: a line looks like {EXAMPLE}",
            path.display()
        );
        anyhow::ensure!(
            read.distinct.len() <= MESSAGES_MAX,
            "--messages: {} holds {} messages, more than {MESSAGES_MAX}: give a shorter file",
            path.display(),
            read.distinct.len()
        );
        Ok(read)
    }

    fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut read = Self::default();
        let mut known: HashMap<MessageId, Message> = HashMap::new();
        for (at, line) in bytes.split(|b| *b == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match message(line) {
                Err(what) => read.bad.push((at + 1, what)),
                Ok(message) => match known.get(&message.id()) {
                    None => {
                        known.insert(message.id(), message.clone());
                        read.distinct.push(message);
                    }
                    Some(first) if *first == message => read.repeated.push(message),
                    Some(_) => read.mismatches.push(message),
                },
            }
        }
        read
    }
}

const EXAMPLE: &str = r#"{"id":"m-1","kind":"charge","to":"cus_7","amount_minor":1250,"currency":"EUR"}"#;

fn message(line: &[u8]) -> Result<Message, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?.trim();
    // Serde would also take the fields from a list.
    if !text.starts_with('{') {
        return Err(format!("not a JSON object: a line looks like {EXAMPLE}"));
    }
    let message: Message = serde_json::from_str(text).map_err(|error| {
        // "at line 1": of this line, which would be read as the file's first.
        let text = error.to_string();
        text.split(" at line 1 column").next().unwrap_or(&text).to_owned()
    })?;
    match message.fault() {
        Some(fault) => Err(fault),
        None => Ok(message),
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_messages_are_good() {
        let read = Messages::load(None).expect("bundled");
        assert_eq!(read.bad, []);
        assert!(read.distinct.len() >= 200, "{}", read.distinct.len());
        assert!(read.distinct.iter().any(|m| m.kind == Kind::Email));
        assert!(read.distinct.iter().any(|m| m.kind == Kind::Charge));
        assert!(!read.mismatches.is_empty());
    }

    #[test]
    fn a_bad_line_is_named_and_the_rest_is_used() {
        let charge = r#""kind":"charge","to":"c""#;
        let lines = [
            format!(r#"{{"id":"1",{charge},"amount_minor":5,"currency":"EUR"}}"#),
            "[1,2]".to_owned(),
            r#"{"id":"2","kind":"email","to":"a@b","colour":1}"#.to_owned(),
            format!(r#"{{"id":"3",{charge},"amount_minor":0,"currency":"EUR"}}"#),
            format!(r#"{{"id":"3",{charge},"amount_minor":5,"currency":"eur"}}"#),
            format!(r#"{{"id":"3",{charge},"amount_minor":5.5,"currency":"EUR"}}"#),
            format!(r#"{{"id":"3",{charge},"currency":"EUR"}}"#),
            r#"{"id":"","kind":"email","to":"a@b"}"#.to_owned(),
            r#"{"id":"4","kind":"fax","to":"a@b"}"#.to_owned(),
            String::new(),
            r#"{"id":"5","kind":"email","to":""}"#.to_owned(),
            r#"{"id":"1","kind":"email","to":"a@b"}"#.to_owned(),
            format!(r#"  {{"id":"1",{charge},"amount_minor":5,"currency":"EUR"}}"#) + "\r",
            r#"{"id":"1","tenant":"t","kind":"email","to":"a@b"}"#.to_owned(),
        ];
        let read = Messages::parse(format!("\u{feff}{}\n", lines.join("\n")).as_bytes());
        let parts = [
            "object",
            "colour",
            "amount_minor is 0",
            "upper-case",
            "5.5",
            "amount_minor is missing",
            "message id",
            "fax",
            "to is empty",
        ];
        let numbers: Vec<_> = read.bad.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 9, 11]);
        for ((_, what), part) in read.bad.iter().zip(parts) {
            assert!(what.contains(part), "{part} in {what}");
            assert!(!what.contains("line 1"), "{what}");
        }
        let counts = (read.distinct.len(), read.mismatches.len(), read.repeated.len());
        assert_eq!(counts, (2, 1, 1));
    }
}
