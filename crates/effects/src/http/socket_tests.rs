//! The effect against a real socket, row by row. Nothing sleeps: the server acts, and the end of a test is a message
//! to it that comes after every connection that was made before.

mod answers;
mod http2;
mod looks;
mod server;
mod tls;
mod transport;
mod wire;

use std::time::Duration;

use earmark_claim::{Failure, IdempotencyKey, Receipt, Reference};

use super::effect::Attempt;
use super::form_tests::names;
use super::{HttpCall, HttpEffect, HttpOptions};
use crate::credentials::Credentials;
use server::{Act, Log, Server, reply};

/// Long enough for a machine that is busy with something else; reached only by what must time out, or fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// An effect that may call these origins without a credential.
fn effect(options: HttpOptions, origins: &[&str]) -> HttpEffect {
    // Whoever comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let credentials = Credentials::new([], origins).expect("origins");
    HttpEffect::new(options, credentials).expect("a client")
}

fn key() -> IdempotencyKey {
    names("m1").0
}

fn frozen(call: &HttpCall) -> Vec<u8> {
    let (key, reference): (IdempotencyKey, Reference) = names("m1");
    call.freeze("kind", &key, &reference).expect("frozen").bytes
}

async fn send(effect: &HttpEffect, call: &HttpCall, timeout: Duration) -> Result<Receipt, Failure> {
    let key = key();
    effect.send(&Attempt { key: &key, fence: 3, timeout }, &frozen(call), || Ok(())).await
}

/// One call against a server with this script; what came of it, and what the server saw.
async fn one_call(
    acts: Vec<Act>,
    write: impl FnOnce(HttpCall) -> HttpCall,
) -> (Result<Receipt, Failure>, Log) {
    one_call_within(PATIENCE, acts, write).await
}

async fn one_call_within(
    timeout: Duration,
    acts: Vec<Act>,
    write: impl FnOnce(HttpCall) -> HttpCall,
) -> (Result<Receipt, Failure>, Log) {
    let server = Server::start(vec![acts]).await;
    let options = HttpOptions::new().connect_timeout(timeout / 2);
    let effect = effect(options, &[&server.origin()]);
    let call = write(HttpCall::post(&server.url("/charges")).json(&serde_json::json!({"amount": 5})));
    let outcome = send(&effect, &call, timeout).await;
    (outcome, server.end().await)
}

/// The verdict and the class, for comparing.
fn short(outcome: &Result<Receipt, Failure>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(failure) => format!("{:?} {}", failure.verdict, failure.class),
    }
}
