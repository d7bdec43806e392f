//! The tables themselves, on each database: how they come to be, and which rows and moves they refuse from a person at
//! a prompt. Nothing here goes through the claim crate.

#[path = "schema/checks.rs"]
mod checks;
#[path = "schema/guard.rs"]
mod guard;
#[path = "schema/host.rs"]
mod host;
#[path = "schema/keys.rs"]
mod keys;
#[path = "schema/row.rs"]
mod row;
#[path = "schema/up.rs"]
mod up;
