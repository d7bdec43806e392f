//! A server that does what its script says, and remembers what it was sent.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server does next on a connection. After the last act the connection stays open, and silent.
pub(super) enum Act {
    /// Reads a request and answers with these bytes.
    Answer(Vec<u8>),
    /// Reads a request, answers with these bytes, and closes.
    AnswerThenClose(Vec<u8>),
    /// Reads a request, answers with these bytes, and goes on with rubbish until nobody listens.
    AnswerThenRubbish(Vec<u8>),
    /// Waits until bytes have arrived, reads none, and resets.
    ResetUnread,
    /// Reads a request and resets.
    Reset,
    /// Reads whatever arrives first, which need not be a request, answers with these bytes, and closes.
    Blurt(Vec<u8>),
}

/// A request as it was on the wire.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Every value of a header.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

/// What the server saw.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) connections: usize,
    pub(super) requests: Vec<Request>,
}

pub(super) struct Server {
    address: SocketAddr,
    task: JoinHandle<Log>,
}

const STOP: &[u8; 4] = b"STOP";

impl Server {
    /// Listens on this machine. A script for each connection, in the order in which they come; further ones are
    /// counted and closed.
    pub(super) async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { address, task: tokio::spawn(serve(listener, scripts)) }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Ends it. Connections are accepted in the order in which they were made, so whatever was sent before is in the
    /// log.
    pub(super) async fn end(self) -> Log {
        let mut stop = TcpStream::connect(self.address).await.expect("the server listens");
        stop.write_all(STOP).await.expect("written");
        self.task.await.expect("the server did not panic")
    }
}

/// A whole answer.
pub(super) fn reply(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = format!("HTTP/1.1 {status} X\r\n").into_bytes();
    for (name, value) in headers {
        out.extend(format!("{name}: {value}\r\n").bytes());
    }
    if !matches!(status, 100..=199 | 204 | 304) {
        out.extend(format!("content-length: {}\r\n", body.len()).bytes());
    }
    out.extend(b"\r\n");
    out.extend(body);
    out
}

async fn serve(listener: TcpListener, scripts: Vec<Vec<Act>>) -> Log {
    let (mut log, mut open) = (Log::default(), Vec::new());
    let mut scripts = scripts.into_iter();
    loop {
        let (stream, _) = listener.accept().await.expect("accepted");
        let mut first = [0];
        let arrived = stream.peek(&mut first).await.unwrap_or(0);
        if arrived == 1 && first[0] == STOP[0] {
            return log;
        }
        log.connections += 1;
        open.extend(play(stream, scripts.next(), &mut log).await);
    }
}

/// The connection, where it is to stay open.
async fn play(mut stream: TcpStream, script: Option<Vec<Act>>, log: &mut Log) -> Option<TcpStream> {
    for act in script? {
        match act {
            Act::Blurt(bytes) => {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(&bytes).await;
                return None;
            }
            Act::ResetUnread => {
                stream.set_zero_linger().expect("set");
                return None;
            }
            Act::Answer(bytes) => {
                log.requests.push(read_request(&mut stream).await?);
                stream.write_all(&bytes).await.ok()?;
            }
            Act::AnswerThenClose(bytes) => {
                log.requests.push(read_request(&mut stream).await?);
                let _ = stream.write_all(&bytes).await;
                return None;
            }
            Act::AnswerThenRubbish(bytes) => {
                log.requests.push(read_request(&mut stream).await?);
                stream.write_all(&bytes).await.ok()?;
                while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
                return None;
            }
            Act::Reset => {
                log.requests.push(read_request(&mut stream).await?);
                stream.set_zero_linger().expect("set");
                return None;
            }
        }
    }
    Some(stream)
}

/// Head and body, by `content-length`; `None` where the other side closes first.
async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(end + 4);
    let mut request = Request { head: String::from_utf8(bytes).expect("a head of text"), body: Vec::new() };
    let len = request.header("content-length").first().map_or(0, |len| len.parse().expect("a length"));
    while body.len() < len {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    request.body = body;
    Some(request)
}
