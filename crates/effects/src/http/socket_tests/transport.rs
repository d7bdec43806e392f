//! No answer, or not a whole one.

use earmark_claim::Verdict;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::*;
use crate::http::{Answers, On};

const UNREAD: fn(HttpCall) -> HttpCall = |call| call;

/// Time for what must time out: enough for a busy machine to do the rest.
const SHORT: Duration = Duration::from_millis(1500);

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let origin = format!("http://{closed}");
    let effect = effect(HttpOptions::new(), &[&origin]);
    let outcome = send(&effect, &HttpCall::post(&format!("{origin}/")), PATIENCE).await;
    assert_eq!(short(&outcome), "NotSent connect");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_sent_nothing() {
    // RFC 2606 §2: no name under "invalid" ever exists.
    let effect = effect(HttpOptions::new(), &["https://earmark.invalid"]);
    let outcome = send(&effect, &HttpCall::post("https://earmark.invalid/"), PATIENCE).await;
    assert_eq!(short(&outcome), "NotSent dns");
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_in_time_sent_nothing() {
    // A listener that accepts nothing, with room for one: once that is taken, the kernel answers nobody.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let listener = socket.listen(1).expect("listening");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream);
        assert!(waiting.len() < 100, "this kernel's listener is never full");
    }
    let origin = format!("http://{address}");
    let effect = effect(HttpOptions::new().connect_timeout(Duration::from_millis(200)), &[&origin]);
    let outcome = send(&effect, &HttpCall::post(&format!("{origin}/")), PATIENCE).await;
    assert_eq!(short(&outcome), "NotSent connect_timeout");
}

#[tokio::test]
async fn whatever_goes_wrong_once_bytes_have_left_is_unknown() {
    for (act, requests) in [
        (Act::ResetUnread, 0),
        (Act::Reset, 1),
        // hyper calls this "incomplete message", which some take for "not sent". The server has read it all.
        (Act::AnswerThenClose(Vec::new()), 1),
        (Act::AnswerThenClose(b"HTTP/1.1 2".to_vec()), 1),
        (Act::AnswerThenClose(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()), 1),
    ] {
        let (outcome, log) = one_call(vec![act], UNREAD).await;
        assert_eq!(short(&outcome), "Unknown no_answer");
        assert_eq!((log.connections, log.requests.len()), (1, requests));
    }
}

#[tokio::test]
async fn no_answer_in_time_is_unknown() {
    let (outcome, log) = one_call_within(SHORT, vec![Act::Answer(Vec::new())], UNREAD).await;
    assert_eq!(short(&outcome), "Unknown timeout");
    assert_eq!(log.requests.len(), 1);
}

#[tokio::test]
async fn one_attempt_is_one_request_on_a_connection_that_was_used_before() {
    // The connection answers one call, stays, and is reset by the server on the next.
    let server = Server::start(vec![vec![Act::Answer(reply(200, &[], "{}")), Act::Reset]]).await;
    let effect = effect(HttpOptions::new().idle_connections(1), &[&server.origin()]);
    let call = HttpCall::post(&server.url("/")).json("x");
    assert_eq!(short(&send(&effect, &call, PATIENCE).await), "done");
    assert_eq!(short(&send(&effect, &call, PATIENCE).await), "Unknown no_answer");
    let log = server.end().await;
    assert_eq!((log.connections, log.requests.len()), (1, 2));
}

#[tokio::test]
async fn a_connection_that_is_closed_just_as_the_request_goes_out_never_yields_two() {
    // Who comes first is up to the scheduler: over many rounds, each order comes up.
    for round in 0..100 {
        let close = vec![Act::AnswerThenClose(reply(200, &[], "{}"))];
        let server = Server::start(vec![close, vec![Act::Answer(reply(200, &[], "{}"))]]).await;
        let effect = effect(HttpOptions::new().idle_connections(1), &[&server.origin()]);
        let call = HttpCall::post(&server.url("/")).json("x");
        assert_eq!(short(&send(&effect, &call, PATIENCE).await), "done");
        for _ in 0..round % 8 {
            tokio::task::yield_now().await;
        }
        let second = send(&effect, &call, PATIENCE).await;
        let sent = server.end().await.requests.len() - 1;
        match &second {
            Ok(_) => assert_eq!(sent, 1),
            Err(failure) if failure.verdict == Verdict::NotSent => assert_eq!(sent, 0),
            Err(_) => assert!(sent <= 1, "{second:?}"),
        }
    }
}

