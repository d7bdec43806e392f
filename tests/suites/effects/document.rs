//! The acknowledgement table names every answer.

use earmark_claim::Claimed;
use earmark_effects::Outcome;

const PAGE: &str = include_str!("../../../docs/adapters.md");

/// Exhaustive on purpose: a new answer does not compile until it is named here, and then it is looked for on the page.
fn of_run(outcome: &Outcome<()>) -> &'static str {
    match outcome {
        Outcome::Confirmed(_) => "Confirmed",
        Outcome::Held { .. } => "Held",
        Outcome::InFlight { .. } => "InFlight",
        Outcome::Retryable { .. } => "Retryable",
        Outcome::InDoubt { .. } => "InDoubt",
        Outcome::Escalated => "Escalated",
        Outcome::Abandoned { .. } => "Abandoned",
        Outcome::Mismatch => "Mismatch",
    }
}

/// As [`of_run`].
fn of_claim(claimed: &Claimed) -> &'static str {
    match claimed {
        Claimed::Won(_) => "Won",
        Claimed::Confirmed(_) => "Confirmed",
        Claimed::Held { .. } => "Held",
        Claimed::InFlight { .. } => "InFlight",
        Claimed::Retryable { .. } => "Retryable",
        Claimed::InDoubt { .. } => "InDoubt",
        Claimed::Escalated => "Escalated",
        Claimed::Abandoned { .. } => "Abandoned",
        Claimed::Mismatch => "Mismatch",
    }
}

/// Those of the two error enums, which are open to more.
const ERRORS: [&str; 22] = [
    "Store(Contention)",
    "Store(Unavailable)",
    "Store(Connect)",
    "Store(Closed)",
    "Store(Random)",
    "Store(Unclear)",
    "Store(Rejected)",
    "Store(Malformed)",
    "Store(NotFound)",
    "Store(Key)",
    "Store(Invalid)",
    "Store(RetryTransaction)",
    "Store(InTransaction)",
    "Store(SqliteNotImmediate)",
    "Store(Refused)",
    "Request",
    "Call",
    "NotRegistered",
    "NotCommitted",
    "Closing",
    "Interrupted",
    "Config",
];

#[test]
fn every_answer_and_every_error_says_what_to_tell_the_broker() {
    let _ = (of_run, of_claim);
    let answers = [
        "Won",
        "Confirmed",
        "Held",
        "InFlight",
        "Retryable",
        "InDoubt",
        "Escalated",
        "Abandoned",
        "Mismatch",
    ];
    let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    for name in answers.iter().chain(&ERRORS) {
        let cell = format!("`{name}`");
        let in_first = |row: &&&str| row.split('|').nth(1).is_some_and(|first| first.contains(&cell));
        assert_eq!(rows.iter().filter(in_first).count(), 1, "{name} has one row");
    }
}
