//! The ways to a false "claim committed", each first shown on the plain driver (the control), then on the store.

#[path = "traps/controls.rs"]
mod controls;
#[path = "traps/lost.rs"]
mod lost;
#[path = "traps/sqlite.rs"]
mod sqlite;
