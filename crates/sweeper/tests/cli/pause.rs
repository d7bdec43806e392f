//! `earmark pause` and `earmark resume`, and where a pause shows.

use std::time::Duration;

use earmark_claim::{Failure, State};

use crate::kit::{Done, Place, key, never, new, settled};

fn pause(place: &Place, downstream: &str, reason: &str) -> Done {
    place.run(&["pause", "--downstream", downstream, "--by", "K. Lang", "--reason", reason, "--json"])
}

fn resume(place: &Place, downstream: &str) -> Done {
    place.run(&["resume", "--downstream", downstream, "--by", "M. Roth", "--reason", "over", "--json"])
}

#[tokio::test]
async fn a_pause_shows_everywhere_until_it_is_over_and_stays_on_file() {
    let place = Place::new();
    place.run(&["sweep"]);
    settled(&place.store().await, "m1", Err(Failure::not_sent("refused_connection"))).await;
    let paused = pause(&place, "mailer", "outage 4711").json();
    assert_eq!((&paused["downstream"], &paused["by"]), (&"mailer".into(), &"K. Lang".into()));
    assert!(paused["resumed_at"].is_null());
    pause(&place, "mailer", "another reason")
        .says(4, "nothing was changed")
        .says(4, "by K. Lang: outage 4711");

    let line = "mailer is paused since";
    place.run(&["list"]).says(0, line);
    let listed = place.run(&["list", "--json"]).json();
    assert_eq!(listed["paused"][0]["reason"], "outage 4711");
    place.run(&["doctor"]).says(0, line).says(0, "earmark resume");
    let top = place.run(&["report"]).out;
    let words = top.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(line) && words.contains("by K. Lang: outage 4711"), "{top}");
    assert!(words.find(line).unwrap() < words.find("ROLL-FORWARD").unwrap(), "at the top: {top}");

    let resumed = resume(&place, "mailer").json();
    assert_eq!((&resumed["resumed_by"], &resumed["resume_reason"]), (&"M. Roth".into(), &"over".into()));
    resume(&place, "mailer").says(4, "mailer is not paused");
    assert!(!place.run(&["list"]).err.contains("paused"));
    assert!(!place.run(&["doctor"]).out.contains("paused"));
    let history = place.run(&["report", "--format", "json"]).json();
    assert_eq!(history["pauses"][0]["reason"], "outage 4711");
    assert_eq!(history["pauses"][0]["resumed"]["actor"], "M. Roth");
}

#[test]
fn a_name_that_no_claim_bears_is_asked_about() {
    let place = Place::new();
    pause(&place, "mialer", "outage")
        .says(0, "no open claim has the downstream mialer")
        .says(0, "is the name right?");
}

#[tokio::test]
async fn a_sweep_obeys_at_once() {
    let place = Place::new();
    let store = place.store().await;
    let _ = store.claim_held(&key("m1"), new(never()), Duration::ZERO).await.unwrap();
    let due = || place.run(&["sweep", "--json"]).json()["due"].as_u64();
    assert_eq!(due(), Some(1));
    pause(&place, "mailer", "outage");
    assert_eq!(due(), Some(0), "it is not even read");
    resume(&place, "mailer");
    assert_eq!(due(), Some(1));
    assert_eq!(store.find(&key("m1")).await.unwrap().unwrap().facts.state, State::Held);
}
