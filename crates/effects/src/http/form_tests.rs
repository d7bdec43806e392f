//! The stored form: what is frozen, what is read back, and what is refused.

use earmark_claim::{ClaimKey, IdempotencyKey, Namespace, Reference, VerbatimRule};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::form::{Body, Frozen};
use super::{Answers, HttpCall, HttpProbe, Items, On};

pub(super) fn names(message_id: &str) -> (IdempotencyKey, Reference) {
    let key = ClaimKey::new("consumer", message_id).expect("a key");
    let space = Namespace::new("test").expect("a namespace");
    (IdempotencyKey::derive(&space, &key), Reference::derive(&space, &key))
}

fn frozen(call: &HttpCall) -> (Value, String) {
    let (key, reference) = names("m1");
    let frozen = call.freeze("kind", &key, &reference).expect("frozen");
    (serde_json::from_slice(&frozen.bytes).expect("JSON"), frozen.fingerprint.to_string())
}

fn faults(call: &HttpCall) -> Vec<String> {
    call.check().expect_err("refused").list().to_vec()
}

#[test]
fn the_stored_form_is_this_and_stays_this() {
    let (key, reference) = names("m1");
    let call = HttpCall::post("https://API.example.com:443/v1/charges/{reference}?k={idempotency_key}")
        .header("X-Ref", "r {reference}")
        .json(&json!({"amount": 5}))
        .credential("example")
        .key_header_quoted("Idempotency-Key")
        .answers(
            Answers::new()
                .provider_id("/id")
                .refused_and_stored(On::status(402).json("/code", "declined"), "declined")
                .not_sent(On::status([429, 503]).header("transient", "true"), "transient")
                .done_with_id(On::status(409), "/links/id")
                .accepted(On::status(202))
                .unknown(On::any_status().json_absent("/id"), "odd"),
        )
        .probe(
            HttpProbe::get("https://api.example.com/v1/charges?r={reference}")
                .done_items(On::status(200), Items::at("/data").with("/ref", "{reference}").id("/id"))
                .not_done(On::status(200).json("/more", false)),
        );
    let stored = call.freeze("charge", &key, &reference).expect("frozen");
    assert_eq!(stored.origin, "https://api.example.com");
    assert_eq!(stored.credential.as_deref(), Some("example"));
    let text = String::from_utf8(stored.bytes).expect("UTF-8");
    // Claims of years ago are in this form: changing what is expected here breaks them. A new form is a new version.
    let expected = concat!(
        r#"{"v":1,"call":{"method":"POST","url":"https://api.example.com/v1/charges/@R?k=@K","#,
        r#""headers":[["X-Ref","r @R"],["content-type","application/json"]],"body":{"text":"{\"amount\":5}"},"#,
        r#""credential":"example","key":{"header":{"name":"Idempotency-Key","quoted":true}}},"#,
        r#""answers":{"id":"/id","rules":["#,
        r#"{"on":{"status":[[402,402]],"json":[{"at":"/code","is":{"in":["declined"]}}]},"#,
        r#""then":{"refused":{"class":"declined","covers_earlier":true}}},"#,
        r#"{"on":{"status":[[429,429],[503,503]],"headers":[{"name":"transient","is":{"in":["true"]}}]},"#,
        r#""then":{"not_sent":{"class":"transient"}}},"#,
        r#"{"on":{"status":[[409,409]]},"then":{"done":{"id":"/links/id"}}},"#,
        r#"{"on":{"status":[[202,202]]},"then":{"accepted":{}}},"#,
        r#"{"on":{"json":[{"at":"/id","is":"absent"}]},"then":{"unknown":{"class":"odd"}}}]},"#,
        r#""probe":[{"method":"GET","url":"https://api.example.com/v1/charges?r={reference}","headers":[],"#,
        r#""body":null,"credential":"example","search":false,"answers":["#,
        r#"{"on":{"status":[[200,200]]},"says":{"done_items":{"at":"/data","with":[["/ref","{reference}"]],"id":"/id"}}},"#,
        r#"{"on":{"status":[[200,200]],"json":[{"at":"/more","is":{"in":[false]}}]},"says":{"not_done":{}}}]}]}"#,
    );
    assert_eq!(text, expected.replace("@R", reference.as_str()).replace("@K", key.as_str()));
    let line = super::outline(text.as_bytes()).expect("read");
    assert!(line.starts_with("POST https://api.example.com/v1/charges/"), "{line}");
    assert!(
        line.ends_with(", 12 bytes, key in the header Idempotency-Key, credential example, probes: 1"),
        "{line}"
    );
    let again = Frozen::read(text.as_bytes()).expect("read").write().expect("written");
    assert_eq!(String::from_utf8(again).expect("UTF-8"), text);
}

