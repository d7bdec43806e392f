//! What the store means, the same on every database.

#[path = "conformance/life.rs"]
mod life;
