//! Handshakes that fail, and one that does not. Not a byte of the request leaves before they are done.

use std::io::{Read, Write};
use std::sync::Arc;

use reqwest::Proxy;

use super::*;

async fn https(server: &Server, options: HttpOptions) -> Result<Receipt, Failure> {
    let origin = server.origin().replace("http:", "https:");
    let effect = effect(options, &[&origin]);
    send(&effect, &HttpCall::post(&format!("{origin}/")), PATIENCE).await
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_got_nothing() {
    for blurt in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\x15\x03\x03\x00\x02\x02\x28"] {
        let server = Server::start(vec![vec![Act::Blurt(blurt.to_vec())]]).await;
        let outcome = https(&server, HttpOptions::new()).await;
        assert_eq!(short(&outcome), "NotSent operator", "{blurt:?}");
        assert_eq!(server.end().await.connections, 1);
    }
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_sent_nothing() {
    let server = Server::start(vec![vec![]]).await;
    let outcome = https(&server, HttpOptions::new().connect_timeout(Duration::from_millis(300))).await;
    assert_eq!(short(&outcome), "NotSent connect_timeout");
}

#[tokio::test]
async fn a_proxy_that_wants_a_login_passed_nothing_on() {
    for (status, expected) in [(407, "NotSent operator"), (502, "NotSent operator")] {
        let proxy = Server::start(vec![vec![Act::Answer(reply(status, &[], ""))]]).await;
        let options = HttpOptions::new().proxy(Proxy::all(proxy.origin()).expect("a proxy"));
        let effect = effect(options, &["https://earmark.invalid"]);
        let outcome = send(&effect, &HttpCall::post("https://earmark.invalid/"), PATIENCE).await;
        assert_eq!(short(&outcome), expected);
        let log = proxy.end().await;
        assert!(log.requests[0].head.starts_with("CONNECT earmark.invalid:443"), "{log:?}");
        assert_eq!(log.requests.len(), 1);
    }
}

/// One TLS connection with a certificate that nobody vouches for. Says whether a request arrived.
fn tls_server() -> (String, Vec<u8>, std::thread::JoinHandle<bool>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let der = made.cert.der().to_vec();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a configuration");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("accepted");
        let connection = rustls::ServerConnection::new(Arc::new(config)).expect("a connection");
        let mut tls = rustls::StreamOwned::new(connection, stream);
        let arrived = tls.read(&mut [0; 4096]).is_ok_and(|n| n > 0);
        let _ = tls.write_all(&reply(200, &[], "{}"));
        let _ = tls.flush();
        arrived
    });
    (format!("https://localhost:{port}"), der, served)
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_an_operators_case() {
    let (origin, _, served) = tls_server();
    let effect = effect(HttpOptions::new(), &[&origin]);
    let outcome = send(&effect, &HttpCall::post(&origin), PATIENCE).await;
    assert_eq!(short(&outcome), "NotSent operator");
    assert!(!served.join().expect("served"));
}

#[tokio::test]
async fn a_root_certificate_comes_in_by_the_hook() {
    let (origin, der, served) = tls_server();
    let root = reqwest::Certificate::from_der(&der).expect("a certificate");
    let effect = effect(HttpOptions::new().customise(|client| client.tls_certs_only([root])), &[&origin]);
    let outcome = send(&effect, &HttpCall::post(&origin), PATIENCE).await;
    assert_eq!(short(&outcome), "done");
    assert!(served.join().expect("served"));
}
