//! What leaves, and what must not.

use earmark_claim::ErrorClass;

use super::*;
use crate::credentials::{CredentialConfig, Scheme};

fn ok() -> Vec<Act> {
    vec![Act::Answer(reply(200, &[], "{}"))]
}

/// A server, and an effect that may send it the secret `sk_test_1`.
async fn with_secret(scripts: Vec<Vec<Act>>) -> (Server, HttpEffect, tempfile::TempDir) {
    with_secret_in(scripts, None).await
}

/// The same, the secret in this header.
async fn with_secret_in(
    scripts: Vec<Vec<Act>>,
    header: Option<&str>,
) -> (Server, HttpEffect, tempfile::TempDir) {
    let server = Server::start(scripts).await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("secret");
    std::fs::write(&path, "sk_test_1\n").expect("written");
    let config = CredentialConfig {
        env: None,
        file: Some(path),
        scheme: if header.is_some() { Scheme::Header } else { Scheme::Bearer },
        header: header.map(str::to_owned),
        ..CredentialConfig::bearer_from_env("", [server.origin()])
    };
    let credentials = Credentials::new([("api".to_owned(), config)], [""; 0]).expect("usable");
    let _ = rustls::crypto::ring::default_provider().install_default();
    (server, HttpEffect::new(HttpOptions::new(), credentials).expect("a client"), dir)
}

