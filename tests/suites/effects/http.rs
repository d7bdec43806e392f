//! HTTP calls under claims, from `run_http` to the wire.

#[path = "http/credentials.rs"]
mod credentials;
#[path = "http/hostile.rs"]
mod hostile;
#[path = "http/sidecar.rs"]
mod sidecar;
#[path = "http/wire.rs"]
mod wire;
