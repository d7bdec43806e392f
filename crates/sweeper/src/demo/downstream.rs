//! The downstream process: a provider that deduplicates by idempotency key, and whose answers get lost.
//!
//! It works on whatever has arrived, whether or not the client is still there, as providers do; and it knows nothing of claims.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::faults::{Fate, Fault, LATE, fate};
use super::http::{self, Request};
use super::ledger::{Effect, Ledger};
use super::messages::{Kind, Message, MessageId};
use super::wire::{Account, Asked, DownstreamSetup, Inbox, Tally, Told, tell};

/// The body of a request.
#[derive(Deserialize)]
struct Order {
    to: String,
    amount_minor: Option<i64>,
    currency: Option<String>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    message: String,
    tenant: String,
    kind: Kind,
    reference: Option<String>,
}

struct Downstream {
    seed: u64,
    ledger: Mutex<Ledger>,
    seen: Mutex<Seen>,
    requests: AtomicU64,
    /// Requests that still may act.
    working: watch::Sender<usize>,
}

#[derive(Default)]
struct Seen {
    arrivals: HashMap<(Account, MessageId), u32>,
    /// Open requests, by number.
    open: HashMap<u64, String>,
    /// Open when their process was about to be killed.
    noted: HashMap<u64, String>,
    cut: HashSet<String>,
    /// Requests that acted, and how they ended.
    acted: HashMap<(Account, MessageId), Vec<(u64, End)>>,
    tally: Tally,
}

/// How a request ended for its client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    /// With nothing, or with a 500.
    Lost,
    /// The client was killed over it.
    Killed,
}

/// Runs until the parent is gone.
pub(super) async fn run() -> anyhow::Result<()> {
    let mut inbox = Inbox::open();
    let setup: DownstreamSetup = inbox.setup().await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let downstream = Arc::new(Downstream {
        seed: setup.seed,
        ledger: Mutex::new(Ledger::create(&setup.ledger)?),
        seen: Mutex::default(),
        requests: AtomicU64::new(0),
        working: watch::channel(0).0,
    });
    tell(&Told::Listening { port: listener.local_addr()?.port() });
    let accepting = downstream.clone();
    tokio::spawn(async move {
        // An error here is of one connection: its client sees it.
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        }
    });
    while let Some(asked) = inbox.next().await? {
        match asked {
            Asked::Killing(process) => downstream.note(process),
            Asked::Tally => {
                let _ = downstream.working.subscribe().wait_for(|working| *working == 0).await;
                tell(&Told::Tally(downstream.tally()));
            }
        }
    }
    Ok(())
}

