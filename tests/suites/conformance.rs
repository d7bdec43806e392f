//! What the store means, the same on every database.

#[path = "conformance/evidence.rs"]
mod evidence;
#[path = "conformance/join.rs"]
mod join;
#[path = "conformance/life.rs"]
mod life;
#[path = "conformance/startup.rs"]
mod startup;
