//! The sweeper of Earmark.

#[cfg(feature = "sidecar")]
pub mod config;
pub mod report;