impl Downstream {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let Some(request) = Request::read(&mut stream).await else { return };
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let account = match path.split('/').nth(1) {
            Some("earmark") => Account::Earmark,
            Some("control") => Account::Control,
            _ => return self.say(&mut stream, 404, r#"{"error":"no such account"}"#).await,
        };
        if request.method == "GET" {
            let found = self.look(account, query.strip_prefix("reference=").unwrap_or_default());
            return self.say(&mut stream, 200, &found).await;
        }
        let Ok(order) = serde_json::from_slice::<Order>(&request.body) else {
            return self.say(&mut stream, 400, r#"{"error":"unreadable body"}"#).await;
        };
        self.perform(&mut stream, account, &request, order).await;
    }

    async fn perform(
        self: &Arc<Self>,
        stream: &mut TcpStream,
        account: Account,
        request: &Request,
        order: Order,
    ) {
        let process = request.header("user-agent").unwrap_or_default().to_owned();
        let fate = self.fate(account, &order);
        let effect = Effect {
            id: String::new(),
            account,
            tenant: order.metadata.tenant,
            message: order.metadata.message,
            key: request.header("idempotency-key").map(str::to_owned),
            reference: order.metadata.reference,
            amount_minor: order.amount_minor,
            currency: order.currency,
            process: process.clone(),
        };
        let message = (account, (effect.tenant.clone(), effect.message.clone()));
        let n = self.opened(process);
        let this = self.clone();
        self.working.send_modify(|working| *working += 1);
        let work = tokio::spawn(async move {
            let answer = this.work(effect, fate).await;
            this.working.send_modify(|working| *working -= 1);
            answer
        });
        let answer = async {
            let answer = work.await.unwrap_or_default();
            if answer.is_some() {
                tokio::time::sleep(fate.answer).await;
            }
            answer
        };
        let answered = tokio::select! {
            answer = answer => answer,
            () = http::gone(stream) => return self.shut(n, message, fate.fault, true),
        };
        match answered {
            Some((status, body)) => {
                // Shut first: once the client has the answer, it is no open request any more.
                self.shut(n, message, fate.fault, false);
                self.say(stream, status, &body).await;
            }
            None if fate.fault == Fault::ActThenDrop => self.shut(n, message, fate.fault, false),
            None => {
                http::gone(stream).await;
                self.shut(n, message, fate.fault, true);
            }
        }
    }

    /// Acts or not, and says what is answered; `None`: nothing.
    async fn work(self: &Arc<Self>, effect: Effect, fate: Fate) -> Option<(u16, String)> {
        if fate.fault == Fault::Hang {
            return None;
        }
        let failed = || (500, r#"{"error":"internal"}"#.to_owned());
        tokio::time::sleep(if fate.fault == Fault::ActLate { LATE } else { fate.work }).await;
        if fate.fault == Fault::Fail {
            return Some(failed());
        }
        let this = self.clone();
        let acted = tokio::task::spawn_blocking(move || lock(&this.ledger).act(effect)).await;
        let Ok(Ok(id)) = acted else { return Some(failed()) };
        match fate.fault {
            Fault::None => Some((200, json!({"id": id, "status": "succeeded"}).to_string())),
            Fault::Accepted => Some((202, json!({"id": id, "status": "queued"}).to_string())),
            Fault::ActThenFail => Some(failed()),
            _ => None,
        }
    }

    fn look(&self, account: Account, reference: &str) -> String {
        lock(&self.seen).tally.looks += 1;
        let ledger = lock(&self.ledger);
        let found = ledger.look(account, reference).iter();
        let data: Vec<_> = found.map(|id| json!({"id": id, "reference": reference})).collect();
        json!({"data": data, "has_more": false}).to_string()
    }

    fn fate(&self, account: Account, order: &Order) -> Fate {
        let message = Message {
            id: order.metadata.message.clone(),
            tenant: order.metadata.tenant.clone(),
            kind: order.metadata.kind,
            to: order.to.clone(),
            amount_minor: order.amount_minor,
            currency: order.currency.clone(),
            subject: None,
        };
        let mut seen = lock(&self.seen);
        let arrival = seen.arrivals.entry((account, message.id())).or_default();
        *arrival += 1;
        let fate = fate(self.seed, &message, *arrival);
        seen.tally.requests += 1;
        match fate.fault {
            Fault::None | Fault::Accepted => {}
            Fault::ActThenDrop => seen.tally.dropped += 1,
            Fault::Hang | Fault::ActThenHang | Fault::ActLate => seen.tally.hung += 1,
            Fault::Fail | Fault::ActThenFail => seen.tally.failed += 1,
        }
        fate
    }

    fn opened(&self, process: String) -> u64 {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        lock(&self.seen).open.insert(n, process.clone());
        tell(&Told::Open { n, process });
        n
    }

    /// The request is over: answered or dropped by us, or its client is `gone`.
    fn shut(&self, n: u64, message: (Account, MessageId), fault: Fault, gone: bool) {
        let mut seen = lock(&self.seen);
        seen.open.remove(&n);
        let end = match seen.noted.remove(&n) {
            Some(process) if gone => {
                seen.cut.insert(process);
                End::Killed
            }
            _ if !gone && matches!(fault, Fault::None | Fault::Accepted) => End::Answered,
            _ => End::Lost,
        };
        if !matches!(fault, Fault::Hang | Fault::Fail) {
            seen.acted.entry(message).or_default().push((n, end));
        }
        drop(seen);
        tell(&Told::Shut { n });
    }

    fn note(&self, process: String) {
        let mut seen = lock(&self.seen);
        let open: Vec<_> = seen.open.iter().filter(|(_, p)| **p == process).map(|(n, _)| *n).collect();
        seen.noted.extend(open.iter().map(|n| (*n, process.clone())));
        drop(seen);
        tell(&Told::Noted { process, open: open.len() });
    }

    fn tally(&self) -> Tally {
        let seen = lock(&self.seen);
        let mut tally = Tally { cut: seen.cut.iter().cloned().collect(), ..seen.tally.clone() };
        for ((account, _), acted) in &seen.acted {
            if *account != Account::Control {
                continue;
            }
            // A second effect came about because the one before was not noted: what had become of that?
            let mut acted = acted.clone();
            acted.sort_by_key(|(n, _)| *n);
            for (_, end) in &acted[..acted.len().saturating_sub(1)] {
                match end {
                    End::Answered => tally.together += 1,
                    End::Lost => tally.unanswered += 1,
                    End::Killed => tally.killed += 1,
                }
            }
        }
        tally
    }

    async fn say(&self, stream: &mut TcpStream, status: u16, body: &str) {
        // Whether the client still listens is its own affair.
        let _ = http::answer(stream, status, body).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
