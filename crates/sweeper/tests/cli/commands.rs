//! Each command, its exit codes, and what it says to bad input.

use std::time::Duration;

use earmark_claim::{Failure, State};

use crate::kit::{Place, key, settled};

#[test]
fn help_has_examples_and_the_exit_codes() {
    let place = Place::empty();
    place.run(&["--help"]).says(0, "Exit codes:").says(0, "EARMARK_SWEEP_LEASE").says(0, "allowed_origins");
    for command in [
        "run", "sweep", "migrate", "list", "show", "report", "resolve", "cancel", "pause", "resume", "doctor",
    ] {
        let done = place.run(&[command, "--help"]);
        assert!(done.says(0, "Example").out.contains(&format!("earmark {command}")), "{}", done.out);
    }
    for command in ["sweep", "migrate", "list", "show", "resolve", "cancel", "pause", "resume", "doctor"] {
        place.run(&[command, "--help"]).says(0, "--json");
    }
    place.run(&[]).says(2, "Usage");
}

#[test]
fn bad_input_names_the_thing_and_the_fix() {
    let place = Place::new();
    for (args, code, words) in [
        (vec!["list", "--state", "lost"], 2, "write one of held, in_flight"),
        (vec!["list", "--older-than", "5"], 2, "write 30s, 5m, 2h or 1d"),
        (vec!["list", "--limit", "0"], 2, "--limit"),
        (vec!["list", "--config", "/nowhere.toml"], 2, "name an existing, readable file"),
        (vec!["list", "--database", "oracle://x"], 2, "postgres://USER:PASSWORD@HOST/DATABASE"),
        (vec!["show", "7F3K"], 2, "a reference has 16 characters"),
        (vec!["show", "a/b/c/d"], 2, "a slash inside a part"),
        (vec!["show", "mail/nothing"], 1, "there is no claim mail/nothing"),
        (vec!["show", "--provider-ref", "ch_x"], 1, "there is no claim with the provider's id"),
        (vec!["report", "--from", "yesterday"], 2, "write 2026-11-30"),
        (vec!["report", "--from", "2026-11-30", "--to", "2026-11-29"], 2, "is not after"),
        (vec!["report", "--out", "/nowhere/report.txt"], 2, "name a directory that is there"),
        (vec!["cancel", "mail/x"], 2, "--by"),
        (vec!["pause", "--downstream", "stripe", "--reason", "x"], 2, "--by"),
        (vec!["pause", "--downstream", "stripe", "--by", "K. Lang"], 2, "--reason"),
        (vec!["pause", "--downstream", "", "--by", "K. Lang", "--reason", "x"], 2, "is no stored name"),
        (vec!["resume", "--downstream", "stripe", "--by", "K. Lang", "--reason", ""], 2, "give the reason"),
        (
            vec!["resume", "--downstream", "stripe", "--by", "K. Lang", "--reason", "x"],
            4,
            "stripe is not paused",
        ),
        (vec!["migrate", "--namespace", "other"], 2, "leave the option out"),
        (vec!["migrate", "--namespace", "a b"], 2, "letters, digits"),
    ] {
        place.run(&args).says(code, words);
    }
    let mut command = place.command(&["list"]);
    let output = command.env("EARMARK_SWEEP_LEESE", "1m").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean EARMARK_SWEEP_LEASE?"));
}

#[test]
fn a_database_that_is_away_is_told_from_one_without_tables() {
    let place = Place::empty();
    place.run(&["list"]).says(3, "could not be reached");
    std::fs::write(place.path("shop.db"), "").unwrap();
    place.run(&["list"]).says(2, "run the migrations first");
    // Nobody listens there; the password is not said.
    let url = format!("postgres://app:{}@127.0.0.1:1/shop", crate::kit::SECRETS[0]);
    place.run(&["sweep", "--database", &url]).says(3, "postgres://app:***@127.0.0.1:1/shop");
}

#[test]
fn migrate_is_done_once_and_prints_without_a_database() {
    let place = Place::empty();
    let done = place.run(&["migrate", "--namespace", "shop", "--guard", "--json"]);
    assert_eq!((done.json()["to"].as_u64(), done.json()["guard_installed"].as_bool()), (Some(1), Some(true)));
    place.run(&["migrate"]).says(0, "nothing to do");
    let nowhere = Place::empty();
    for dialect in ["postgres", "mysql", "sqlite"] {
        let done = nowhere.run(&["migrate", "--print", dialect]);
        assert!(done.says(0, "CREATE TABLE").out.contains("earmark_claim"));
        assert!(!done.out.contains("TRIGGER"));
        nowhere.run(&["migrate", "--print", dialect, "--guard"]).says(0, "TRIGGER");
    }
    assert!(!std::fs::exists(nowhere.path("shop.db")).unwrap());
}

