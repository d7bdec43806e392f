//! Probes: what they find, and that they cause nothing.

use earmark_claim::state::Finding;

use super::*;
use earmark_claim::Look;

use crate::http::{HttpProbe, Items, On, Subject};

/// One look at a server with this script.
async fn look(
    act: Act,
    provider_ref: Option<&str>,
    write: impl FnOnce(&Server) -> Vec<HttpProbe>,
) -> (Look, Log) {
    let server = Server::start(vec![vec![act]]).await;
    let effect = effect(
        HttpOptions::new().connect_timeout(Duration::from_secs(5)).look_timeout(PATIENCE),
        &[&server.origin()],
    );
    let call = write(&server).into_iter().fold(HttpCall::post(&server.url("/charges")), HttpCall::probe);
    let (key, reference) = names("m1");
    let subject = Subject { idempotency_key: &key, reference: &reference, provider_ref };
    let look = effect.look_with_note(&subject, &frozen(&call)).await;
    (look, server.end().await)
}

fn by_list(server: &Server) -> Vec<HttpProbe> {
    let mine = Items::at("/data").with("/metadata/reference", "{reference}").id("/id");
    vec![
        HttpProbe::get(&server.url("/charges?reference={reference}"))
            .header("X-Key", "{idempotency_key}")
            .done_items(On::status(200), mine)
            .not_done(On::status(200).json("/has_more", false)),
    ]
}

fn ids(ids: &[&str]) -> Finding {
    Finding::Done { ids: ids.iter().map(|id| (*id).to_owned()).collect() }
}

