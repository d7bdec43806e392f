//! Each finding of the doctor.

use std::time::Duration;

use earmark_claim::{Failure, KeyChoice, NewClaim};
use earmark_effects::http::{FORM, HttpCall};

use crate::kit::{Done, Place, key, never, new, settled, won};

/// It is a fault, it is told, and the exit code says so.
fn finds(done: &Done, code: &str, words: &str) {
    let findings = done.json()["findings"].as_array().unwrap().clone();
    let found = findings.iter().find(|f| f["code"] == code && f["what"].as_str().unwrap().contains(words));
    let found = found.unwrap_or_else(|| panic!("no {code} with {words:?} in {findings:#?}"));
    assert_eq!(found["level"], "fault");
    assert_ne!(found["fix"], "", "{found}");
    assert_eq!(done.code, 5);
}

fn doctor(place: &Place) -> Done {
    place.run(&["doctor", "--json"])
}

#[test]
fn a_healthy_place_has_no_faults() {
    let place = Place::new();
    place.run(&["sweep"]);
    place.run(&["doctor"]).says(0, "no faults").says(0, "namespace: shop").says(0, "guard: not installed");
    place.run(&["migrate", "--guard"]);
    place.run(&["doctor"]).says(0, "guard: installed");
}

#[test]
fn configuration_and_credentials() {
    let place = Place::new();
    let config = |text: &str| place.write("earmark.toml", text);
    let file = config("[sweep]\nleese = \"1m\"\nmargin = \"2h\"");
    let done = place.run(&["doctor", "--json", "--config", &file]);
    finds(&done, "config", "sweep.leese: is unknown");
    finds(&done, "config", "sweep.margin");

    let origins = "scheme = \"bearer\"\nallowed_origins = [\"https://api.stripe.com\"]";
    let empty = place.write("secret", "\n");
    let file = config(&format!("[credentials.stripe]\nfile = \"{empty}\"\n{origins}"));
    finds(&place.run(&["doctor", "--json", "--config", &file]), "credential", "is empty");
    let file = config(&format!("[credentials.stripe]\nenv = \"STRIPE_KEY\"\n{origins}"));
    place.run(&["sweep", "--config", &file]);
    place.run(&["doctor", "--config", &file]).says(0, "no faults");
}

#[tokio::test]
async fn the_database() {
    let place = Place::empty();
    let away = doctor(&place);
    assert_eq!(away.code, 3);
    away.says(3, "unreachable").says(3, "sqlite://");
    std::fs::write(place.path("shop.db"), "").unwrap();
    finds(&doctor(&place), "schema", "no tables of Earmark");

    let place = Place::new();
    place.run(&["sweep"]);
    place.sql("DROP INDEX earmark_claim_due").await;
    finds(&doctor(&place), "index", "earmark_claim_due");
    place
        .sql("UPDATE earmark_meta SET value = '9' WHERE name IN ('schema_version', 'schema_breaking')")
        .await;
    finds(&doctor(&place), "schema", "need code that knows schema 9");

    let place = Place::new();
    let file = place.write("earmark.toml", "[database]\nnamespace = \"production\"");
    let done = place.run(&["doctor", "--json", "--config", &file]);
    assert_eq!(done.code, 5);
    done.says(5, "the database's namespace is \\\"shop\\\"");
}

#[tokio::test]
async fn sweepers_that_are_silent() {
    let place = Place::new();
    finds(&doctor(&place), "no_sweeper", "no sweeper has ever finished a pass");
    place.run(&["sweep"]);
    assert_eq!(doctor(&place).code, 0);
    place.sql("UPDATE earmark_sweeper SET last_success_at = last_success_at - 60000000").await;
    finds(&doctor(&place), "no_sweeper", "for three intervals");
}

#[tokio::test]
async fn claims_that_nobody_handles_and_rows_that_cannot_be_read() {
    let place = Place::new();
    let store = place.store().await;
    settled(&store, "m1", Err(Failure::not_sent("refused_connection"))).await;
    place.age(Duration::from_secs(7200)).await;
    place.run(&["sweep"]);
    let done = doctor(&place);
    finds(&done, "no_handler", "1 retryable of mail, kind mail.welcome, form opaque");
    done.says(5, "start a service that registers this kind");
    place.sql("UPDATE earmark_claim SET amount_minor = 1, currency = 'eu1'").await;
    finds(&doctor(&place), "unreadable", "acme/mail/m1");
}

#[tokio::test]
async fn origins_that_are_not_allowed_here() {
    let place = Place::new();
    place.run(&["sweep"]);
    let store = place.store().await;
    let call = HttpCall::post("https://api.acme.example/charges").json(&1).key_header("Idempotency-Key");
    let idempotency_key = store.idempotency_key(&key("m1"), &KeyChoice::Derived).unwrap();
    let frozen = call.freeze("card.charge", &idempotency_key, &store.reference(&key("m1"))).unwrap();
    let claim = NewClaim { form: FORM.into(), request: frozen.bytes, ..new(never()) };
    let _claim = won(&store, "m1", claim).await;
    let done = doctor(&place);
    finds(&done, "origin", "1 open claims");
    done.says(5, "https://api.acme.example");
    let file = place.write("earmark.toml", "[http]\nanonymous_origins = [\"https://api.acme.example\"]");
    place.run(&["doctor", "--config", &file]).says(0, "no faults");
}
