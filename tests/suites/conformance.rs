//! What the store means, the same on every database.

#[path = "conformance/conflict.rs"]
mod conflict;
#[path = "conformance/due.rs"]
mod due;
#[path = "conformance/evidence.rs"]
mod evidence;
#[path = "conformance/isolation.rs"]
mod isolation;
#[path = "conformance/join.rs"]
mod join;
#[path = "conformance/join_errors.rs"]
mod join_errors;
#[path = "conformance/keys.rs"]
mod keys;
#[path = "conformance/life.rs"]
mod life;
#[path = "conformance/pause.rs"]
mod pause;
#[path = "conformance/race.rs"]
mod race;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/settle.rs"]
mod settle;
#[path = "conformance/startup.rs"]
mod startup;
#[path = "conformance/together.rs"]
mod together;
