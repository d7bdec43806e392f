//! Every row of the general table, and of an effect's own, over the wire.

use super::*;
use crate::http::{Answers, On};

#[tokio::test]
async fn every_listed_status() {
    for (statuses, expected) in [
        (&[200u16, 201, 203, 204, 205, 206][..], "done"),
        (&[202], "Unknown accepted"),
        (&[300, 301, 302, 303, 304, 307, 308], "Unknown needs_mapping"),
        (&[401, 403, 404, 405, 407], "NotSent operator"),
        (&[400, 402, 410, 413, 415, 422], "Unknown http_4xx"),
        (&[408], "Unknown http_408"),
        (&[409], "Unknown http_409"),
        (&[421], "NotSent misdirected"),
        (&[425], "NotSent too_early"),
        (&[429], "Unknown http_429"),
        (&[500, 502, 504, 522], "Unknown http_5xx"),
        (&[503], "Unknown http_503"),
        (&[700], "Unknown http_other"),
    ] {
        for &status in statuses {
            let (outcome, log) = one_call(vec![Act::Answer(reply(status, &[], ""))], |call| call).await;
            assert_eq!(short(&outcome), expected, "{status}");
            assert_eq!((log.connections, log.requests.len()), (1, 1), "{status}");
        }
    }
}

#[tokio::test]
async fn interim_answers_are_passed_over_and_a_switch_of_protocols_is_unknown() {
    let interim = [reply(100, &[], ""), reply(103, &[], ""), reply(200, &[], "{}")].concat();
    assert_eq!(short(&one_call(vec![Act::Answer(interim)], |call| call).await.0), "done");
    let switch = reply(101, &[("connection", "upgrade"), ("upgrade", "x")], "");
    assert!(short(&one_call(vec![Act::Answer(switch)], |call| call).await.0).starts_with("Unknown"));
    // Nothing but an interim answer.
    let (outcome, _) = one_call(vec![Act::AnswerThenClose(reply(100, &[], ""))], |call| call).await;
    assert_eq!(short(&outcome), "Unknown no_answer");
}

#[tokio::test]
async fn no_redirect_is_followed() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = Server::start(vec![]).await;
        let location = elsewhere.url("/");
        let (outcome, log) =
            one_call(vec![Act::Answer(reply(status, &[("location", &location)], ""))], |call| call).await;
        assert_eq!(short(&outcome), "Unknown needs_mapping");
        assert_eq!(log.requests.len(), 1);
        assert_eq!(elsewhere.end().await.connections, 0);
    }
}

#[tokio::test]
async fn the_effects_own_table_comes_first() {
    let answers = || {
        Answers::new()
            .provider_id("/id")
            .refused_and_stored(On::status(402).json("/error/code", "card_declined"), "card_declined")
            .refused(On::status(400), "invalid")
            .refused(On::status(200).json_present("/error"), "in_band")
            .done_with_id(On::status(409).json_present("/conflict"), "/conflict")
            .not_sent(On::status(429), "rate_limited")
            .not_sent(On::status(503).header("transient-error", "true"), "transient")
    };
    for (answer, expected) in [
        (
            reply(402, &[], r#"{"error":{"code":"card_declined"}}"#),
            "Refused { covers_earlier: true } card_declined",
        ),
        (reply(402, &[], r#"{"error":{"code":"lost"}}"#), "Unknown http_4xx"),
        (reply(400, &[], ""), "Refused { covers_earlier: false } invalid"),
        // An error object under a 200 is what the effect's table says it is, never a success by its status.
        (reply(200, &[], r#"{"error":{"code":"x"}}"#), "Refused { covers_earlier: false } in_band"),
        (reply(200, &[], r#"{"id":"ch_1"}"#), "done"),
        (reply(409, &[], r#"{"conflict":"PM1"}"#), "done"),
        // In use by an attempt of our own.
        (reply(409, &[], r#"{"code":"idempotency_key_in_use"}"#), "Unknown http_409"),
        (reply(429, &[], ""), "NotSent rate_limited"),
        (reply(503, &[("Transient-Error", "true")], ""), "NotSent transient"),
        (reply(503, &[], ""), "Unknown http_503"),
        (reply(500, &[], r#"{"id":"ch_1"}"#), "Unknown http_5xx"),
        (reply(504, &[], ""), "Unknown http_5xx"),
        (reply(204, &[], ""), "done"),
    ] {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (outcome, _) = one_call(vec![Act::Answer(answer)], |call| call.answers(answers())).await;
        assert_eq!(short(&outcome), expected, "{text}");
    }
}

#[tokio::test]
async fn accepted_is_in_doubt_with_the_providers_id_unless_the_table_says_that_it_is_enough() {
    let accepted = || vec![Act::Answer(reply(202, &[], r#"{"id":"po_1"}"#))];
    let (outcome, _) = one_call(accepted(), |call| call.answers(Answers::new().provider_id("/id"))).await;
    assert_eq!(short(&outcome), "Unknown accepted");
    assert_eq!(outcome.expect_err("open").provider_ref.as_deref(), Some("po_1"));
    let (outcome, _) =
        one_call(accepted(), |call| call.answers(Answers::new().done_with_id(On::status(202), "/id"))).await;
    assert_eq!(outcome.expect("done").provider_ref.as_deref(), Some("po_1"));
}

#[tokio::test]
async fn retry_after_is_obeyed_in_both_forms_whatever_the_verdict() {
    let date = [("Retry-After", "Sun, 06 Nov 1994 09:49:37 GMT"), ("Date", "Sun, 06 Nov 1994 08:49:37 GMT")];
    for (status, headers, write) in [
        (429, &[("Retry-After", "3600")][..], Answers::new()),
        (429, &date[..], Answers::new()),
        (429, &date[..], Answers::new().not_sent(On::status(429), "rate_limited")),
        (503, &[("Retry-After", "3600")][..], Answers::new()),
        (401, &[("Retry-After", "3600")][..], Answers::new()),
    ] {
        let (outcome, _) =
            one_call(vec![Act::Answer(reply(status, headers, ""))], |call| call.answers(write)).await;
        assert_eq!(outcome.expect_err("failed").retry_after, Some(Duration::from_secs(3600)), "{status}");
    }
}
