//! Faults that people reported of this kind of software, as scenarios: each file names the guarantee.

#[path = "cases/acknowledged.rs"]
mod acknowledged;
#[path = "cases/answers.rs"]
mod answers;
#[path = "cases/ends_in_the_middle.rs"]
mod ends_in_the_middle;
#[path = "cases/lease.rs"]
mod lease;
#[path = "cases/lost_outcome.rs"]
mod lost_outcome;
#[path = "cases/never_forgotten.rs"]
mod never_forgotten;
#[path = "cases/one_key.rs"]
mod one_key;
#[path = "cases/pooler.rs"]
mod pooler;
#[path = "cases/replayed_failures.rs"]
mod replayed_failures;
#[path = "cases/scope.rs"]
mod scope;

#[path = "cases/slow_provider.rs"]
mod slow_provider;

/// The service of the cases, where this program was started as one.
#[tokio::test]
async fn service() {
    earmark_tests::process::serve().await;
}
