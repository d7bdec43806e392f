//! The reconciliation report: what happened, what is in doubt, what a person must decide, and on what evidence.
//!
//! Pure from end to end: [`Input`] (rows, as they were read) → [`build()`] → [`Report`] (data) → [`render`] (text, JSON,
//! HTML). No clock, no database, no network: the same rows give the same bytes, so that a
//! report can be made again and compared.
//!
//! Text in the rows was written by producers, providers and people, and is hostile: see [`Untrusted`].

pub mod build;
mod clocks;
pub mod input;
pub mod model;
mod money;
pub mod read;
pub mod render;
#[cfg(test)]
mod tests;
mod untrusted;
mod words;

pub use build::{Options, build};
pub use input::Input;
pub use model::Report;
pub use money::{Money, Sums};
pub use untrusted::Untrusted;
pub use words::Moment;