#[tokio::test]
async fn by_default_no_connection_is_used_twice() {
    let answer = || vec![Act::Answer(reply(200, &[], "{}"))];
    let server = Server::start(vec![answer(), answer()]).await;
    let effect = effect(HttpOptions::new(), &[&server.origin()]);
    for _ in 0..2 {
        assert_eq!(short(&send(&effect, &HttpCall::post(&server.url("/")), PATIENCE).await), "done");
    }
    assert_eq!(server.end().await.connections, 2);
}

/// I12: the outcome does not depend on the body.
#[tokio::test]
async fn it_happened_whatever_becomes_of_the_body() {
    let head = |rest: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{rest}\r\n\r\n").into_bytes()
    };
    let with = |rest: &str, body: &[u8]| [head(rest), body.to_vec()].concat();
    for (what, act) in [
        ("truncated", Act::AnswerThenClose(with("content-length: 100", b"{\"id\":"))),
        ("truncated chunk", Act::AnswerThenClose(with("transfer-encoding: chunked", b"ff\r\n{"))),
        ("broken chunk", Act::AnswerThenClose(with("transfer-encoding: chunked", b"zz\r\n{"))),
        ("not UTF-8", Act::Answer(with("content-length: 2", &[0xff, 0xfe]))),
        ("too long", Act::Answer(with("content-length: 200000", &[b'x'; 200_000]))),
        ("endless", Act::AnswerThenRubbish(head("connection: close"))),
        ("not what it says", Act::Answer(with("content-encoding: gzip\r\ncontent-length: 2", b"{}"))),
    ] {
        let (outcome, log) =
            one_call(vec![act], |call| call.answers(Answers::new().provider_id("/id"))).await;
        let receipt = outcome.unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        let answer = receipt.answer.expect("an answer");
        assert!(answer.bytes.len() <= earmark_claim::ANSWER_BYTES_MAX, "{what}");
        assert_eq!(answer.content_type, "application/json", "{what}");
        assert_eq!(log.requests.len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_body_past_the_timeout_is_left_behind() {
    let slow = b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{".to_vec();
    let (outcome, _) = one_call_within(SHORT, vec![Act::Answer(slow.clone())], UNREAD).await;
    assert_eq!(outcome.expect("done").answer.expect("an answer").bytes, b"{");
    // Where the table decides by what is missing, nobody knows.
    let in_band = Answers::new().refused(On::status(201).json_present("/error"), "in_band");
    let (outcome, _) = one_call_within(SHORT, vec![Act::Answer(slow)], |call| call.answers(in_band)).await;
    assert_eq!(short(&outcome), "Unknown body_unread");
}

#[tokio::test]
async fn length_and_digest_are_of_what_was_received() {
    let body = vec![b'x'; 200_000];
    let (outcome, _) = one_call(vec![Act::Answer(reply(200, &[], &body))], UNREAD).await;
    let answer = outcome.expect("done").answer.expect("an answer");
    let whole = earmark_claim::Answer::new("", body);
    assert_eq!((answer.len, answer.digest, answer.bytes), (whole.len, whole.digest, whole.bytes));
}

#[tokio::test]
async fn a_failure_does_not_repeat_the_address() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let origin = format!("http://{closed}");
    let effect = effect(HttpOptions::new(), &[&origin]);
    let failure =
        send(&effect, &HttpCall::post(&format!("{origin}/?mail=a@b")), PATIENCE).await.expect_err("failed");
    assert_eq!(failure.verdict, Verdict::NotSent);
    assert!(!failure.message.contains("mail=a"), "{failure:?}");
}
