//! JSON pointers (RFC 6901), with one extension for reading: a segment `*` means every element of an array or every
//! member of an object.

use serde_json::{Map, Value};

/// Most values that one pointer may find: a page of a provider's list has at most some hundreds of entries, and more
/// than one match is a case for a person in any event.
const MATCHES_MAX: usize = 1000;

/// What is wrong with the pointer, if anything.
pub(super) fn fault(pointer: &str) -> Option<String> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Some(format!("the JSON pointer {pointer:?} does not begin with \"/\": write \"/{pointer}\""));
    }
    let mut chars = pointer.chars();
    while let Some(c) = chars.next() {
        if c == '~' && !matches!(chars.next(), Some('0' | '1')) {
            return Some(format!(
                "the JSON pointer {pointer:?} holds a bare \"~\": write \"~0\" (RFC 6901 §3)"
            ));
        }
    }
    None
}

/// Whether it names several places.
pub(super) fn is_wild(pointer: &str) -> bool {
    pointer.split('/').any(|segment| segment == "*")
}

/// Every value that the pointer names, in order; none where it leads nowhere.
pub(super) fn find<'a>(document: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let mut found = vec![document];
    for segment in segments(pointer) {
        found = found.into_iter().flat_map(|value| step(value, &segment)).take(MATCHES_MAX).collect();
    }
    found
}

/// Puts `new` where the pointer says, making the objects on the way.
pub(super) fn insert(document: &mut Value, pointer: &str, new: Value) -> Result<(), String> {
    let mut segments: Vec<String> = segments(pointer).collect();
    let last = segments.pop().ok_or("the pointer names the whole body: name a member, such as \"/key\"")?;
    let mut place = document;
    for segment in &segments {
        place = match place {
            Value::Object(members) => {
                members.entry(segment.clone()).or_insert_with(|| Value::Object(Map::new()))
            }
            Value::Array(items) => index(segment)
                .and_then(|i| items.get_mut(i))
                .ok_or_else(|| format!("{pointer:?}: the array has no element {segment:?}"))?,
            _ => return Err(format!("{pointer:?}: {segment:?} is neither an object nor an array")),
        };
    }
    match place {
        Value::Object(members) if members.contains_key(&last) => {
            Err(format!("{pointer:?} is in the body already: leave it out, it is filled in"))
        }
        Value::Object(members) => {
            members.insert(last, new);
            Ok(())
        }
        _ => Err(format!("{pointer:?}: what should hold {last:?} is not an object")),
    }
}

fn segments(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~"))
}

fn step<'a>(value: &'a Value, segment: &str) -> Vec<&'a Value> {
    match value {
        Value::Array(items) if segment == "*" => items.iter().collect(),
        Value::Object(members) if segment == "*" => members.values().collect(),
        Value::Array(items) => index(segment).and_then(|i| items.get(i)).into_iter().collect(),
        Value::Object(members) => members.get(segment).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// RFC 6901 §4: digits without a leading zero.
fn index(segment: &str) -> Option<usize> {
    let plain = segment.bytes().all(|b| b.is_ascii_digit()) && (segment == "0" || !segment.starts_with('0'));
    if plain { segment.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        let doc = json!({"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, "k\"l": 6});
        for (pointer, value) in [
            ("/foo/0", json!("bar")),
            ("/", json!(0)),
            ("/a~1b", json!(1)),
            ("/m~0n", json!(8)),
            ("/k\"l", json!(6)),
            ("", doc.clone()),
        ] {
            assert_eq!(find(&doc, pointer), [&value], "{pointer}");
            assert_eq!(fault(pointer), None);
        }
        for nowhere in ["/foo/00", "/foo/-", "/foo/2", "/foo/+1", "/x", "/foo/0/x"] {
            assert!(find(&doc, nowhere).is_empty(), "{nowhere}");
        }
    }

    #[test]
    fn a_star_means_every_element() {
        let doc = json!({"data": [{"id": "a"}, {"no": 1}, {"id": "b"}]});
        assert_eq!(find(&doc, "/data/*/id"), [&json!("a"), &json!("b")]);
    }

    #[test]
    fn inserting_makes_the_way_and_never_overwrites() {
        let mut doc = json!({"a": 1});
        insert(&mut doc, "/headers/idempotencyKey", json!("k")).expect("inserted");
        assert_eq!(doc, json!({"a": 1, "headers": {"idempotencyKey": "k"}}));
        assert!(insert(&mut doc, "/a", json!("k")).is_err());
        assert!(insert(&mut doc, "/a/b", json!("k")).is_err());
        assert!(insert(&mut doc, "", json!("k")).is_err());
        assert_eq!(doc["a"], json!(1));
    }

    proptest! {
        #[test]
        fn no_pointer_panics(pointer in ".{0,40}", path in "(/[*0-9a~]{0,3}){0,6}") {
            let mut doc = json!({"a": [[1, 2], {"a": null}], "0": "x"});
            for p in [&pointer, &path] {
                let _ = fault(p);
                let _ = find(&doc, p);
                let _ = insert(&mut doc, p, json!(1));
            }
        }
    }
}