#[test]
fn bodies_come_back_byte_for_byte() {
    for bytes in [&b""[..], b"text", "\u{0}\u{1F600}\r\n\"".as_bytes(), &[0xff, 0x00, 0x80]] {
        let (stored, _) = frozen(&HttpCall::put("https://h/").body("application/octet-stream", bytes));
        let body: Body = serde_json::from_value(stored["call"]["body"].clone()).expect("a body");
        assert_eq!(body.bytes(), bytes);
    }
}

#[test]
fn the_key_in_the_body_is_put_there_before_freezing_and_is_no_part_of_the_fingerprint() {
    let call =
        HttpCall::post("https://h/").json(&json!({"b": 1, "a": 0.1})).key_at("/headers/idempotencyKey");
    let (key, reference) = names("m1");
    let (stored, fingerprint) = frozen(&call.clone().reference_at("/metadata/ref"));
    let body: Value =
        serde_json::from_str(stored["call"]["body"]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(body["headers"]["idempotencyKey"], json!(key.as_str()));
    assert_eq!(body["metadata"]["ref"], json!(reference.as_str()));
    let (other_key, other_reference) = names("m2");
    let other = call.freeze("kind", &other_key, &other_reference).expect("frozen");
    assert_eq!(other.fingerprint.to_string(), fingerprint);
}

#[test]
fn the_fingerprint_is_of_the_request_and_not_of_the_tables() {
    let call =
        HttpCall::post("https://h/a").header("X-A", "1").json(&json!({"b": 1, "a": [2, {"d": 1, "c": 2}]}));
    let (_, fingerprint) = frozen(&call);
    let same = [
        call.clone().answers(Answers::new().done(On::status(202))),
        call.clone().credential("other"),
        HttpCall::post("https://h/a")
            .header("x-a", "1")
            .body("application/json", r#"{"a":[2,{"c":2,"d":1}],"b":1}"#)
            .json::<Value>(&serde_json::from_str(r#"{"a":[2,{"c":2,"d":1}],"b":1}"#).expect("JSON")),
    ];
    for call in same {
        assert_eq!(frozen(&call).1, fingerprint);
    }
    let others = [
        call.clone().header("X-B", "1"),
        HttpCall { method: "PUT".into(), ..call.clone() },
        HttpCall { url: "https://h/b".into(), ..call.clone() },
        call.clone().json(&json!({"b": 1, "a": [{"d": 1, "c": 2}, 2]})),
        call.clone().stable(&json!({"b": 1})),
    ];
    for call in others {
        assert_ne!(frozen(&call).1, fingerprint);
    }
    let stable = |t: u32| frozen(&call.clone().json(&json!({"t": t})).stable(&json!({"b": 1, "a": 2}))).1;
    assert_eq!(stable(1), stable(2));
    let (key, reference) = names("m1");
    assert_ne!(
        call.freeze("another kind", &key, &reference).expect("frozen").fingerprint.to_string(),
        fingerprint
    );
}

#[test]
fn placeholders_touch_a_body_only_when_asked_and_are_escaped() {
    let claim = ClaimKey::new("c", "a\"b{reference}").expect("a key");
    let rule = VerbatimRule { len_min: 1, len_max: 99, also: "\"{}".into() };
    let key = IdempotencyKey::verbatim(&claim, &rule).expect("a key");
    let (_, reference) = names("m1");
    let body = |call: HttpCall| {
        let bytes = call.freeze("k", &key, &reference).expect("frozen").bytes;
        let stored: Value = serde_json::from_slice(&bytes).expect("JSON");
        stored["call"]["body"]["text"].as_str().expect("text").to_owned()
    };
    let json = HttpCall::post("https://h/").json(&json!({"k": "{idempotency_key}"}));
    assert_eq!(body(json.clone()), r#"{"k":"{idempotency_key}"}"#);
    assert_eq!(body(json.placeholders_in_body()), r#"{"k":"a\"b{reference}"}"#);
    let form =
        HttpCall::post("https://h/").form([("k", "{idempotency_key}"), ("x", "a&b")]).placeholders_in_body();
    assert_eq!(body(form), "k=a%22b%7Breference%7D&x=a%26b");
}

#[test]
fn every_fault_is_named_at_once_with_its_fix() {
    let call = HttpCall::new("CONNECT", "https://u:p@h/{referense}?access_token=1#f")
        .header("Authorization", "Bearer sk_live_1")
        .header("Host", "evil")
        .header("bad name", "x")
        .header("X-Line", "a\nb")
        .header("Idempotency-Key", "mine")
        .body("text/plain", "x")
        .key_header("Idempotency-Key")
        .reference_at("/r")
        .answers(Answers::new().not_sent(On::any_status().json("bad", 1), "Not A Class").provider_id("x"))
        .probe(HttpProbe::get("ftp://h").header("Cookie", "a=b"));
    let faults = faults(&call);
    for part in [
        "\"CONNECT\"",
        "{referense}",
        "a user or a password",
        "a fragment",
        "Authorization",
        "Host belongs to the client",
        "\"bad name\"",
        "X-Line",
        "set by hand",
        "reference_at",
        "rule 1",
        "\"Not A Class\"",
        "name the statuses",
        "\"x\" does not begin",
        "ftp://h",
        "Cookie",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:#?}");
    }
    assert!(!format!("{faults:?}").contains("sk_live_1"));
}

#[test]
fn what_cannot_be_right_is_refused() {
    let post = || HttpCall::post("https://h/");
    for (call, part) in [
        (HttpCall::post("https://{reference}.h/"), "host"),
        (HttpCall::post("https://h/{provider_ref}"), "probe"),
        (HttpCall::post("https://h/?api_key=1"), "api_key"),
        (post().key_at("/k"), "key_at needs a JSON body"),
        (post().json(&json!([1])).key_at("/k"), "not an object"),
        (post().json(&json!([1])).key_at("/0/k"), "not an object"),
        (post().json(&json!({"k": 1})).key_at("/k"), "already"),
        (post().json(&u128::MAX).reference_at("/r"), "round"),
        (post().json(&f64::NAN).json(&Failing), "no JSON form"),
        (post().key_header("Authorization"), "Authorization"),
        (post().json(&json!({})).key_at("/*/k"), "several places"),
        (post().json(&json!({})).reference_at("r"), "does not begin"),
        (post().body("text/plain", [0xff]).placeholders_in_body(), "UTF-8"),
        (post().body("text/plain", vec![b'x'; 3 << 20]), "bytes"),
        (post().probe(HttpProbe::get("https://h/")), "never tell"),
        (post().probe(HttpProbe::get("https://h/").done_items(On::status(200), Items::at("/d"))), "ours"),
        (post().answers(Answers::new().done(On::any_status())), "every answer"),
        (post().answers(Answers::new().done(On::status(200).json("/r", "{reference}"))), "only a probe"),
        (post().answers(Answers::new().refused(On::status(400), "fault.x")), "fault."),
    ] {
        let (key, reference) = names("m1");
        let faults = call.freeze("k", &key, &reference).expect_err("refused");
        assert!(faults.to_string().contains(part), "{part} in {faults}");
    }
}

struct Failing;

impl serde::Serialize for Failing {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}

#[test]
fn what_a_database_holds_is_not_believed() {
    let (good, _) = frozen(&HttpCall::post("https://h/").json(&json!({"a": 1})).key_header("K"));
    let read = |value: &Value| Frozen::read(value.to_string().as_bytes());
    read(&good).expect("what was frozen can be read");
    let with = |pointer: &str, new: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).expect("a place") = new;
        changed
    };
    let more = |pointer: &str| {
        let mut changed = good.clone();
        changed
            .pointer_mut(pointer)
            .and_then(Value::as_object_mut)
            .expect("object")
            .insert("x".into(), json!(1));
        changed
    };
    for bad in [
        with("/v", json!(2)),
        with("/call/url", json!("file:///etc/passwd")),
        with("/call/url", json!("https://u:p@h/")),
        with("/call/method", json!("CONNECT")),
        with("/call/headers", json!([["Host", "evil"]])),
        with("/call/headers", json!([["a", "b\r\nc: d"]])),
        with("/call/headers", json!([["a"]])),
        with("/call/body", json!({"base64": "***"})),
        with("/call/body", json!({"text": "a", "base64": ""})),
        with("/call/key", json!({"header": {"name": "Transfer-Encoding", "quoted": false}})),
        with("/answers", json!({"rules": [{"on": {}, "then": {"not_sent": {"class": "x"}}}]})),
        with("/answers", json!({"rules": [{"on": {"status": [[1, 2, 3]]}, "then": {"done": {}}}]})),
        with("/probe", json!([{"method": "DELETE"}])),
        more(""),
        more("/call"),
        more("/answers"),
        more("/call/key/header"),
        json!({}),
        json!(null),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
    assert!(read(&with("/v", json!(2))).expect_err("refused").to_string().contains("version 2"));
    let unsafe_probe = json!([{"method": "POST", "url": "https://h/", "headers": [], "body": null, "credential": null,
        "search": false, "answers": [{"on": {"status": [[200, 200]]}, "says": {"not_done": {}}}]}]);
    assert!(read(&with("/probe", unsafe_probe)).expect_err("refused").to_string().contains("search"));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Frozen::read(&bytes);
    }

    /// Half of a good form, the rest rubbish: gets deeper than rubbish alone.
    #[test]
    fn no_damage_makes_the_reader_panic(at in 0usize..900, new in any::<u8>(), cut in any::<bool>()) {
        let call = HttpCall::post("https://h/{reference}").json(&json!({"a": 1})).key_at("/k")
            .answers(Answers::new().refused(On::status(402).json("/c", "d").header("h", "v"), "d"))
            .probe(HttpProbe::get("https://h/{provider_ref}").done(On::status(200), "/d/*/id"));
        let (key, reference) = names("m1");
        let mut bytes = call.freeze("k", &key, &reference).expect("frozen").bytes;
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = new }
        if let Ok(read) = Frozen::read(&bytes) {
            let _ = read.write();
        }
    }

    #[test]
    fn no_text_makes_a_builder_panic(text in ".{0,60}", url in "(https?://)?[a-z{}/?#:@.%]{0,40}") {
        for t in [&text, &url] {
            let _ = HttpCall::new(t, t).header(t, t).key_at(t).json(&json!({"a": t})).reference_at(t)
                .placeholders_in_body().credential(t)
                .answers(Answers::new().provider_id(t).refused(On::status(400).json(t, t.as_str()).header(t, t), t))
                .probe(HttpProbe::get(t).header(t, t).done(On::status(200), t)).check();
        }
    }
}
