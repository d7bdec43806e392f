//! The sweep, on every database: each row of its table, fairness, many sweepers at once, the schedule, and the report about it all.

#[path = "sweeper/kit.rs"]
mod kit;

#[path = "sweeper/fair.rs"]
mod fair;
#[path = "sweeper/in_doubt.rs"]
mod in_doubt;
#[path = "sweeper/many.rs"]
mod many;
#[path = "sweeper/open.rs"]
mod open;
#[path = "sweeper/pause.rs"]
mod pause;
#[path = "sweeper/processes.rs"]
mod processes;
#[path = "sweeper/report.rs"]
mod report;
#[path = "sweeper/schedule.rs"]
mod schedule;
#[path = "sweeper/sidecar.rs"]
mod sidecar;

/// A service or sweeper of its own process, where this program was started as one.
#[tokio::test]
async fn member() {
    earmark_tests::crowd::take_part().await;
}
