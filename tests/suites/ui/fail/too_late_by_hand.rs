//! *Too late* is said by the last look, and by nobody else: it claims that nothing was sent.

use earmark_claim::{Failure, TooLate};

fn pretend() -> Failure {
    TooLate(()).into()
}

fn main() {}
