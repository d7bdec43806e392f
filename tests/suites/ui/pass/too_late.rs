//! `?` on a last look that came too late says *not sent*; on any error it says *unknown*.

use earmark_claim::{Failure, TooLate, Verdict};

fn looked(last_look: Result<(), TooLate>) -> Result<(), Failure> {
    last_look?;
    Ok(())
}

fn failed() -> Result<(), Failure> {
    "x".parse::<u32>()?;
    Ok(())
}

#[test]
fn a_question_mark_says_what_is_true() {
    assert!(looked(Ok(())).is_ok());
    let too_late: fn(TooLate) -> Failure = Failure::from;
    let _ = too_late;
    assert_eq!(failed().unwrap_err().verdict, Verdict::Unknown);
}
