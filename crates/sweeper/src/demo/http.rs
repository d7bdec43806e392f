//! As much of HTTP/1.1 as the downstream needs: one request a connection, read by hand, since a server library answers properly, and this one is
//! here to do what it must not.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request of the demo has some hundred bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// A client that connects and says nothing must not hold a task.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads one; `None` when it did not arrive whole or is none.
    pub(super) async fn read(stream: &mut TcpStream) -> Option<Self> {
        tokio::time::timeout(READ_TIMEOUT, Self::read_now(stream)).await.ok()?
    }

    async fn read_now(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::with_capacity(1024);
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            more(stream, &mut bytes).await?;
        };
        let mut request = Self::head(std::str::from_utf8(&bytes[..head_end]).ok()?)?;
        let length: usize = request.header("content-length").unwrap_or("0").parse().ok()?;
        while bytes.len() < head_end + 4 + length {
            more(stream, &mut bytes).await?;
        }
        request.body = bytes[head_end + 4..head_end + 4 + length].to_vec();
        Some(request)
    }

    fn head(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self { method, path, headers, body: Vec::new() })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 4096];
    let read = stream.read(&mut chunk).await.ok()?;
    bytes.extend_from_slice(&chunk[..read]);
    (read > 0 && bytes.len() <= REQUEST_BYTES_MAX).then_some(())
}

/// Answers, and closes.
pub(super) async fn answer(stream: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} demo\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Waits until the client has closed the connection, or died.
pub(super) async fn gone(stream: &mut TcpStream) {
    let mut byte = [0; 64];
    while matches!(stream.read(&mut byte).await, Ok(1..)) {}
}
