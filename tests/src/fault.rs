//! A TCP proxy that fails on purpose: it cuts a connection before a request arrives, or after the server has answered and
//! before the client hears of it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use url::Url;

use crate::EmptyDb;

/// What is lost when a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The client's bytes: the server never sees them.
    Request,
    /// The server's bytes: it has done what it was asked, and the client never hears of it.
    Claimed,
}

/// A proxy in front of a test's server.
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    down: watch::Sender<bool>,
    paused: watch::Sender<bool>,
}

struct Shared {
    server: SocketAddr,
    armed: Mutex<Option<Armed>>,
    reached: Notify,
    released: Notify,
    /// Connections that pass.
    live: AtomicUsize,
    /// Requests that came, whether or not they were let through; no pings.
    requests: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Armed {
    lost: Lost,
    /// How many of that kind still pass.
    pass: u32,
    /// Whether the cut waits to be released.
    held: bool,
    /// Only what contains this counts.
    containing: &'static str,
}

impl Proxy {
    /// A proxy in front of the server of that database, which must have one.
    pub async fn new(db: &EmptyDb) -> Self {
        let mut url = Url::parse(db.url()).expect("a URL");
        let host = url.host_str().expect("a server").to_owned();
        let port = url.port().expect("the port of a test server");
        let server =
            tokio::net::lookup_host((host, port)).await.expect("an address").next().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        url.set_host(Some("127.0.0.1")).expect("a host");
        url.set_port(Some(listener.local_addr().expect("an address").port())).expect("a port");
        let (down, is_down) = watch::channel(false);
        let (paused, is_paused) = watch::channel(false);
        let shared = Arc::new(Shared {
            server,
            armed: Mutex::new(None),
            reached: Notify::new(),
            released: Notify::new(),
            live: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        });
        let passing = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (shared, is_down, is_paused) = (passing.clone(), is_down.clone(), is_paused.clone());
                tokio::spawn(async move {
                    shared.live.fetch_add(1, Ordering::SeqCst);
                    let _ = shared.pass(client, is_down, is_paused).await;
                    shared.live.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { shared, url: url.into(), down, paused }
    }

    /// For the code under test to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts a connection, once: after `pass` requests or answers have gone through, the next one is lost.
    pub fn arm(&self, lost: Lost, pass: u32) {
        *self.shared.armed() = Some(Armed { lost, pass, held: false, containing: "" });
    }

    /// The same, but when it comes to it, waits for [`release`](Proxy::release) before it cuts.
    pub fn arm_held(&self, lost: Lost, pass: u32) {
        self.arm_held_at("", lost, pass);
    }

    /// The same, counting only what contains a text.
    pub fn arm_held_at(&self, containing: &'static str, lost: Lost, pass: u32) {
        *self.shared.armed() = Some(Armed { lost, pass, held: true, containing });
    }

    /// Waits until a held cut has been reached.
    pub async fn reached(&self) {
        crate::claims::soon("the cut", self.shared.reached.notified()).await;
    }

    /// Lets a held cut happen.
    pub fn release(&self) {
        self.shared.released.notify_one();
    }

    /// Takes an arming back; whether it had cut.
    pub fn disarm(&self) -> bool {
        self.shared.armed().take().is_none()
    }

    /// Cuts every connection and refuses new ones, or lets them through again.
    pub async fn set_down(&self, down: bool) {
        self.down.send_replace(down);
        if down {
            let cut = async || self.shared.live.load(Ordering::SeqCst) == 0;
            crate::claims::eventually("every connection is cut", cut).await;
        }
    }

    /// How many requests came so far, but for pings: each is what a client sent before it waited for an answer. (A very large one counts
    /// for several.)
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Holds up every request, or lets them through again.
    pub fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }
}

impl Shared {
    fn armed(&self) -> std::sync::MutexGuard<'_, Option<Armed>> {
        self.armed.lock().expect("no panic under the lock")
    }

    /// Whether this one is lost.
    fn strikes(&self, what: Lost, bytes: &[u8]) -> Option<Armed> {
        let mut armed = self.armed();
        let text = armed.as_ref().map_or("", |a| a.containing).as_bytes();
        if !text.is_empty() && !bytes.windows(text.len()).any(|w| w == text) {
            return None;
        }
        match armed.as_mut() {
            Some(a) if a.lost == what && a.pass == 0 => armed.take(),
            Some(a) if a.lost == what => {
                a.pass -= 1;
                None
            }
            _ => None,
        }
    }

    async fn strike(&self, armed: Armed) -> io::Error {
        if armed.held {
            self.reached.notify_one();
            self.released.notified().await;
        }
        io::ErrorKind::ConnectionReset.into()
    }

    async fn pass(
        &self,
        mut client: TcpStream,
        mut is_down: watch::Receiver<bool>,
        mut is_paused: watch::Receiver<bool>,
    ) -> io::Result<()> {
        if *is_down.borrow() {
            return Ok(());
        }
        let mut server = TcpStream::connect(self.server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut from_server) = (vec![0; 65536], vec![0; 65536]);
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    // A ping, which the driver's pool sends whenever a connection comes back to it, has no more.
                    self.requests.fetch_add(usize::from(read > 5), Ordering::SeqCst);
                    wait_for(&mut is_paused, false).await;
                    if let Some(armed) = self.strikes(Lost::Request, &from_client[..read]) {
                        return Err(self.strike(armed).await);
                    }
                    server.write_all(&from_client[..read]).await?;
                }
                read = server.read(&mut from_server) => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    if let Some(armed) = self.strikes(Lost::Claimed, &from_server[..read]) {
                        return Err(self.strike(armed).await);
                    }
                    client.write_all(&from_server[..read]).await?;
                }
                () = wait_for(&mut is_down, true) => return Ok(()),
            }
        }
    }
}

async fn wait_for(flag: &mut watch::Receiver<bool>, wanted: bool) {
    let _ = flag.wait_for(|value| *value == wanted).await;
}