#[tokio::test]
async fn a_list_yields_every_match_of_ours_and_of_nobody_else() {
    let reference = names("m1").1;
    let entry =
        |id: &str, reference: &str| format!(r#"{{"id":"{id}","metadata":{{"reference":"{reference}"}}}}"#);
    let list =
        |entries: &[String], more: bool| format!(r#"{{"data":[{}],"has_more":{more}}}"#, entries.join(","));
    let (mine, also, other) =
        (entry("ch_1", reference.as_str()), entry("ch_2", reference.as_str()), entry("ch_9", "SOMEBODY"));
    for (body, finding) in [
        (list(&[other.clone(), mine.clone()], true), ids(&["ch_1"])),
        (list(&[mine.clone(), also, mine], false), ids(&["ch_1", "ch_2"])),
        // A provider that ignores the filter returns everything; that is no match.
        (list(&[other], false), Finding::NotDone),
        (list(&[], false), Finding::NotDone),
        // Not the last page.
        (list(&[], true), Finding::CannotTell),
        // No list at all.
        (r#"{"has_more":false}"#.to_owned(), Finding::CannotTell),
        ("<html>".to_owned(), Finding::CannotTell),
    ] {
        let (look, log) = look(Act::Answer(reply(200, &[], &body)), None, by_list).await;
        assert_eq!(look.finding, finding, "{body}");
        assert_eq!(log.requests.len(), 1);
        let request = &log.requests[0];
        assert!(request.head.starts_with(&format!("GET /charges?reference={reference} HTTP/1.1\r\n")));
        assert_eq!(request.header("x-key"), [names("m1").0.as_str()]);
        assert_eq!(look.answer.expect("kept").bytes, body.as_bytes());
        assert!(
            look.note.contains("GET http://127.0.0.1") && !look.note.contains("reference="),
            "{}",
            look.note
        );
    }
}

#[tokio::test]
async fn everything_else_cannot_tell() {
    for act in [
        Act::Answer(reply(404, &[], r#"{"data":[],"has_more":false}"#)),
        Act::Answer(reply(401, &[], "")),
        Act::Answer(reply(500, &[], "")),
        Act::Answer(reply(302, &[("location", "/elsewhere")], "")),
        Act::Answer(reply(202, &[], "")),
        Act::Reset,
        Act::ResetUnread,
        Act::AnswerThenClose(
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"data\":[],\"has_more\":false}".to_vec(),
        ),
        Act::AnswerThenRubbish(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    ] {
        let (look, log) = look(act, None, by_list).await;
        assert_eq!(look.finding, Finding::CannotTell, "{}", look.note);
        assert_eq!(log.connections, 1);
        assert!(!look.note.is_empty());
    }
}

#[tokio::test]
async fn a_rule_that_an_unread_body_might_have_fitted_stops_the_table() {
    let by_body = |server: &Server| {
        let probe = HttpProbe::get(&server.url("/"));
        vec![probe.done_without_id(On::status(200).json("/status", "ok")).not_done(On::status(200))]
    };
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"status\":".to_vec();
    for (act, finding) in [
        (Act::AnswerThenClose(half), Finding::CannotTell),
        (Act::Answer(reply(200, &[], r#"{"status":"ok"}"#)), ids(&[])),
        (Act::Answer(reply(200, &[], r#"{"status":"none"}"#)), Finding::NotDone),
    ] {
        assert_eq!(look(act, None, by_body).await.0.finding, finding);
    }
}

#[tokio::test]
async fn the_first_probe_that_can_be_filled_in_is_asked() {
    let two = |server: &Server| {
        let by_id = HttpProbe::get(&server.url("/charges/{provider_ref}"))
            .done(On::status(200).json("/status", "succeeded"), "/id")
            .refused_for_good(On::status(200).json("/status", "failed"))
            .not_done(On::status(404));
        [vec![by_id], by_list(server)].concat()
    };
    for (answer, provider_ref, path, finding) in [
        (
            reply(200, &[], r#"{"id":"c/1","status":"succeeded"}"#),
            Some("c/1"),
            "/charges/c%2F1",
            ids(&["c/1"]),
        ),
        (reply(200, &[], r#"{"status":"succeeded"}"#), Some("c1"), "/charges/c1", Finding::CannotTell),
        (
            reply(200, &[], r#"{"status":"failed"}"#),
            Some("c1"),
            "/charges/c1",
            Finding::Refused { covers_all: true },
        ),
        (reply(404, &[], ""), Some("c1"), "/charges/c1", Finding::NotDone),
        (reply(200, &[], r#"{"data":[],"has_more":false}"#), None, "/charges?reference=", Finding::NotDone),
    ] {
        let (look, log) = look(Act::Answer(answer), provider_ref, two).await;
        assert_eq!(look.finding, finding);
        assert!(log.requests[0].head.starts_with(&format!("GET {path}")), "{}", log.requests[0].head);
    }
}

#[tokio::test]
async fn an_id_that_would_walk_the_path_is_not_asked_about() {
    let by_id = |server: &Server| {
        vec![HttpProbe::get(&server.url("/charges/{provider_ref}")).done_without_id(On::status(200))]
    };
    for id in ["..", "."] {
        let (look, log) = look(Act::Answer(reply(200, &[], "")), Some(id), by_id).await;
        assert_eq!((look.finding, log.connections), (Finding::CannotTell, 0));
    }
    let (look, log) = look(Act::Answer(reply(200, &[], "")), None, by_id).await;
    assert_eq!((look.finding, log.connections), (Finding::CannotTell, 0));
}

#[tokio::test]
async fn a_search_posts_what_it_looks_for() {
    let search = |server: &Server| {
        let body = serde_json::json!({"query": "ref:{reference}"});
        vec![
            HttpProbe::search(&server.url("/search"), &body)
                .done(On::status(200), "/hits/*/id")
                .not_done(On::status(200).json("/hits", serde_json::json!([]))),
        ]
    };
    for (body, finding) in [
        (r#"{"hits":[{"id":"a"},{"id":7}]}"#, ids(&["a", "7"])),
        (r#"{"hits":[]}"#, Finding::NotDone),
        (r#"{"hits":[{}]}"#, Finding::CannotTell),
        ("{}", Finding::CannotTell),
    ] {
        let (look, log) = look(Act::Answer(reply(200, &[], body)), None, search).await;
        assert_eq!(look.finding, finding, "{body}");
        assert_eq!(log.requests[0].body, format!("{{\"query\":\"ref:{}\"}}", names("m1").1).as_bytes());
    }
}

#[tokio::test]
async fn a_look_obeys_the_allowed_origins() {
    let elsewhere = Server::start(vec![]).await;
    let probe = HttpProbe::get(&elsewhere.url("/")).done_without_id(On::status(200));
    let (look, _) = look(Act::Reset, None, |_| vec![probe]).await;
    assert_eq!(look.finding, Finding::CannotTell);
    assert!(look.note.contains("not allowed"), "{}", look.note);
    assert_eq!(elsewhere.end().await.connections, 0);
}
