use std::path::PathBuf;

use earmark_claim::Verdict;

use super::*;

const API: &str = "https://api.example.com";

/// A configuration whose secret lies in a file of its own.
fn in_file(secret: &[u8]) -> (tempfile::TempDir, PathBuf, CredentialConfig) {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("secret");
    std::fs::write(&path, secret).expect("written");
    let config = CredentialConfig {
        env: None,
        file: Some(path.clone()),
        ..CredentialConfig::bearer_from_env("", [API])
    };
    (dir, path, config)
}

fn one(config: CredentialConfig) -> Credentials {
    Credentials::new([("api".to_owned(), config)], [""; 0]).expect("a configuration that can be used")
}

async fn sent(config: CredentialConfig) -> (String, String) {
    let (name, value) = one(config).header("api").await.expect("a header");
    assert!(value.is_sensitive());
    (name.to_string(), value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn each_scheme_writes_its_header() {
    let (_dir, _, bearer) = in_file(b"\n sk_1 \n");
    assert_eq!(sent(bearer.clone()).await, ("authorization".into(), "Bearer sk_1".into()));
    let basic = CredentialConfig { scheme: Scheme::Basic, user: Some("api".into()), ..bearer.clone() };
    assert_eq!(sent(basic).await.1, "Basic YXBpOnNrXzE=");
    let header = CredentialConfig { scheme: Scheme::Header, header: Some("X-Api-Key".into()), ..bearer };
    assert_eq!(sent(header.clone()).await, ("x-api-key".into(), "sk_1".into()));
    assert_eq!(sent(CredentialConfig { prefix: Some("Token ".into()), ..header }).await.1, "Token sk_1");
    let (_dir, _, pair) = in_file(b"Aladdin:open sesame");
    // The example of RFC 7617 §2.
    let pair = CredentialConfig { scheme: Scheme::Basic, ..pair };
    assert_eq!(sent(pair).await.1, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

#[tokio::test]
async fn a_secret_is_read_anew_for_each_call() {
    let (_dir, path, config) = in_file(b"old");
    let credentials = one(config);
    let read =
        async || credentials.header("api").await.expect("a header").1.to_str().expect("text").to_owned();
    assert_eq!(read().await, "Bearer old");
    std::fs::write(path, "new").expect("written");
    assert_eq!(read().await, "Bearer new");
}

#[tokio::test]
async fn the_environment_is_a_source() {
    // Set by cargo for every test; the tests set no variable, since that is not safe among threads.
    let config = CredentialConfig::bearer_from_env("CARGO_PKG_NAME", [API]);
    assert_eq!(sent(config).await.1, "Bearer earmark-effects");
}

#[tokio::test]
async fn a_secret_that_cannot_be_sent_is_an_operators_case_and_is_not_told() {
    let (_dir, _, broken) = in_file(b"sk_live_1\r\nX-Evil: 1");
    let (_dir2, _, empty) = in_file(b" \n");
    let (_dir3, _, long) = in_file(&[b'x'; 9000]);
    let (_dir4, _, bytes) = in_file(&[0xff, 0xfe]);
    let missing = CredentialConfig { file: Some("/nowhere/at/all".into()), ..empty.clone() };
    let unset = CredentialConfig::bearer_from_env("EARMARK_TEST_NOT_SET", [API]);
    let no_pair = CredentialConfig { scheme: Scheme::Basic, ..in_file(b"x").2 };
    for config in [broken, empty, long, bytes, missing, unset, no_pair] {
        let failure = one(config).header("api").await.expect_err("no header");
        assert_eq!((failure.verdict, failure.class.as_str()), (Verdict::NotSent, ErrorClass::OPERATOR));
        assert!(failure.message.contains("\"api\"") && !failure.message.contains("sk_live"), "{failure:?}");
    }
}

#[test]
fn a_secret_goes_nowhere_but_to_its_origins() {
    let config =
        CredentialConfig::bearer_from_env("X", ["https://API.example.com:443/", "http://127.0.0.1:8080"]);
    let credentials =
        Credentials::new([("api".to_owned(), config)], ["https://hooks.example.com"]).expect("usable");
    let class = |credential, origin| match credentials.admit(credential, origin) {
        Ok(()) => "allowed".to_owned(),
        Err(failure) => failure.class.to_string(),
    };
    for (credential, origin, expected) in [
        (Some("api"), API, "allowed"),
        (Some("api"), "http://127.0.0.1:8080", "allowed"),
        (Some("api"), "http://api.example.com", ErrorClass::ORIGIN_NOT_ALLOWED),
        (Some("api"), "https://api.example.com:8443", ErrorClass::ORIGIN_NOT_ALLOWED),
        (Some("api"), "https://api.example.com.evil.net", ErrorClass::ORIGIN_NOT_ALLOWED),
        (Some("api"), "https://hooks.example.com", ErrorClass::ORIGIN_NOT_ALLOWED),
        (None, "https://hooks.example.com", "allowed"),
        (None, API, ErrorClass::ORIGIN_NOT_ALLOWED),
        (Some("other"), API, ErrorClass::OPERATOR),
    ] {
        assert_eq!(class(credential, origin), expected, "{credential:?} {origin}");
    }
    let fault = credentials.admit(Some("api"), "https://evil.net").expect_err("refused");
    assert!(fault.class.no_retry_mends() && fault.message.contains("allowed_origins"));
}

#[test]
fn every_fault_of_a_configuration_is_named_at_once() {
    let bad = CredentialConfig {
        env: Some("A".into()),
        file: Some("b".into()),
        scheme: Scheme::Header,
        header: None,
        prefix: None,
        user: None,
        allowed_origins: [
            "http://api.example.com",
            "https://h/path",
            "https://u:p@h",
            "https://*.h",
            "ftp://h",
            "h",
            "https://h?x",
        ]
        .map(String::from)
        .to_vec(),
        allow_plain_http: false,
    };
    let nowhere =
        CredentialConfig { allowed_origins: vec![], ..CredentialConfig::bearer_from_env("A", [API]) };
    let user = CredentialConfig { user: Some("u".into()), ..CredentialConfig::bearer_from_env("A", [API]) };
    let named = [("Bad name", bad), ("nowhere", nowhere), ("user", user)].map(|(n, c)| (n.to_owned(), c));
    let faults = Credentials::new(named, ["https://h/x"]).expect_err("refused");
    assert_eq!(faults.list().len(), 1 + 2 + 7 + 1 + 1 + 1, "{faults}");
    assert!(faults.list().iter().any(|f| f.contains("allow_plain_http")));
}

#[test]
fn plain_http_must_be_asked_for_beyond_this_machine() {
    for local in ["http://127.0.0.1", "http://127.8.9.1:1", "http://[::1]:8080", "http://localhost:3000"] {
        assert!(origin_of(local, false).is_ok(), "{local}");
    }
    for remote in ["http://10.0.0.1", "http://localhost.evil.net", "http://127.0.0.1.nip.io", "http://[::2]"]
    {
        assert!(origin_of(remote, false).is_err(), "{remote}");
        assert!(origin_of(remote, true).is_ok(), "{remote}");
    }
}

#[test]
fn configuration_is_read_strictly() {
    let read = |text: &str| serde_json::from_str::<CredentialConfig>(text);
    let good = read(r#"{"env":"STRIPE_KEY","scheme":"bearer","allowed_origins":["https://api.stripe.com"]}"#);
    assert!(one(good.expect("read")).names().eq(["api"]));
    assert!(read(r#"{"env":"A","scheme":"bearer","allowed_origins":[],"secret":"sk"}"#).is_err());
    assert!(read(r#"{"env":"A","scheme":"bearer"}"#).is_err());
}

#[tokio::test]
async fn nothing_shows_a_secret() {
    let (_dir, _, config) = in_file(b"sk_live_9");
    let credentials = one(config);
    let (_, value) = credentials.header("api").await.expect("a header");
    for shown in [format!("{credentials:?}"), format!("{value:?}")] {
        assert!(!shown.contains("sk_live_9"), "{shown}");
    }
    assert_eq!(credentials.unreadable().await, Vec::<String>::new());
}
