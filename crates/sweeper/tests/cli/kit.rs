//! A folder with a database, and the binary in it. No output of it may ever hold the planted secrets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use earmark_claim::{
    Backoff, Claim, ClaimKey, ClaimStore, Claimed, Declared, Failure, InFlight, NewClaim, Receipt,
    RepeatSafety, StoreOptions,
};
use sea_orm::{ConnectionTrait, Database};
use serde_json::Value;
use tempfile::TempDir;

/// In an environment variable, and in a request's body.
pub(crate) const SECRETS: [&str; 2] = ["sk_live_planted", "jane@example.org"];

/// Nothing that is waited for takes longer on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    dir: TempDir,
}

/// How a command ended.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }

    /// It ended so, and says this on one of the two.
    pub(crate) fn says(&self, code: i32, words: &str) -> &Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        assert!(
            self.out.contains(words) || self.err.contains(words),
            "{words:?} in:\n{}\n{}",
            self.out,
            self.err
        );
        self
    }
}

impl Place {
    /// A folder without a database.
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// With the tables.
    pub(crate) fn new() -> Self {
        let place = Self::empty();
        place.run(&["migrate", "--namespace", "shop"]).says(0, "namespace shop");
        place
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.dir.path().join("shop.db").display())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.dir.path().join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
        command
            .args(args)
            .env_clear()
            .env("EARMARK_DATABASE_URL", self.url())
            .env("STRIPE_KEY", SECRETS[0])
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let done = Done {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        if !args.contains(&"--reveal") {
            for secret in SECRETS {
                assert!(
                    !done.out.contains(secret) && !done.err.contains(secret),
                    "{args:?}: {}{}",
                    done.out,
                    done.err
                );
            }
        }
        assert!(!done.out.contains('\u{1b}') && !done.err.contains('\u{1b}'), "no colours in a pipe");
        done
    }

    pub(crate) async fn store(&self) -> ClaimStore {
        ClaimStore::connect(&self.url(), StoreOptions::new(Duration::from_secs(60))).await.unwrap()
    }

    /// SQL typed by hand.
    pub(crate) async fn sql(&self, sql: &str) {
        let db = Database::connect(self.url()).await.unwrap();
        db.execute_unprepared(sql).await.unwrap();
        db.close().await.unwrap();
    }

    /// Every time of every claim moves into the past.
    pub(crate) async fn age(&self, by: Duration) {
        let micros = by.as_micros();
        let columns = ["due_at", "send_by", "created_at", "window_from", "last_end_at", "ruled_at"];
        let set = columns.map(|c| format!("{c} = {c} - {micros}")).join(", ");
        self.sql(&format!("UPDATE earmark_claim SET {set}")).await;
    }

    /// Starts the sidecar and waits until it listens.
    pub(crate) fn sidecar(&self, args: &[&str], env: &[(&str, &str)]) -> Sidecar {
        let mut command = self.command(&[&["run"], args].concat());
        command.env("EARMARK_LISTEN_ADDRESS", "127.0.0.1:0").env("EARMARK_SWEEP_INTERVAL", "1s");
        command.envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (lines, read) = channel();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| _ = lines.send(line));
        });
        let mut sidecar = Sidecar { child, read, address: String::new() };
        let line = sidecar.line("sweeping address=");
        let address = line.split("address=").nth(1).unwrap();
        sidecar.address = address.split_whitespace().next().unwrap().to_owned();
        sidecar
    }
}

/// A running sidecar; killed when dropped.
pub(crate) struct Sidecar {
    child: Child,
    read: Receiver<String>,
    address: String,
}

impl Sidecar {
    /// Waits for a line of its log.
    pub(crate) fn line(&mut self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = self.read.recv_timeout(until.saturating_duration_since(Instant::now())) {
            assert!(SECRETS.iter().all(|secret| !line.contains(secret)), "{line}");
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("no {words:?} in {seen:?}");
    }

    /// Status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        until("the sidecar ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a condition.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(met) = condition() {
            return met;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A repeat of it may be a second effect, and nobody can be asked.
pub(crate) fn never() -> Declared {
    Declared {
        repeat: RepeatSafety::Never,
        landing_horizon: Some(Duration::from_secs(10)),
        probe: None,
        call_timeout: Duration::from_secs(5),
        attempts_max: 5,
        age_max: Duration::from_secs(24 * 3600),
    }
}

pub(crate) fn new(declared: Declared) -> NewClaim {
    let request = format!(r#"{{"to":"{}"}}"#, SECRETS[1]);
    NewClaim {
        summary: Some("Welcome mail".into()),
        business_ref: Some("order 88123".into()),
        ..NewClaim::new("mail.welcome", "mailer", request, declared)
    }
}

pub(crate) fn key(id: &str) -> ClaimKey {
    ClaimKey::in_tenant("acme", "mail", id).unwrap()
}

pub(crate) async fn won(store: &ClaimStore, id: &str, new: NewClaim) -> Claim<InFlight> {
    match store.claim(&key(id), new).await.unwrap() {
        Claimed::Won(claim) => claim,
        other => panic!("{other:?}"),
    }
}

/// A claim whose one attempt ended so.
pub(crate) async fn settled(store: &ClaimStore, id: &str, outcome: Result<(), Failure>) -> String {
    let claim = won(store, id, new(never())).await;
    let outcome = outcome.map(|()| Receipt::<Value>::new(None, Some(format!("msg_{id}"))));
    let _ = store.settle(claim, outcome, Backoff::default()).await.unwrap();
    store.find(&key(id)).await.unwrap().unwrap().reference.to_string()
}
