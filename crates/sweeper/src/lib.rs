//! The sweeper of Earmark: takes over claims that nobody settled, and reports what a person must decide.
//!
//! Embedded in a service with its own effects, or as the sidecar `earmark`.

#[cfg(feature = "sidecar")]
pub mod config;
mod error;
mod purge;
pub mod report;
mod schedule;
mod sweep;
pub mod telemetry;

pub use error::Error;
pub use purge::{PurgeOptions, Purged, Purger};
pub use schedule::Schedule;
pub use sweep::{Pass, Sweeper, SweeperOptions, Vitals};
