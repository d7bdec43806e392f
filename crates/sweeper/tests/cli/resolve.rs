//! Rulings, with the very commands that the report prints.

use std::time::Duration;

use earmark_claim::{Failure, State};

use crate::kit::{Place, key, settled};

/// Escalated claims of which nothing is known, long enough ago to be ruled on.
async fn escalated(ids: &[&str]) -> Place {
    let place = Place::new();
    let store = place.store().await;
    for id in ids {
        settled(&store, id, Err(Failure::unknown("timeout"))).await;
    }
    place.age(Duration::from_secs(100)).await;
    place.run(&["sweep"]).says(0, "escalated");
    place
}

async fn state(place: &Place, id: &str) -> State {
    place.store().await.find(&key(id)).await.unwrap().unwrap().facts.state
}

#[tokio::test]
async fn the_command_on_the_report_works_once_and_then_its_page_is_stale() {
    let place = escalated(&["m1"]).await;
    let report = place.run(&["report", "--format", "json"]).json();
    let offers = report["needs_a_person"][0]["rulings"].as_array().unwrap().clone();
    let command = |ruling: &str| {
        let offer = offers.iter().find(|offer| offer["ruling"] == ruling).unwrap();
        let command = offer["command"]
            .as_str()
            .unwrap()
            .replace("'NAME'", "'K. Lang'")
            .replace("'WHY'", "'it is done'");
        command.replacen("earmark", env!("CARGO_BIN_EXE_earmark"), 1)
    };
    let shell = |command: String| {
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .env_clear()
            .env("EARMARK_DATABASE_URL", place.url())
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (code, said) = shell(command("done"));
    assert_eq!(code, 0, "{said}");
    assert_eq!(state(&place, "m1").await, State::Confirmed);
    let (code, said) = shell(command("not-done"));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("the claim has moved since the page was made"), "{said}");
    assert_eq!(state(&place, "m1").await, State::Confirmed);
}

#[tokio::test]
async fn a_ruling_that_is_too_early_says_from_when_it_is_allowed() {
    let place = escalated(&["m1"]).await;
    place.sql("UPDATE earmark_claim SET last_end_at = last_end_at + 95000000").await;
    let page = ["--state", "escalated", "--fence", "1", "--by", "K. Lang", "--reason", "not in the console"];
    let revision =
        place.run(&["list", "--json"]).json()["claims"][0]["revision"].as_str().unwrap().to_owned();
    let resolve = |ruling: &str, more: &[&str]| {
        let first = ["resolve", "acme/mail/m1", "--ruling", ruling, "--revision", &revision];
        place.run(&[&first, &page[..], more].concat())
    };
    resolve("not-done", &[]).says(4, "allowed from 20");
    assert!(resolve("repeat", &["--json"]).json()["rulings"][0]["from"].as_str().unwrap().starts_with("20"));
    resolve("not-done", &["--provider-ref", "x"]).says(2, "what did not happen has no id");
    assert_eq!(state(&place, "m1").await, State::Escalated);
    // What happened may be said at any time.
    resolve("done", &["--provider-ref", "msg_1", "--evidence", "ticket 4711"]).says(0, "now confirmed");
    let view = place.store().await.find(&key("m1")).await.unwrap().unwrap();
    assert_eq!(view.facts.provider_ref.as_deref(), Some("msg_1"));
}

#[tokio::test]
async fn a_page_must_be_named_whole() {
    let place = escalated(&["m1"]).await;
    let by = ["--by", "K. Lang", "--reason", "why"];
    for args in [
        &["resolve", "acme/mail/m1", "--ruling", "done", "--fence", "1", "--revision", "2"][..],
        &["resolve", "acme/mail/m1", "--ruling", "done", "--state", "escalated", "--revision", "2"],
        &["resolve", "acme/mail/m1", "--ruling", "done", "--state", "escalated", "--fence", "1"],
        &["resolve", "--ruling", "done"],
        &["resolve", "--ruling", "maybe", "--expect", "1"],
    ] {
        assert_eq!(place.run(&[args, &by].concat()).code, 2, "{args:?}");
    }
    place
        .run(&["resolve", "--ruling", "done", "--expect", "1", "--by", " ", "--reason", "why"])
        .says(2, "name who decides");
    assert_eq!(state(&place, "m1").await, State::Escalated);
}

#[tokio::test]
async fn many_are_ruled_only_if_they_are_as_many_as_expected() {
    let place = escalated(&["m1", "m2", "m3"]).await;
    let resolve = |expect: &str, more: &[&str]| {
        let args = ["resolve", "--ruling", "not-done", "--downstream", "mailer", "--expect", expect];
        place.run(&[&args[..], &["--by", "K. Lang", "--reason", "outage notice 4711"], more].concat())
    };
    resolve("2", &[]).says(4, "nothing was ruled: more than 2 claims fit");
    resolve("4", &[]).says(4, "nothing was ruled: 3 claims fit, and 4 were expected");
    resolve("3", &["--error-class", "other"]).says(4, "0 claims fit");
    for id in ["m1", "m2", "m3"] {
        assert_eq!(state(&place, id).await, State::Escalated, "{id}");
    }
    // One of them may still land: it alone is refused, and the rest is ruled.
    place.sql("UPDATE earmark_claim SET last_end_at = last_end_at + 95000000 WHERE message_id = 'm2'").await;
    let done = resolve("3", &["--json"]);
    assert_eq!(done.code, 4);
    let rulings = done.json()["rulings"].as_array().unwrap().clone();
    assert_eq!(rulings.iter().filter(|r| r["state"] == "abandoned").count(), 2);
    assert_eq!(rulings.iter().filter(|r| r["from"].is_string()).count(), 1);
    assert_eq!(state(&place, "m2").await, State::Escalated);
    for id in ["m1", "m3"] {
        let history = place.store().await.history(&key(id)).await.unwrap();
        let ruling = history.last().unwrap();
        assert_eq!(
            (ruling.name.as_str(), ruling.actor.as_deref()),
            ("rule_not_done", Some("K. Lang")),
            "{id}"
        );
    }
}
