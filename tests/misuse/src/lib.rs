//! What must not compile: see `tests/misuse.rs` and `cases`.
