//! HTTP/2, frame by frame: what RFC 9113 §8.7 promises, and what it does not.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const HEADERS: u8 = 1;
const REFUSED_STREAM: u32 = 7;

fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&len[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

fn reset(code: u32) -> Vec<u8> {
    frame(3, 1, &code.to_be_bytes())
}

fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(7, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Takes one request on stream 1, whole or not, says `last_words` and closes. Counts requests.
async fn serve(listener: TcpListener, last_words: Vec<u8>) -> usize {
    let mut requests = 0;
    loop {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        let mut preface = [0; 4];
        stream.read_exact(&mut preface).await.expect("a preface");
        if &preface == b"STOP" {
            return requests;
        }
        stream.read_exact(&mut [0; 20]).await.expect("the rest of the preface");
        stream.write_all(&frame(4, 0, &[])).await.expect("settings");
        while next_kind(&mut stream).await != HEADERS {}
        requests += 1;
        stream.write_all(&last_words).await.expect("last words");
        stream.shutdown().await.expect("closed");
        // To the end, so that closing is no reset.
        while stream.read(&mut [0; 1024]).await.is_ok_and(|n| n > 0) {}
    }
}

async fn next_kind(stream: &mut TcpStream) -> u8 {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.expect("a frame");
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; len as usize]).await.expect("a payload");
    head[3]
}

#[tokio::test]
async fn only_what_the_rfc_promises_is_not_sent_and_nothing_is_sent_twice() {
    for (what, last_words, expected) in [
        ("REFUSED_STREAM", reset(REFUSED_STREAM), "NotSent refused_stream"),
        ("CANCEL", reset(8), "Unknown no_answer"),
        ("INTERNAL_ERROR", reset(2), "Unknown no_answer"),
        ("GOAWAY below our stream", go_away(0, 0), "NotSent go_away"),
        ("GOAWAY with our stream", go_away(1, 0), "Unknown no_answer"),
        ("GOAWAY with our stream, an error", go_away(1, 2), "Unknown no_answer"),
        ("nothing", Vec::new(), "Unknown no_answer"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let origin = format!("http://{address}");
        let served = tokio::spawn(serve(listener, last_words));
        let options = HttpOptions::new().customise(reqwest::ClientBuilder::http2_prior_knowledge);
        let call = HttpCall::post(&format!("{origin}/")).json("x");
        let outcome = send(&effect(options, &[&origin]), &call, PATIENCE).await;
        assert_eq!(short(&outcome), expected, "{what}: {outcome:?}");
        TcpStream::connect(address).await.expect("connected").write_all(b"STOP").await.expect("written");
        assert_eq!(served.await.expect("served"), 1, "{what}");
    }
}
