//! The kit of the suites: a fresh database for each test on each backend.

pub mod claims;
pub mod counters;
pub mod crowd;
pub mod db;
pub mod effects;
pub mod fault;
pub mod fill;
pub mod http;
pub mod old;
pub mod pgbouncer;
pub mod plan;
pub mod process;
pub mod provider;
pub mod sweep;

pub use db::{Backend, EmptyDb, TestDb};

/// The example of the front page, kept compiling.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// Its examples are compiled here: the crate that it is about cannot include a file from outside its folder.
#[cfg(doctest)]
#[doc = include_str!("../../docs/adapters.md")]
pub struct Adapters;
