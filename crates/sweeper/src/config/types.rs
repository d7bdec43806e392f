//! What the sidecar is told, once it is valid.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use earmark_effects::Limits;

use super::secret::SecretUrl;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[database]`
    pub database: Database,
    /// `[sweep]`
    pub sweep: Sweep,
    /// `[purge]`
    pub purge: Purge,
    /// `[http]`
    pub http: HttpClient,
    /// `[credentials.NAME]`: by the name that is frozen on claims.
    pub credentials: BTreeMap<String, Credential>,
    /// `[downstreams.NAME]`: limits and breaker of this process, by the name that claims bear.
    pub downstreams: BTreeMap<String, Limits>,
    /// `[listen]`
    pub listen: Listen,
    /// `[report]`
    pub report: ReportFiles,
}

/// Where the claims are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where to connect.
    pub url: SecretUrl,
    /// A pooler, in transaction or session mode, stands before the database.
    pub pooler: bool,
    /// Accepts a database that may lose commits that it acknowledged.
    pub allow_non_durable: bool,
    /// What the database's namespace must be; `None`: whatever it is.
    pub namespace: Option<String>,
}

/// How the sweep works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// When a pass starts.
    pub when: When,
    /// Most claims of one pass.
    pub batch_max: u32,
    /// For how long a claim is taken.
    pub lease: Duration,
    /// Kept free before the end of a lease and of a key window.
    pub margin: Duration,
    /// The first pause between two attempts.
    pub backoff_base: Duration,
    /// The longest pause between two attempts.
    pub backoff_max: Duration,
    /// A claim due for longer has no handler.
    pub orphan_after: Duration,
    /// Calls at the same time.
    pub call_concurrency: u32,
}

/// When a pass starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// That long after the last one started.
    Every(Duration),
    /// By a cron expression of six fields (the first is seconds), in UTC.
    Cron(String),
}

/// What is dropped, and when. Nothing, unless a retention is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// How long after it was closed a claim becomes a tombstone; `None`: never.
    pub retention: Option<Duration>,
    /// How long after it was closed a claim's tombstone is deleted; `None`: never.
    pub tombstone_age: Option<Duration>,
    /// For how long a message can come again; set where tombstones are deleted.
    pub redelivery: Option<Duration>,
    /// When a run starts: a cron expression of six fields (the first is seconds), in UTC.
    pub schedule: String,
    /// Most claims of one transaction.
    pub batch_max: u32,
    /// Most of one connection's time, in percent.
    pub share_percent: u32,
    /// Most claims in a second; `None`: as many as the share allows.
    pub rows_per_second: Option<u32>,
}

/// How the sidecar calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpClient {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Origins that may be called without a credential.
    pub anonymous_origins: Vec<Origin>,
    /// A header that carries the number of the attempt; `None`: none is sent.
    pub attempt_header: Option<String>,
    /// Through which proxy.
    pub proxy: Option<SecretUrl>,
}

/// `https://api.example.com:8443`: scheme, host and port in their normal form, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub(super) String);

impl Origin {
    /// As a browser writes it: the default port left out.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A secret that is added to calls at the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Where the secret is.
    pub source: SecretSource,
    /// How it is sent.
    pub scheme: Scheme,
    /// Where it may be sent, and nowhere else.
    pub allowed_origins: Vec<Origin>,
    /// It may be sent unencrypted.
    pub allow_plain_http: bool,
}

/// Where a secret is. The configuration never holds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// In an environment variable of that name.
    Env(String),
    /// In a file.
    File(PathBuf),
}

/// How a secret is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer SECRET`.
    Bearer,
    /// `Authorization: Basic`, of a secret `user:password`.
    Basic,
    /// A header of that name (lower case), with the secret as its value.
    Header(String),
}

/// Where metrics and health are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// It may be reached from other machines. Nobody is asked who they are.
    pub allow_public: bool,
}

/// Where reports are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportFiles {
    /// The directory; `None`: reports are made on request only.
    pub dir: Option<PathBuf>,
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            when: When::Every(secs(10)),
            batch_max: 100,
            lease: secs(60),
            margin: secs(1),
            backoff_base: secs(5),
            backoff_max: secs(15 * 60),
            orphan_after: secs(3600),
            call_concurrency: 8,
        }
    }
}

impl Default for Purge {
    fn default() -> Self {
        Self {
            retention: None,
            tombstone_age: None,
            redelivery: None,
            // Not on the hour, when everybody's jobs run.
            schedule: "0 17 * * * *".into(),
            batch_max: 500,
            share_percent: 10,
            rows_per_second: None,
        }
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self { connect_timeout: secs(5), anonymous_origins: vec![], attempt_header: None, proxy: None }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 9464)), allow_public: false }
    }
}
