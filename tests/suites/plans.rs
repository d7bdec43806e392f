//! What a hot statement costs is read off its plan: which index it uses, and how many rows it reads beside many finished ones.
//!
//! `EARMARK_PLAN_ROWS` says how many finished claims there are (20,000 unless it is set), `EARMARK_PLAN_DUE` how many are due of the pair that floods (2,000).
//! With 1,000,000 or 10,000,000 and 100,000 the plans must be the same.
//!
//! No suite asserts how long anything takes. `measured` prints it, for a person who asks:
//! `EARMARK_PLAN_ROWS=1000000 cargo nextest run -p earmark-tests --test plans --run-ignored only --no-capture measured`.

#[path = "plans/by_key.rs"]
mod by_key;
#[path = "plans/measured.rs"]
mod measured;
#[path = "plans/open.rs"]
mod open;
#[path = "plans/stage.rs"]
mod stage;
#[path = "plans/walk.rs"]
mod walk;
