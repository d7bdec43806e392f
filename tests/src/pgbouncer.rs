//! PgBouncer of the distribution's packages in front of a test's database, as a process of its own.
//!
//! It refuses to run as root, and then gets the user `nobody`. Only the loopback can reach it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use url::Url;

use crate::EmptyDb;
use crate::claims::PATIENCE;

const PROGRAM: &str = "pgbouncer";
/// Where the packages put it: not on every user's path.
const PLACES: [&str; 2] = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
const UNPRIVILEGED: &str = "nobody";
/// Between two looks whether it listens.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// Another process may take the free port first.
const START_TRIES_MAX: usize = 5;

/// A running PgBouncer. Dropping it kills it.
pub struct PgBouncer {
    folder: TempDir,
    port: u16,
    url: String,
    child: Child,
}

/// How it lends its servers.
#[derive(Clone, Copy, Debug)]
pub struct Pooling {
    /// `pool_mode`.
    pub mode: &'static str,
    /// `default_pool_size`: connections to the server.
    pub servers: u32,
    /// Further lines of `[pgbouncer]`.
    pub more: &'static str,
}

/// Transaction by transaction, from two servers, with nothing else said.
pub const TRANSACTIONS: Pooling = Pooling { mode: "transaction", servers: 2, more: "" };

impl PgBouncer {
    /// One before that database, which must be PostgreSQL's.
    pub async fn start(db: &EmptyDb, pooling: Pooling) -> Self {
        let server = Url::parse(db.url()).expect("a URL");
        let folder = tempfile::Builder::new().prefix("earmark-pgbouncer-").tempdir().expect("a folder");
        for _ in 0..START_TRIES_MAX {
            let port = free_port();
            write_settings(folder.path(), &server, port, pooling);
            let mut child = spawn(folder.path());
            if is_up(&mut child, port).await {
                let mut url = server.clone();
                url.set_host(Some("127.0.0.1")).expect("a host");
                url.set_port(Some(port)).expect("a port");
                return Self { folder, port, url: url.into(), child };
            }
        }
        panic!("PgBouncer did not start: {}", fs::read_to_string(log(folder.path())).unwrap_or_default());
    }

    /// For the code under test to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its connections break off, whatever is under way on them, and a moment later it is there again.
    pub async fn restart(&mut self) {
        self.child.kill().await.expect("it ran");
        self.child = spawn(self.folder.path());
        assert!(is_up(&mut self.child, self.port).await, "{}", self.log());
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(log(self.folder.path())).unwrap_or_default()
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port()
}

fn write_settings(folder: &Path, server: &Url, port: u16, pooling: Pooling) {
    let (host, server_port) = (server.host_str().expect("a host"), server.port().unwrap_or(5432));
    let (user, password) = (server.username(), server.password().unwrap_or_default());
    // With a password it asks for one too, and uses the same to log in; without, the server trusts us.
    let auth = if password.is_empty() { "trust" } else { "scram-sha-256" };
    let Pooling { mode, servers, more } = pooling;
    let (settings, users) = (folder.join("pgbouncer.ini"), folder.join("users.txt"));
    let text = format!(
        "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = {auth}\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {servers}\n\
         max_client_conn = 100\n{more}\n",
        users.display()
    );
    fs::write(&settings, text).expect("the settings");
    fs::write(&users, format!("\"{user}\" \"{password}\"\n")).expect("the users");
    if is_root() {
        let owner = id(&["-u", UNPRIVILEGED]);
        for path in [folder, settings.as_path(), users.as_path()] {
            chown(path, Some(owner), None).expect("an owner");
        }
    }
}

fn spawn(folder: &Path) -> Child {
    let program = PLACES.iter().find(|place| Path::new(place).exists()).unwrap_or(&PROGRAM);
    let log = File::options().create(true).append(true).open(log(folder)).expect("a log");
    let mut command = Command::new(program);
    if is_root() {
        command.args(["-u", UNPRIVILEGED]);
    }
    command
        .arg(folder.join("pgbouncer.ini"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|e| {
            panic!("{PROGRAM}: {e}: run the tests with tests/run, or install the package {PROGRAM}")
        })
}

/// Whether it listens before it ends.
async fn is_up(child: &mut Child, port: u16) -> bool {
    let listens = async {
        loop {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return true;
            }
            if !matches!(child.try_wait(), Ok(None)) {
                return false;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, listens).await.unwrap_or(false)
}

fn is_root() -> bool {
    id(&["-u"]) == 0
}

fn id(asked: &[&str]) -> u32 {
    let told = std::process::Command::new("id").args(asked).output().expect("id");
    String::from_utf8_lossy(&told.stdout).trim().parse().expect("a number")
}
