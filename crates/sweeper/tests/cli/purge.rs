//! `earmark purge`, and the purge of `earmark run`.

use std::time::Duration;

use earmark_claim::Failure;

use crate::kit::{Place, key, settled, until};

/// Every finished claim was closed so much earlier.
async fn closed_earlier(place: &Place, by: Duration) {
    place.sql(&format!("UPDATE earmark_claim SET closed_at = closed_at - {}", by.as_micros())).await;
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Two finished claims of two days ago, and one in doubt.
async fn old() -> Place {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "done", Ok(())).await;
    settled(&store, "refused", Err(Failure::refused("unknown_address"))).await;
    settled(&store, "doubtful", Err(Failure::unknown("timeout"))).await;
    store.close().await;
    closed_earlier(&place, DAY * 2).await;
    place
}

#[tokio::test]
async fn a_dry_run_says_what_would_go_and_a_run_takes_it() {
    let place = old().await;
    let plan = place.run(&["purge", "--dry-run", "--retention", "1d", "--json"]).json();
    assert_eq!(plan["claims"].as_array().unwrap().len(), 2, "{plan}");
    for (n, state) in ["abandoned", "confirmed"].into_iter().enumerate() {
        let tally = &plan["claims"][n];
        assert_eq!((&tally["tenant"], &tally["consumer"]), (&"acme".into(), &"mail".into()));
        assert_eq!((&tally["state"], &tally["claims"]), (&state.into(), &1.into()));
        assert!(tally["bytes"].as_u64().unwrap() > 10, "{tally}");
    }
    let text = place.run(&["purge", "--dry-run", "--retention", "1d"]);
    text.says(0, "claims that would become tombstones: 2").says(0, "acme    mail");

    let purged = place.run(&["purge", "--retention", "1d", "--json"]).json();
    assert_eq!((&purged["claims"], &purged["stopped"]), (&2.into(), &false.into()), "{purged}");
    place.run(&["show", "acme/mail/done"]).says(0, "purged at");
    place.run(&["purge", "--retention", "1d"]).says(0, "claims    0  became tombstones");

    // The tombstone goes at its own age, and the key is free.
    let store = place.store().await;
    let tombstones = ["--tombstones", "36h", "--redelivery", "1d", "--json"];
    let purged = place.run(&[&["purge", "--retention", "1d"], tombstones.as_slice()].concat()).json();
    assert_eq!((&purged["claims"], &purged["deleted"]), (&0.into(), &2.into()), "{purged}");
    assert!(store.find(&key("done")).await.unwrap().is_none());
    assert!(store.find(&key("doubtful")).await.unwrap().is_some());
}

#[tokio::test]
async fn ages_that_free_a_key_too_early_are_refused_before_anything_is_written() {
    let place = old().await;
    place.run(&["purge"]).says(2, "say how old a finished claim must be: --retention 30d");
    place
        .run(&["purge", "--retention", "1d", "--tombstones", "2d"])
        .says(2, "say for how long a message can come again: --redelivery 30d");
    place
        .run(&["purge", "--retention", "1h", "--tombstones", "1d", "--redelivery", "2d"])
        .says(2, "tombstones are deleted after 86400s, but a message can come again for 172800s");
    let config = place
        .write("earmark.toml", "[purge]\nretention = \"1h\"\ntombstone_age = \"1d\"\nredelivery = \"2d\"\n");
    for command in ["purge", "run"] {
        place.run(&[command, "--config", &config]).says(2, "a message can come again for 172800s");
    }
    place.run(&["doctor", "--config", &config]).says(5, "purge.tombstone_age");
    let store = place.store().await;
    assert_eq!(store.find(&key("done")).await.unwrap().unwrap().purged_at, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sidecar_purges_on_its_schedule_and_counts_it() {
    let place = old().await;
    let env = [("EARMARK_PURGE_RETENTION", "1d"), ("EARMARK_PURGE_SCHEDULE", "* * * * * *")];
    let mut sidecar = place.sidecar(&[], &env);
    let metrics = until("a purge is counted", || {
        let (_, body) = sidecar.get("/metrics");
        body.contains("earmark_purge_rows_total{action=\"purge\"} 2").then_some(body)
    });
    assert!(metrics.contains("earmark_purge_runs_total{result=\"failed\"} 0"), "{metrics}");
    assert!(metrics.contains("earmark_purge_last_success_timestamp_seconds"), "{metrics}");
    let store = place.store().await;
    assert!(store.find(&key("done")).await.unwrap().unwrap().purged_at.is_some());
    assert_eq!(store.find(&key("doubtful")).await.unwrap().unwrap().purged_at, None);
    sidecar.signal("TERM");
    assert_eq!(sidecar.ended(), Some(0));
}

#[test]
fn partitions_are_printed_for_postgres_and_refused_elsewhere() {
    let place = Place::empty();
    let printed = place.run(&["migrate", "--print", "postgres", "--partitions", "3"]);
    printed.says(0, "CREATE TABLE earmark_claim_p2 PARTITION OF earmark_claim");
    place.run(&["migrate", "--print", "postgres", "--partitions", "1"]).says(2, "use 2 to 256");
    place
        .run(&["migrate", "--print", "mysql", "--partitions", "4"])
        .says(2, "only the tables for PostgreSQL");
    place.run(&["migrate", "--partitions", "4"]).says(2, "only the tables for PostgreSQL can be partitioned");
}
