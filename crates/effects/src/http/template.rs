//! Placeholders: what only the claim knows, put into what the author wrote.
//!
//! One pass over the author's text: what is put in is never read again, so that a value that looks like a
//! placeholder stays what it is.

/// What the placeholders stand for.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) idempotency_key: &'a str,
    pub(super) reference: &'a str,
    /// The provider's id, once an answer named one. Only a probe can use it.
    pub(super) provider_ref: Option<&'a str>,
}

/// Where a value is put, and so how it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Percent-encoded: nothing but the unreserved characters of RFC 3986 §2.3 stays.
    Url,
    /// As the inside of a JSON string.
    Json,
    /// As it is.
    Plain,
}

const NAMES: [&str; 3] = ["{idempotency_key}", "{reference}", "{provider_ref}"];

/// The text with every placeholder filled in.
pub(super) fn fill(template: &str, known: &Known<'_>, place: Place) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match NAMES.iter().find(|name| rest.starts_with(**name)) {
            Some(name) => {
                write(&mut out, value(name, known)?, place)?;
                rest = &rest[name.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether the text names this placeholder.
pub(super) fn names_key(template: &str) -> bool {
    template.contains(NAMES[0])
}

/// Whether the text names a placeholder.
pub(super) fn names_any(template: &str) -> bool {
    NAMES.iter().any(|name| template.contains(name))
}

/// Whether the text can be filled only once the provider's id is known.
pub(super) fn names_provider_ref(template: &str) -> bool {
    template.contains(NAMES[2])
}

/// The first `{word}` that is no placeholder: most likely one that was misspelt.
pub(super) fn misspelt(template: &str) -> Option<&str> {
    template.match_indices('{').find_map(|(at, _)| {
        let rest = &template[at..];
        let end = rest.find('}')?;
        let (whole, word) = (&rest[..=end], &rest[1..end]);
        let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (is_word && !NAMES.contains(&whole)).then_some(whole)
    })
}

fn value<'a>(name: &str, known: &Known<'a>) -> Result<&'a str, String> {
    match name {
        "{idempotency_key}" => Ok(known.idempotency_key),
        "{reference}" => Ok(known.reference),
        _ => known.provider_ref.ok_or_else(|| "the provider's id is not known".to_owned()),
    }
}

fn write(out: &mut String, value: &str, place: Place) -> Result<(), String> {
    match place {
        Place::Plain => out.push_str(value),
        Place::Json => {
            let quoted = serde_json::to_string(value).map_err(|e| e.to_string())?;
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
        // "." and ".." are unreserved, so encoding cannot protect them, and a URL parser would walk the path with
        // them, even when they are written %2E.
        Place::Url if value.is_empty() || value.bytes().all(|b| b == b'.') => {
            return Err(format!("{value:?} cannot stand in a URL"));
        }
        Place::Url => {
            for b in value.bytes() {
                if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
                    out.push(char::from(b));
                } else {
                    out.push_str(&format!("%{b:02X}"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known<'_> =
        Known { idempotency_key: "k/1", reference: "R{reference}", provider_ref: Some("../x?y#z") };

    #[test]
    fn values_are_written_for_their_place_and_never_read_again() {
        let text = "a/{idempotency_key}?r={reference}&{other}";
        let filled = |place| fill(text, &KNOWN, place).expect("filled");
        assert_eq!(filled(Place::Url), "a/k%2F1?r=R%7Breference%7D&{other}");
        assert_eq!(filled(Place::Plain), "a/k/1?r=R{reference}&{other}");
        assert_eq!(fill("{provider_ref}", &KNOWN, Place::Url).expect("filled"), "..%2Fx%3Fy%23z");
        let quote = Known { reference: "a\"\\", ..KNOWN };
        assert_eq!(fill("{reference}", &quote, Place::Json).expect("filled"), "a\\\"\\\\");
    }

    #[test]
    fn dots_cannot_walk_a_path_and_an_unknown_id_is_an_error() {
        for bad in [Some(".."), Some("."), Some(""), None] {
            assert!(fill("/c/{provider_ref}", &Known { provider_ref: bad, ..KNOWN }, Place::Url).is_err());
        }
    }

    #[test]
    fn a_misspelt_placeholder_is_found() {
        assert_eq!(misspelt("a{reference}b{referense}"), Some("{referense}"));
        assert_eq!(misspelt("{\"a\": 1} {} {provider_ref"), None);
    }
}
