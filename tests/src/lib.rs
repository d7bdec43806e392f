//! The kit of the suites: a fresh database for each test on each backend.

pub mod claims;
pub mod db;
pub mod fault;

pub use db::{Backend, EmptyDb, TestDb};
