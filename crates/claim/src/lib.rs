//! Claims.

mod claim;
mod declared;
pub mod failure;
mod key;
pub mod policy;
mod receipt;
pub mod state;
mod time;

pub use claim::{Claim, Held, InFlight, Permit, Token, TooLate};
pub use declared::{Declared, ProbeTerms, RepeatSafety};
pub use failure::{BeforeSend, ErrorClass, Failure, Verdict};
pub use key::{
    BadReference, CONSUMER_BYTES_MAX, ClaimKey, Fingerprint, IdempotencyKey, KeyError, MESSAGE_ID_BYTES_MAX,
    MessageId, Namespace, Reference, TENANT_BYTES_MAX, VerbatimRule,
};
pub use receipt::{ANSWER_BYTES_MAX, Answer, Receipt, Undecoded};
pub use state::State;
pub use time::Timestamp;
