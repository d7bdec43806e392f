use std::time::Duration;

use earmark_claim::ANSWER_BYTES_MAX;

use super::*;
use crate::http::On;

fn verdict(answers: &Answers, seen: &Seen) -> (Option<Verdict>, String) {
    match classify(answers, seen) {
        Ok(_) => (None, String::new()),
        Err(failure) => (Some(failure.verdict), failure.class.to_string()),
    }
}

#[test]
fn the_general_table_row_by_row() {
    const UNKNOWN: Option<Verdict> = Some(Verdict::Unknown);
    const NOT_SENT: Option<Verdict> = Some(Verdict::NotSent);
    for (statuses, expected, class) in [
        (&[100, 101, 103, 199][..], UNKNOWN, "unexpected_1xx"),
        (&[200, 201, 203, 204, 205, 206, 207, 226, 299], None, ""),
        (&[202], UNKNOWN, "accepted"),
        (&[300, 301, 302, 303, 304, 307, 308, 399], UNKNOWN, "needs_mapping"),
        (&[401, 403, 404, 405, 407], NOT_SENT, "operator"),
        (&[408], UNKNOWN, "http_408"),
        (&[409], UNKNOWN, "http_409"),
        (&[421], NOT_SENT, "misdirected"),
        (&[425], NOT_SENT, "too_early"),
        (&[429], UNKNOWN, "http_429"),
        (
            &[400, 402, 406, 410, 411, 412, 413, 414, 415, 417, 418, 422, 423, 424, 426, 428, 431, 451, 499],
            UNKNOWN,
            "http_4xx",
        ),
        (&[503], UNKNOWN, "http_503"),
        (&[500, 501, 502, 504, 520, 522, 524, 599], UNKNOWN, "http_5xx"),
        (&[0, 99, 600, 999, u16::MAX], UNKNOWN, "http_other"),
    ] {
        for &status in statuses {
            let seen = Seen::new(status, &[], "body");
            assert_eq!(verdict(&Answers::new(), &seen), (expected, class.to_owned()), "{status}");
        }
    }
}

#[test]
fn nothing_is_refused_unless_the_effect_says_so() {
    for status in 100..=999 {
        let (verdict, _) = verdict(&Answers::new(), &Seen::new(status, &[], "{}"));
        assert!(!matches!(verdict, Some(Verdict::Refused { .. })), "{status}");
    }
}

#[test]
fn every_row_cites_its_promise() {
    for row in general_table() {
        assert!(row.promise.starts_with("RFC ") && row.promise.contains('§'), "{row:?}");
        assert_eq!(ErrorClass::from(row.class).as_str(), row.class);
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let answers = Answers::new()
        .refused_and_stored(On::status(402).json("/code", "declined"), "declined")
        .refused(On::status(402), "payment_required")
        .done_with_id(On::status(409).json_present("/conflicting_id"), "/conflicting_id")
        .not_sent(On::status(503).header("transient-error", "true"), "transient")
        .done(On::status(202))
        .unknown(On::status(204), "odd")
        .refused(On::status(200).json_present("/error"), "in_band");
    answers.check().expect("a table that can be used");
    let refused = |covers_earlier| Some(Verdict::Refused { covers_earlier });
    for (seen, expected, class) in [
        (Seen::new(402, &[], r#"{"code":"declined"}"#), refused(true), "declined"),
        (Seen::new(402, &[], r#"{"code":"other"}"#), refused(false), "payment_required"),
        (Seen::new(402, &[], "not json"), refused(false), "payment_required"),
        (Seen::new(409, &[], r#"{"conflicting_id":"PM1"}"#), None, ""),
        (Seen::new(409, &[], "{}"), Some(Verdict::Unknown), "http_409"),
        (Seen::new(503, &[("transient-error", "true")], ""), Some(Verdict::NotSent), "transient"),
        (Seen::new(503, &[("transient-error", "false")], ""), Some(Verdict::Unknown), "http_503"),
        (Seen::new(202, &[], ""), None, ""),
        (Seen::new(204, &[], ""), Some(Verdict::Unknown), "odd"),
        (Seen::new(200, &[], r#"{"error":{}}"#), refused(false), "in_band"),
        (Seen::new(200, &[], r#"{"error":null}"#), None, ""),
    ] {
        assert_eq!(verdict(&answers, &seen), (expected, class.to_owned()), "{seen:?}");
    }
}

#[test]
fn where_an_unread_body_would_decide_nobody_knows() {
    let cut = "x".repeat(ANSWER_BYTES_MAX + 1);
    let in_band = Answers::new().refused(On::status(200).json_present("/error"), "in_band");
    assert_eq!(
        verdict(&in_band, &Seen::new(200, &[], &cut)),
        (Some(Verdict::Unknown), "body_unread".to_owned())
    );
    // Another status, or a rule that says the same: the body changes nothing.
    assert_eq!(verdict(&in_band, &Seen::new(201, &[], &cut)).0, None);
    let same = Answers::new().done(On::status(200).json_present("/id"));
    assert_eq!(verdict(&same, &Seen::new(200, &[], &cut)).0, None);
    let stored = Answers::new()
        .refused_and_stored(On::status(402).json("/code", "a"), "a")
        .refused(On::status(402), "b");
    assert_eq!(verdict(&stored, &Seen::new(402, &[], &cut)).0, Some(Verdict::Unknown));
}

#[test]
fn the_id_is_taken_where_the_table_says() {
    let answers = Answers::new().provider_id("/id").done_with_id(On::status(201), "/links/0");
    for (seen, id) in [
        (Seen::new(200, &[], r#"{"id":"ch_1"}"#), Some("ch_1")),
        (Seen::new(200, &[], r#"{"id":17}"#), Some("17")),
        (Seen::new(201, &[], r#"{"id":"x","links":["PM1"]}"#), Some("PM1")),
        (Seen::new(200, &[], r#"{"id":null}"#), None),
        (Seen::new(200, &[], r#"{"id":""}"#), None),
        (Seen::new(200, &[], r#"{"id":"a\u0000"}"#), None),
        (Seen::new(200, &[], "not json"), None),
        (Seen::new(200, &[], format!("{{\"id\":{:?}}}", "x".repeat(256))), None),
        (Seen::new(204, &[], ""), None),
    ] {
        let receipt = classify(&answers, &seen).expect("done");
        assert_eq!(receipt.provider_ref.as_deref(), id, "{seen:?}");
        assert!(receipt.answer.is_some());
    }
    let accepted = classify(&answers, &Seen::new(202, &[], r#"{"id":"po_1"}"#)).expect_err("open");
    assert_eq!((accepted.verdict, accepted.provider_ref.as_deref()), (Verdict::Unknown, Some("po_1")));
}

#[test]
fn a_failure_keeps_the_answer_the_wait_and_the_reason() {
    let seen = Seen::new(429, &[("Retry-After", "3600"), ("content-type", "text/plain")], "slow down");
    for answers in [Answers::new(), Answers::new().not_sent(On::status(429), "rate_limited")] {
        let failure = classify(&answers, &seen).expect_err("failed");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3600)));
        let answer = failure.answer.expect("kept");
        assert_eq!(
            (answer.bytes.as_slice(), answer.content_type.as_str()),
            (&b"slow down"[..], "text/plain")
        );
        assert!(failure.message.starts_with("status 429 Too Many Requests: "), "{}", failure.message);
    }
}
