//! A provider on a real socket that does what its script says and counts what truly happened.
//!
//! `POST` anywhere is a call: it takes the next step of the script ([`Reply::Act`] when that is over). `GET` anywhere lists
//! everything that happened, whatever the query asks for: some providers ignore a parameter that they do not know.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What it does with one call.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Acts, and answers 200 with its id.
    Act,
    /// Acts, and closes the connection without an answer.
    ActThenDrop,
    /// Acts, and says nothing for as long as the caller waits.
    ActThenHold,
    /// Acts, and answers 200 when the test [releases](Provider::release) it.
    ActThenWait,
    /// Acts, and answers with this status and body.
    ActThen(u16, Value),
    /// Does nothing, and answers with this status and body.
    Answer(u16, Value),
    /// Does nothing, and answers with this status and this header.
    AnswerWith(u16, &'static str, &'static str),
}

/// A call as it was on the wire.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Call {
    /// Every value of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Its idempotency key: the header's, else the body's.
    pub fn key(&self) -> String {
        match self.header("idempotency-key").first() {
            Some(key) => (*key).to_owned(),
            None => self.json()["idempotency_key"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

#[derive(Default)]
struct World {
    script: VecDeque<Reply>,
    calls: Vec<Call>,
    looks: usize,
    /// Key, body.
    effects: Vec<(String, Value)>,
    /// Answers stored under a key, where it deduplicates.
    stored: Option<BTreeMap<String, (u16, Value)>>,
}

/// A provider. Dropping it closes its connections.
pub struct Provider {
    address: SocketAddr,
    world: Arc<Mutex<World>>,
    arrived: watch::Receiver<usize>,
    released: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// How long a test waits for a call that never comes, before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

impl Provider {
    /// A provider that ignores keys: every call that acts is an effect.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::listening(World { script: script.into_iter().collect(), ..World::default() }).await
    }

    /// A provider that honours keys: it acts once for each, and stores and replays whatever it answered, failures too.
    pub async fn deduplicating(script: impl IntoIterator<Item = Reply>) -> Self {
        let script = script.into_iter().collect();
        Self::listening(World { script, stored: Some(BTreeMap::new()), ..World::default() }).await
    }

    async fn listening(world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tell, arrived) = watch::channel(0);
        let released = watch::Sender::new(false);
        let (world, tell) = (Arc::new(Mutex::new(world)), Arc::new(tell));
        let shared = Shared { world: world.clone(), tell, released: released.subscribe() };
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, world, arrived, released, task }
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// An address of it.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.world).calls.clone()
    }

    /// The keys under which it acted, in order: one twice is a doubled effect.
    pub fn effects(&self) -> Vec<String> {
        lock(&self.world).effects.iter().map(|(key, _)| key.clone()).collect()
    }

    /// How often it was asked what had happened.
    pub fn looks(&self) -> usize {
        lock(&self.world).looks
    }

    /// Answers the calls that wait, and those that come.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// Waits until that many calls have arrived and, where they act, have acted.
    pub async fn arrived(&self, calls: usize) {
        let mut arrived = self.arrived.clone();
        let there = arrived.wait_for(|n| *n >= calls);
        tokio::time::timeout(PATIENCE, there).await.expect("the calls did not come").expect("a provider");
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Shared {
    world: Arc<Mutex<World>>,
    tell: Arc<watch::Sender<usize>>,
    released: watch::Receiver<bool>,
}

/// One connection. `None`: it was closed, by either side.
async fn serve(mut stream: TcpStream, shared: Shared) -> Option<()> {
    let Shared { world, tell, mut released } = shared;
    loop {
        let call = read(&mut stream).await?;
        if call.head.starts_with("GET ") {
            let all = lock(&world).all_that_happened();
            write(&mut stream, 200, "x-none: 1", &all).await?;
            continue;
        }
        let (reply, answer) = lock(&world).take(call);
        tell.send_modify(|n| *n += 1);
        match reply {
            Reply::ActThenDrop => return None,
            Reply::ActThenHold => {
                // Until the caller hangs up.
                let _ = stream.read(&mut [0; 1]).await;
                return None;
            }
            Reply::ActThenWait => {
                released.wait_for(|released| *released).await.ok()?;
                write(&mut stream, answer.0, "x-none: 1", &answer.1).await?;
            }
            Reply::AnswerWith(_, name, value) => {
                write(&mut stream, answer.0, &format!("{name}: {value}"), &answer.1).await?;
            }
            _ => write(&mut stream, answer.0, "x-none: 1", &answer.1).await?,
        }
    }
}

impl World {
    /// What becomes of a call, in one step: nobody sees it half done.
    fn take(&mut self, call: Call) -> (Reply, (u16, Value)) {
        let (key, body) = (call.key(), call.json());
        self.calls.push(call);
        if let Some(stored) = self.stored.as_ref().and_then(|stored| stored.get(&key)) {
            let stored = stored.clone();
            // A replayed answer can be lost, too.
            let lost = matches!(self.script.front(), Some(Reply::ActThenDrop | Reply::ActThenHold));
            return (lost.then(|| self.script.pop_front()).flatten().unwrap_or(Reply::Act), stored);
        }
        let reply = self.script.pop_front().unwrap_or(Reply::Act);
        if !matches!(reply, Reply::Answer(..) | Reply::AnswerWith(..)) {
            self.effects.push((key.clone(), body));
        }
        let answer = match &reply {
            Reply::Act | Reply::ActThenDrop | Reply::ActThenHold | Reply::ActThenWait => {
                (200, json!({ "id": id(self.effects.len()) }))
            }
            Reply::ActThen(status, body) | Reply::Answer(status, body) => (*status, body.clone()),
            Reply::AnswerWith(status, ..) => (*status, json!({})),
        };
        if let Some(stored) = &mut self.stored {
            stored.insert(key, answer.clone());
        }
        (reply, answer)
    }

    fn all_that_happened(&mut self) -> Value {
        self.looks += 1;
        let entry = |(n, (key, body)): (usize, &(String, Value))| json!({ "id": id(n + 1), "key": key, "reference": body["reference"] });
        let data: Vec<Value> = self.effects.iter().enumerate().map(entry).collect();
        json!({ "data": data, "has_more": false })
    }
}

/// The id of the effect with that number.
fn id(number: usize) -> String {
    format!("ch_{number}")
}

async fn read(stream: &mut TcpStream) -> Option<Call> {
    let mut bytes = Vec::new();
    let head_len = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(head_len);
    let mut call = Call { head: String::from_utf8_lossy(&bytes).into_owned(), body: Vec::new() };
    let length = call.header("content-length").first().and_then(|n| n.parse().ok()).unwrap_or(0);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    call.body = body;
    Some(call)
}

async fn write(stream: &mut TcpStream, status: u16, header: &str, body: &Value) -> Option<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n{header}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}