#[tokio::test]
async fn list_filters_and_sorts_and_its_json_parses() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "m1", Ok(())).await;
    settled(&store, "m2", Err(Failure::unknown("timeout"))).await;
    settled(&store, "m3", Err(Failure::not_sent("refused_connection"))).await;
    let ids = |args: &[&str]| {
        let json = place.run(&[&["list", "--json"], args].concat()).json();
        let claims = json["claims"].as_array().unwrap().iter();
        claims.map(|claim| claim["message_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["m2", "m3"], "open ones");
    assert_eq!(ids(&["--state", "confirmed"]), ["m1"]);
    assert_eq!(ids(&["--error-class", "timeout"]), ["m2"]);
    assert_eq!(ids(&["--tenant", "acme", "--consumer", "mail", "--kind", "mail.welcome"]), ["m2", "m3"]);
    assert_eq!(ids(&["--consumer", "MAIL"]), Vec::<String>::new());
    assert_eq!(ids(&["--downstream", "other"]), Vec::<String>::new());
    assert_eq!(ids(&["--older-than", "1h"]), Vec::<String>::new());
    place.age(Duration::from_secs(3601)).await;
    assert_eq!(ids(&["--older-than", "1h"]), ["m2", "m3"]);
    place.run(&["list", "--limit", "1"]).says(0, "there are more than 1").says(0, "acme/mail/m2");
    assert_eq!(place.run(&["list", "--limit", "1", "--json"]).json()["more"].as_bool(), Some(true));
    // What is about to be late comes first.
    place.sql("UPDATE earmark_claim SET send_by = 9000000000000000 WHERE message_id = 'm3'").await;
    assert_eq!(ids(&[]), ["m3", "m2"]);
    // A row that cannot be read hides no other.
    place.sql("UPDATE earmark_claim SET amount_minor = 1, currency = 'eu1' WHERE message_id = 'm3'").await;
    place.run(&["list"]).says(0, "acme/mail/m2").says(0, "the row of claim acme/mail/m3 cannot be read");
}

#[tokio::test]
async fn show_tells_the_story_and_keeps_bodies_to_itself() {
    let place = Place::new();
    let store = place.store().await;
    let reference = settled(&store, "m/1", Err(Failure::unknown("timeout").because("no answer"))).await;
    place.age(Duration::from_secs(100)).await;
    place.run(&["sweep"]).says(0, "escalated");
    for handle in [reference.as_str(), "acme/mail/m\\/1", &reference.to_lowercase()] {
        place
            .run(&["show", handle])
            .says(0, "escalated, carrying doubt")
            .says(0, "unknown: in_flight -> in_doubt")
            .says(0, "cause: no_rule_decides")
            .says(0, "not-done: now (since")
            .says(0, &format!("earmark resolve {reference} --ruling repeat --state escalated"));
    }
    let revealed = place.run(&["show", &reference, "--reveal"]);
    assert!(revealed.out.contains("jane@example.org"), "{}", revealed.out);
    let json = place.run(&["show", &reference, "--json"]).json();
    let claim = &json["claims"][0];
    assert_eq!(claim["state"], "escalated");
    assert_eq!(claim["rulings"].as_array().unwrap().len(), 3);
    assert!(claim["events"].as_array().unwrap().len() >= 2);

    settled(&store, "m2", Ok(())).await;
    place
        .run(&["show", "--provider-ref", "msg_m2"])
        .says(0, "closed: confirmed (answer)")
        .says(0, "it is closed");
    // Hostile text reaches the terminal as text.
    place.sql("UPDATE earmark_claim SET summary = char(27) || '[2J' WHERE message_id = 'm2'").await;
    place.run(&["show", "acme/mail/m2"]).says(0, "\\u{1b}[2J");
    place.run(&["list", "--state", "confirmed", "--json"]).says(0, "\\u001b[2J");
}

#[tokio::test]
async fn report_goes_to_standard_output_a_file_or_a_directory() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "m1", Err(Failure::unknown("timeout"))).await;
    place.run(&["report"]).says(0, "RECONCILIATION REPORT").says(0, "in doubt");
    let json = place.run(&["report", "--format", "json", "--since", "1h"]).json();
    assert_eq!(json["roll_forward"]["all"]["closing"]["claims"], 1);
    place.run(&["report", "--format", "html"]).says(0, "<!doctype html>");
    let file = place.path("report.txt");
    place.run(&["report", "--out", &file]).says(0, &file);
    assert!(std::fs::read_to_string(&file).unwrap().contains("RECONCILIATION REPORT"));
    std::fs::create_dir(place.path("reports")).unwrap();
    place
        .run(&["report", "--from", "2026-01-01", "--format", "json", "--out", &place.path("reports")])
        .says(0, "written");
    let made: Vec<_> =
        std::fs::read_dir(place.path("reports")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(made[0].to_str().unwrap().ends_with("Z.json"), "{made:?}");
}

#[tokio::test]
async fn cancel_calls_off_what_was_not_sent_and_nothing_else() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "unsent", Err(Failure::not_sent("refused_connection"))).await;
    settled(&store, "doubtful", Err(Failure::unknown("timeout"))).await;
    let cancel = |id: &str| place.run(&["cancel", id, "--by", "K. Lang", "--reason", "withdrawn", "--json"]);
    assert_eq!(cancel("acme/mail/unsent").json()["state"], "abandoned");
    cancel("acme/mail/doubtful").says(4, "this needs held or retryable");
    cancel("acme/mail/nothing").says(1, "there is no claim");
    assert_eq!(store.find(&key("doubtful")).await.unwrap().unwrap().facts.state, State::InDoubt);
    let history = store.history(&key("unsent")).await.unwrap();
    assert_eq!(history.last().unwrap().actor.as_deref(), Some("K. Lang"));
}

#[tokio::test]
async fn sweep_makes_one_pass_and_tells_of_failures() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "m1", Err(Failure::unknown("timeout"))).await;
    place.age(Duration::from_secs(100)).await;
    let pass = place.run(&["sweep", "--json"]);
    assert_eq!((pass.code, pass.json()["escalated"].as_u64()), (0, Some(1)));
    settled(&store, "m2", Err(Failure::unknown("timeout"))).await;
    place.sql("UPDATE earmark_claim SET amount_minor = 1, currency = 'eu1' WHERE message_id = 'm2'").await;
    place.age(Duration::from_secs(100)).await;
    place.run(&["sweep"]).says(1, "cannot be read");
}
