//! The real binary, end to end on SQLite.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod commands;
mod docs;
mod doctor;
mod kit;
mod pause;
mod purge;
mod resolve;
mod sidecar;
