//! The declarative HTTP effect, form `http/1`.
//!
//! An author writes an [`HttpCall`]: what is sent, where the idempotency key goes, what the answers mean, and how to
//! ask whether it happened. [`HttpCall::freeze`] turns it into bytes that are stored with the claim; from then on
//! [`HttpEffect`] performs it and asks about it in any process, a sweeper with no code of the service included.
//!
//! What is promised:
//! - One attempt is one request: no redirect is followed, nothing is sent again, no proxy is picked up from the
//!   environment.
//! - Whatever is not provably otherwise is *unknown*: [`general_table`] says what is, and cites the promise.
//! - A secret is never stored. It is named by the frozen request, read when it is sent, and sent to the origins that
//!   it is configured for and to no other.

mod answers;
mod call;
mod effect;
mod faults;
mod form;
mod freeze;
mod guard;
mod look;
mod on;
mod options;
mod pointer;
mod probe;
mod retry_after;
mod seen;
mod table;
mod template;

pub use answers::Answers;
pub use call::HttpCall;
pub use effect::HttpEffect;
pub use faults::Faults;
pub use form::{FORM, FROZEN_BYTES_MAX, outline};
pub use freeze::FrozenCall;
pub(crate) use guard::origin;
pub use look::Subject;
pub use on::{On, Statuses};
pub use options::HttpOptions;
pub use probe::{HttpProbe, Items};
pub use retry_after::RETRY_AFTER_MAX;
pub use seen::Seen;
pub use table::{Means, Row, general_table};

#[cfg(test)]
mod form_tests;
#[cfg(test)]
mod socket_tests;
