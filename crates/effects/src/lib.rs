//! Effects.

#[cfg(feature = "http")]
pub mod credentials;
#[cfg(feature = "http")]
pub mod http;
