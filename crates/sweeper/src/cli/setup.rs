//! From the configuration to what does the work.

use std::time::Duration;

use anyhow::Context;
use earmark_claim::{Backoff, ClaimStore, Namespace, StoreOptions};
use earmark_effects::Earmark;
use earmark_effects::credentials::{CredentialConfig, Credentials, Scheme as EffectScheme};
use earmark_effects::http::{HttpEffect, HttpOptions};
use earmark_sweeper::config::{Config, Credential, HttpClient, Purge, Scheme, SecretSource, When};
use earmark_sweeper::{PurgeOptions, Purger, Schedule, Sweeper, SweeperOptions};
use sea_orm::{ConnectOptions, Database, DatabaseConnection};

/// Shortest time that a look may take.
const LOOK_TIMEOUT_MIN: Duration = Duration::from_secs(30);

/// How the store is opened.
pub(crate) fn store_options(config: &Config) -> anyhow::Result<StoreOptions> {
    let namespace = config.database.namespace.as_deref().map(Namespace::new).transpose();
    Ok(StoreOptions {
        margin: config.sweep.margin,
        pooler: config.database.pooler,
        allow_non_durable: config.database.allow_non_durable,
        namespace: namespace.context("database.namespace")?,
        ..StoreOptions::new(config.sweep.lease)
    })
}

/// How a pool beside the store is opened, where one connection is enough.
pub(crate) fn connect_options(config: &Config, url: &str) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    if config.database.pooler {
        // What PgBouncer cannot keep for a client, and what it refuses to be told.
        options.map_sqlx_postgres_opts(|o| o.statement_cache_capacity(0).extra_float_digits(None));
        // A ping before each use is a statement outside a transaction.
        options.test_before_acquire(false);
    }
    options
}

/// Such a pool.
pub(crate) async fn connect(config: &Config, options: ConnectOptions) -> anyhow::Result<DatabaseConnection> {
    Database::connect(options).await.map_err(|error| {
        // A server knows every parameter that the driver sends; PgBouncer does not.
        let is_pooler = error.to_string().contains("startup parameter");
        let fix = if is_pooler { " (a pooler stands before it: set database.pooler = true)" } else { "" };
        let url = config.database.url.redacted();
        anyhow::Error::new(error).context(format!("the database {url} cannot be reached{fix}"))
    })
}

/// What the sidecar can perform: `http/1` claims, whoever made them.
pub(crate) fn earmark(config: &Config, store: ClaimStore) -> anyhow::Result<Earmark> {
    let backoff = Backoff { base: config.sweep.backoff_base, max: config.sweep.backoff_max };
    let mut builder = Earmark::builder(store).http(http(config)?).backoff(backoff);
    for (name, limits) in &config.downstreams {
        builder = builder.downstream(name, limits.clone());
    }
    Ok(builder.build()?)
}

/// The client.
pub(crate) fn http(config: &Config) -> anyhow::Result<HttpEffect> {
    let HttpClient { connect_timeout, attempt_header, proxy, .. } = &config.http;
    let mut options = HttpOptions::new()
        .connect_timeout(*connect_timeout)
        .look_timeout(LOOK_TIMEOUT_MIN.max(*connect_timeout * 2))
        .attempt_header(attempt_header.as_deref());
    if let Some(proxy) = proxy {
        let built = reqwest::Proxy::all(proxy.expose());
        // Its error may quote the URL, which may hold a password.
        options = options.proxy(built.map_err(|_| anyhow::anyhow!("http.proxy: the proxy cannot be used"))?);
    }
    Ok(HttpEffect::new(options, credentials(config)?)?)
}

/// The credentials by name; no secret is read.
pub(crate) fn credentials(config: &Config) -> anyhow::Result<Credentials> {
    let named = config.credentials.iter().map(|(name, c)| (name.clone(), credential(c)));
    let anonymous = config.http.anonymous_origins.iter().map(|origin| origin.as_str());
    Ok(Credentials::new(named, anonymous)?)
}

fn credential(c: &Credential) -> CredentialConfig {
    let (env, file) = match &c.source {
        SecretSource::Env(name) => (Some(name.clone()), None),
        SecretSource::File(path) => (None, Some(path.clone())),
    };
    let (scheme, header) = match &c.scheme {
        Scheme::Bearer => (EffectScheme::Bearer, None),
        Scheme::Basic => (EffectScheme::Basic, None),
        Scheme::Header(name) => (EffectScheme::Header, Some(name.clone())),
    };
    CredentialConfig {
        env,
        file,
        scheme,
        header,
        prefix: None,
        user: None,
        allowed_origins: c.allowed_origins.iter().map(|origin| origin.as_str().to_owned()).collect(),
        allow_plain_http: c.allow_plain_http,
    }
}

/// The sweeper.
pub(crate) fn sweeper(config: &Config, earmark: &Earmark) -> anyhow::Result<Sweeper> {
    let options = SweeperOptions {
        name: name(),
        batch_max: config.sweep.batch_max as usize,
        concurrency: config.sweep.call_concurrency as usize,
        ..SweeperOptions::default()
    };
    Ok(Sweeper::new(earmark, options)?)
}

/// One name for each machine or container, so that heartbeats tell them apart.
fn name() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host: String = host.unwrap_or_default().trim().chars().filter(|c| !c.is_control()).take(32).collect();
    if host.is_empty() { "sidecar".into() } else { format!("sidecar@{host}") }
}

/// The purge, where one is configured.
pub(crate) fn purger(purge: &Purge, earmark: &Earmark) -> anyhow::Result<Option<Purger>> {
    let Some(retention) = purge.retention else { return Ok(None) };
    let options = PurgeOptions {
        tombstones: purge.tombstones(),
        batch_max: purge.batch_max,
        share_percent: purge.share_percent,
        rows_per_second: purge.rows_per_second,
        ..PurgeOptions::new(retention)
    };
    Ok(Some(Purger::new(earmark, options)?))
}

/// When it sweeps.
pub(crate) fn schedule(config: &Config) -> anyhow::Result<Schedule> {
    Ok(match &config.sweep.when {
        When::Every(interval) => Schedule::every(*interval)?,
        When::Cron(text) => Schedule::cron(text)?,
    })
}