#[tokio::test]
async fn the_same_bytes_leave_at_every_attempt() {
    let (server, effect, _dir) = with_secret(vec![ok(), ok()]).await;
    let call = HttpCall::post(&server.url("/charges/{reference}"))
        .json(&serde_json::json!({"amount": 5}))
        .credential("api")
        .key_header("Idempotency-Key");
    let frozen = frozen(&call);
    let key = key();
    for fence in [1, 2] {
        let attempt = Attempt { key: &key, fence, timeout: PATIENCE };
        effect.send(&attempt, &frozen, || Ok(())).await.expect("done");
    }
    let log = server.end().await;
    for (fence, request) in ["1", "2"].into_iter().zip(&log.requests) {
        assert!(request.head.starts_with(&format!("POST /charges/{} HTTP/1.1\r\n", names("m1").1)));
        assert_eq!(request.header("idempotency-key"), [key.as_str()]);
        assert_eq!(request.header("authorization"), ["Bearer sk_test_1"]);
        assert_eq!(request.header("content-type"), ["application/json"]);
        assert_eq!(request.header("earmark-attempt"), [fence]);
        assert_eq!(request.header("user-agent"), [concat!("earmark/", env!("CARGO_PKG_VERSION"))]);
        assert!(request.header("accept-encoding").is_empty());
        assert_eq!(request.body, br#"{"amount":5}"#);
    }
    let but_for_the_attempt =
        |n: usize, fence: &str| log.requests[n].head.replace(&format!("attempt: {fence}"), "");
    assert_eq!(but_for_the_attempt(0, "1"), but_for_the_attempt(1, "2"));
}

#[tokio::test]
async fn the_key_is_quoted_only_by_option() {
    let (_, log) = one_call(ok(), |call| call.key_header_quoted("Idempotency-Key")).await;
    assert_eq!(log.requests[0].header("idempotency-key"), [format!("\"{}\"", key())]);
}

#[tokio::test]
async fn the_key_in_the_body_is_on_the_wire() {
    let (outcome, log) = one_call(ok(), |call| call.key_at("/idempotency_key")).await;
    assert_eq!(short(&outcome), "done");
    let body: serde_json::Value = serde_json::from_slice(&log.requests[0].body).expect("JSON");
    assert_eq!(body["idempotency_key"], key().as_str());
}

#[tokio::test]
async fn a_body_frozen_for_another_claim_is_not_sent() {
    let server = Server::start(vec![ok()]).await;
    let effect = effect(HttpOptions::new(), &[&server.origin()]);
    let call = HttpCall::post(&server.url("/")).json(&serde_json::json!({})).key_at("/key");
    let other = names("m2").0;
    let attempt = Attempt { key: &other, fence: 1, timeout: PATIENCE };
    let outcome = effect.send(&attempt, &frozen(&call), || Ok(())).await;
    assert_eq!(short(&outcome), format!("NotSent {}", ErrorClass::REQUEST_UNREADABLE));
    assert_eq!(server.end().await.connections, 0);
}

#[tokio::test]
async fn the_attempt_header_has_another_name_or_none() {
    for name in [Some("X-Try"), None] {
        let server = Server::start(vec![ok()]).await;
        let effect = effect(HttpOptions::new().attempt_header(name).user_agent("mine"), &[&server.origin()]);
        send(&effect, &HttpCall::post(&server.url("/")), PATIENCE).await.expect("done");
        let log = server.end().await;
        let request = &log.requests[0];
        assert_eq!(request.header("x-try").len(), usize::from(name.is_some()));
        assert!(request.header("earmark-attempt").is_empty());
        assert_eq!(request.header("user-agent"), ["mine"]);
    }
}

#[tokio::test]
async fn the_attempt_header_takes_no_place_of_the_keys() {
    let server = Server::start(vec![ok()]).await;
    let effect = effect(HttpOptions::new().attempt_header(Some("X-Key")), &[&server.origin()]);
    let call = HttpCall::post(&server.url("/")).header("X-Key", "{idempotency_key}");
    let outcome = send(&effect, &call, PATIENCE).await;
    assert_eq!(short(&outcome), format!("NotSent {}", ErrorClass::OPERATOR));
    assert_eq!(server.end().await.connections, 0);
}

#[tokio::test]
async fn a_last_look_that_comes_too_late_lets_nothing_leave() {
    let (server, effect, _dir) = with_secret(vec![ok()]).await;
    let call = HttpCall::post(&server.url("/")).credential("api");
    let key = key();
    let attempt = Attempt { key: &key, fence: 1, timeout: PATIENCE };
    let outcome =
        effect.send(&attempt, &frozen(&call), || Err(Failure::not_sent(ErrorClass::TOO_LATE))).await;
    assert_eq!(short(&outcome), format!("NotSent {}", ErrorClass::TOO_LATE));
    assert_eq!(server.end().await.connections, 0);
}

#[tokio::test]
async fn an_origin_that_is_not_allowed_lets_nothing_leave_and_takes_no_look() {
    let (server, effect, _dir) = with_secret(vec![]).await;
    let elsewhere = Server::start(vec![]).await;
    let key = key();
    for call in [
        HttpCall::post(&elsewhere.url("/")).credential("api"),
        // Without a credential the call is anonymous, and nothing is open to that.
        HttpCall::post(&server.url("/")),
    ] {
        let attempt = Attempt { key: &key, fence: 1, timeout: PATIENCE };
        let outcome = effect.send(&attempt, &frozen(&call), || panic!("a look was taken")).await;
        assert_eq!(short(&outcome), format!("NotSent {}", ErrorClass::ORIGIN_NOT_ALLOWED));
    }
    assert_eq!(server.end().await.connections, 0);
    assert_eq!(elsewhere.end().await.connections, 0);
}

#[tokio::test]
async fn a_secret_never_takes_the_place_of_the_key() {
    let (server, effect, _dir) = with_secret_in(vec![], Some("Idempotency-Key")).await;
    let call = HttpCall::post(&server.url("/")).credential("api").key_header("idempotency-key");
    assert_eq!(short(&send(&effect, &call, PATIENCE).await), "NotSent operator");
    assert_eq!(server.end().await.connections, 0);
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_lets_nothing_leave() {
    let (server, effect, dir) = with_secret(vec![]).await;
    dir.close().expect("removed");
    let outcome = send(&effect, &HttpCall::post(&server.url("/")).credential("api"), PATIENCE).await;
    assert_eq!(short(&outcome), "NotSent operator");
    assert_eq!(server.end().await.connections, 0);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_a_fault_that_no_retry_mends() {
    let effect = effect(HttpOptions::new(), &[]);
    let key = key();
    for frozen in [&b""[..], b"{}", b"{\"v\":2}", &[0xff]] {
        let attempt = Attempt { key: &key, fence: 1, timeout: PATIENCE };
        let failure = effect.send(&attempt, frozen, || Ok(())).await.expect_err("failed");
        assert_eq!(failure.class.as_str(), ErrorClass::REQUEST_UNREADABLE);
        assert!(failure.class.no_retry_mends());
    }
}

#[tokio::test]
async fn a_hook_cannot_undo_what_is_strict() {
    let elsewhere = Server::start(vec![]).await;
    let proxy = reqwest::Proxy::all(elsewhere.origin()).expect("a proxy");
    let location = elsewhere.url("/");
    let server = Server::start(vec![vec![Act::Answer(reply(307, &[("location", &location)], ""))]]).await;
    let options = HttpOptions::new()
        .customise(move |client| client.proxy(proxy).redirect(reqwest::redirect::Policy::limited(5)));
    let effect = effect(options, &[&server.origin()]);
    assert_eq!(
        short(&send(&effect, &HttpCall::post(&server.url("/")), PATIENCE).await),
        "Unknown needs_mapping"
    );
    assert_eq!(server.end().await.requests.len(), 1);
    assert_eq!(elsewhere.end().await.connections, 0);
}

#[test]
fn performing_can_be_spawned() {
    fn is_send<T: Send>(_: T) {}
    fn check(effect: &HttpEffect, permit: earmark_claim::Permit<'_>) {
        is_send(effect.perform(permit, b""));
    }
    let _ = check;
}
