//! The purge, on every database and in every layout: what goes, what stays, what a tombstone answers, and how a run behaves beside others.

#[path = "purge/ages.rs"]
mod ages;
#[path = "purge/answers.rs"]
mod answers;
#[path = "purge/plans.rs"]
mod plans;
#[path = "purge/runs.rs"]
mod runs;
#[path = "purge/together.rs"]
mod together;
