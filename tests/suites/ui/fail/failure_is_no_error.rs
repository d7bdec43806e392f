//! `?` turns any error into *unknown*. If a failure were an error itself, a *not sent* would be lost on the way.

use earmark_claim::Failure;

fn error(failure: Failure) -> Box<dyn std::error::Error> {
    Box::new(failure)
}

fn main() {}
