//! The wrong order does not compile, and says why; the right one does.
//!
//! After a change of the toolchain or of a type's name: `TRYBUILD=overwrite cargo test -p earmark-tests --test ui`, then read the
//! difference: each file under `fail` must still fail for the reason in its first line.

// Compiled as a part of this suite, which costs nothing, and not once more by trybuild.
#[path = "ui/pass/in_order.rs"]
mod in_order;
#[path = "ui/pass/too_late.rs"]
mod too_late;

#[test]
fn every_misuse_is_refused_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("suites/ui/fail/*.rs");
}
