//! Claims: at most one start of a side effect per message, and a durable record of what became of it.
//!
//! A service **claims** a message (a row, unique on tenant, consumer and message id) and commits; **calls** the downstream with an
//! idempotency key that belongs to the claim; then **settles** the outcome. Between the commit and the settle the claim is in flight; when
//! nobody settles it, it is in doubt, a state of its own.
//!
//! This crate holds the machine ([`state`]), the rules of the sweep ([`policy`]) and the only SQL. It knows no effect, no HTTP and no
//! scheduler. Most services use `earmark-effects`, which puts the phases in order.

// Without a database, nothing is written or read.
#![cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

mod acquire;
mod claim;
mod declared;
mod due;
mod error;
pub mod failure;
mod join;
mod key;
mod later;
mod list;
mod new_claim;
mod pause;
pub mod policy;
mod purge;
mod read;
mod receipt;
mod review;
mod settle;
mod snapshot;
pub mod state;
mod store;
mod take;
mod time;

pub use acquire::Claimed;
pub use claim::{Claim, Held, InFlight, Permit, Token, TooLate};
pub use declared::{Declared, ProbeTerms, RepeatSafety};
pub use due::{Due, DueClaim, Walk};
pub use error::Error;
pub use failure::{BeforeSend, ErrorClass, Failure, Verdict};
pub use join::{Begun, Joined};
pub use key::{
    BadReference, CONSUMER_BYTES_MAX, ClaimKey, Fingerprint, IdempotencyKey, KeyError, MESSAGE_ID_BYTES_MAX,
    MessageId, Namespace, Reference, TENANT_BYTES_MAX, VerbatimRule,
};
pub use list::{Filter, Listing, OpenTally};
pub use new_claim::{Currency, KeyChoice, Money, NewClaim, REQUEST_BYTES_MAX, When};
pub use pause::{Pause, Resumed};
pub use purge::{PurgeBatch, PurgePlan, PurgeRules, PurgeTally, Tombstones};
pub use read::Handle;
pub use receipt::{ANSWER_BYTES_MAX, Answer, Receipt, Undecoded};
pub use review::{About, Decision, Evidence, Look, Recorded};
pub use settle::{Backoff, Settled};
pub use snapshot::Snapshot;
pub use state::State;
pub use store::{
    ClaimStore, ClaimView, Dialect, EventView, OrphanView, Retention, StoreOptions, SweeperView,
};
pub use take::{Started, Taken};
pub use time::Timestamp;

/// The caller's own transaction, as [`ClaimStore::claim_in`] takes it.
pub use sea_orm::DatabaseTransaction;
