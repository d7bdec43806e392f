//! What cannot be used is refused whole, when it is built.

use std::time::Duration;

use earmark_claim::{Backoff, Declared, KeyChoice, ProbeTerms, RepeatSafety, VerbatimRule};
use earmark_effects::stub::Stub;
use earmark_effects::{Builder, Earmark, Error, HttpKind};
use earmark_tests::claims::{LEASE, never, store};
use earmark_tests::effects::By;
use earmark_tests::{Backend, TestDb};

async fn builder() -> (TestDb, Builder) {
    let db = TestDb::new(Backend::Sqlite).await;
    let builder = Earmark::builder(store(&db).await);
    (db, builder)
}

fn faults(builder: Builder) -> Vec<String> {
    match builder.build() {
        Err(Error::Config(faults)) => faults,
        Err(other) => panic!("{other}"),
        Ok(_) => Vec::new(),
    }
}

fn by(kind: &'static str) -> By {
    By { kind, ..By::new(|_, _| Ok(serde_json::json!({}))) }
}

fn verbatim() -> KeyChoice {
    KeyChoice::Verbatim(VerbatimRule { len_min: 1, len_max: 64, also: "-".into() })
}

#[tokio::test]
async fn every_fault_is_named_at_once_with_its_kind() {
    let (_db, builder) = builder().await;
    let terms = ProbeTerms { lag: Duration::ZERO, not_found_is_proof: false, looks_max: 0 };
    let declared = |change: fn(&mut Declared)| {
        let mut declared = Declared { landing_horizon: None, ..never() };
        change(&mut declared);
        declared
    };
    let long = Duration::from_secs(3600);
    let builder = builder
        .effect(By { declared: declared(|d| d.call_timeout = LEASE), ..by("a.lease") })
        .effect(By { declared: declared(|d| d.call_timeout = Duration::ZERO), ..by("b.timeout") })
        .effect(By { declared: declared(|d| d.age_max = Duration::ZERO), ..by("c.age") })
        .effect(By { declared: declared(|d| d.attempts_max = 0), ..by("d.attempts") })
        .effect(By {
            declared: Declared { landing_horizon: Some(Duration::ZERO), ..never() },
            ..by("e.horizon")
        })
        .effect(By {
            declared: Declared { repeat: RepeatSafety::Keyed { window: Duration::ZERO }, ..never() },
            ..by("f.window")
        })
        .effect(By { declared: Declared { probe: Some(terms), ..never() }, ..by("g.unprobed") })
        .probed(by("h.undeclared"), Stub::new("h.undeclared", never()))
        .effect(by("i.twice"))
        .effect(by("i.twice"))
        .effect(By { send_within: Some(Duration::ZERO), ..by("j.send-within") })
        .effect(By { send_within: Some(long * 24 * 366 * 11), ..by("k.send-within") })
        .effect(By { downstream: "", ..by("l.downstream") })
        .effect(By { downstream: "b\u{e4}nk", ..by("m.downstream") })
        .effect(by(""))
        .http_kind(HttpKind::new("n.http", "stripe", never()));
    let faults = faults(builder);
    for (kind, word) in [
        ("a.lease", "lease"),
        ("b.timeout", "call_timeout is zero"),
        ("c.age", "age_max is zero"),
        ("d.attempts", "attempts_max is zero"),
        ("e.horizon", "landing_horizon"),
        ("f.window", "key window"),
        ("g.unprobed", "looks_max is zero"),
        ("g.unprobed", "declares a probe, but has none"),
        ("h.undeclared", "declares no terms"),
        ("i.twice", "registered twice"),
        ("j.send-within", "send_within is zero"),
        ("k.send-within", "send_within"),
        ("l.downstream", "downstream"),
        ("m.downstream", "downstream"),
        ("", "a kind is a stored name"),
        ("n.http", "no HTTP effect"),
    ] {
        let named = |fault: &&String| fault.starts_with(&format!("{kind}: ")) && fault.contains(word);
        assert!(faults.iter().any(|f| named(&f)), "{kind}: {word} is not named in {faults:#?}");
    }
    assert_eq!(faults.len(), 16, "{faults:#?}");
}

#[tokio::test]
async fn two_kinds_of_one_provider_cannot_both_send_the_message_id() {
    let (_db, builder) = builder().await;
    let one = By { key_choice: verbatim(), ..by("charge") };
    let other = By { key_choice: verbatim(), ..by("refund") };
    let faults = faults(builder.effect(one).effect(other));
    assert!(
        matches!(&faults[..], [f] if f.starts_with("refund: ") && f.contains("\"charge\"")),
        "{faults:?}"
    );
}

#[tokio::test]
async fn of_two_providers_or_beside_a_derived_key_each_may_send_it() {
    let (_db, builder) = builder().await;
    let builder = builder
        .effect(By { key_choice: verbatim(), ..by("charge") })
        .effect(By { key_choice: verbatim(), downstream: "another", ..by("refund") })
        .effect(by("void"));
    assert_eq!(faults(builder), Vec::<String>::new());
}

#[tokio::test]
async fn a_wait_of_nothing_between_tries_is_refused() {
    let (_db, builder) = builder().await;
    let never_waits = Backoff { base: Duration::ZERO, max: Duration::ZERO };
    let faults = faults(builder.backoff(never_waits).effect(by("a")));
    assert!(matches!(&faults[..], [f] if f.contains("backoff")), "{faults:?}");
}
