//! Group commit: what concurrent callers write is written together, and each row keeps its own fate.

#[path = "group/cancelled.rs"]
mod cancelled;
#[path = "group/closing.rs"]
mod closing;
#[path = "group/counted.rs"]
mod counted;
#[path = "group/cuts.rs"]
mod cuts;
#[path = "group/fates.rs"]
mod fates;
#[path = "group/full.rs"]
mod full;
#[path = "group/held_keys.rs"]
mod held_keys;
#[path = "group/isolation.rs"]
mod isolation;
#[path = "group/kit.rs"]
mod kit;
#[path = "group/panics.rs"]
mod panics;
#[path = "group/poison.rs"]
mod poison;
#[path = "group/rows.rs"]
mod rows;
