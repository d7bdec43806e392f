//! Effects under claims: the typed contract, and the one place where claim, call and settle stand in order.
//!
//! A service implements [`Effect`], registers it with [`Earmark::builder`], and calls [`Earmark::run`] for each message.
//! The same effects, handed to a sweeper, finish what a crash left behind. The claim crate is re-exported as [`claim`].

mod attempt;
#[cfg(feature = "http")]
pub mod credentials;
mod effect;
mod erased;
mod error;
mod gate;
mod held_back;
#[cfg(feature = "http")]
pub mod http;
mod outcome;
mod probe;
mod registry;
mod run;
pub mod stub;
mod sweeping;
pub mod telemetry;
mod wish;

pub use earmark_claim as claim;

pub use earmark_claim::Look;
pub use effect::{Description, Effect};
pub use error::Error;
pub use gate::{Halt, Limits};
pub use outcome::Outcome;
pub use probe::{Probe, Subject};
pub use registry::Builder;
#[cfg(feature = "http")]
pub use registry::HttpKind;
pub use run::{Earmark, Retaken};
