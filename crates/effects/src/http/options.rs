//! The client, strict: one attempt is one request.

use std::time::Duration;

use reqwest::{Client, ClientBuilder, Proxy};

use super::faults::Faults;

/// How the client behaves. What makes it strict cannot be set.
///
/// TLS is the choice of the binary: it enables a TLS feature of `reqwest`, and where that is `rustls-no-provider`,
/// installs a provider before [`HttpEffect::new`](super::HttpEffect::new).
#[must_use]
pub struct HttpOptions {
    connect_timeout: Duration,
    pub(super) look_timeout: Duration,
    idle_connections: usize,
    proxy: Option<Proxy>,
    user_agent: String,
    pub(super) attempt_header: Option<String>,
    customise: Option<Customise>,
}

type Customise = Box<dyn FnOnce(ClientBuilder) -> ClientBuilder + Send>;

impl Default for HttpOptions {
    /// 10 s to connect, 30 s for a look, no connection kept, no proxy, `User-Agent: earmark/<version>`,
    /// `Earmark-Attempt`.
    fn default() -> Self {
        Self {
            // DNS, TCP and TLS of a slow provider take below 2 s; one lost SYN costs 1 to 3 s more.
            connect_timeout: Duration::from_secs(10),
            look_timeout: Duration::from_secs(30),
            idle_connections: 0,
            proxy: None,
            user_agent: concat!("earmark/", env!("CARGO_PKG_VERSION")).to_owned(),
            attempt_header: Some("Earmark-Attempt".to_owned()),
            customise: None,
        }
    }
}

impl HttpOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long connecting may take: DNS, TCP, TLS. Must be below every effect's call timeout: a call that times out
    /// while it is still connecting cannot be told from one that has left.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a probe's look may take, from connecting to the end of the answer.
    pub fn look_timeout(mut self, timeout: Duration) -> Self {
        self.look_timeout = timeout;
        self
    }

    /// How many idle connections are kept for each host. None by default: the server may close one just when a
    /// request goes out on it, and whether it still read that request cannot be known, so that a connection saved costs
    /// a claim in doubt now and then. Worth it for many calls that are safe to repeat, and no others.
    pub fn idle_connections(mut self, per_host: usize) -> Self {
        self.idle_connections = per_host;
        self
    }

    /// The one proxy to use. Proxies in the environment are not looked at: one that repeats a request by itself is a
    /// second effect.
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Another `User-Agent`.
    pub fn user_agent(mut self, value: &str) -> Self {
        value.clone_into(&mut self.user_agent);
        self
    }

    /// The header that says which attempt this is, by its fence; `None`: none is sent. With it a request that was
    /// repeated below us (a proxy, a mesh) shows at the provider: same key, same attempt.
    pub fn attempt_header(mut self, name: Option<&str>) -> Self {
        self.attempt_header = name.map(str::to_owned);
        self
    }

    /// A hand on the client before the strict settings are made: root certificates, a client certificate, a resolver.
    /// It cannot undo them: redirects, repeats, proxies, timeouts, the pool and compression are set afterwards.
    pub fn customise(mut self, hook: impl FnOnce(ClientBuilder) -> ClientBuilder + Send + 'static) -> Self {
        self.customise = Some(Box::new(hook));
        self
    }

    /// Everything that is wrong with it.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.connect_timeout.is_zero() {
            faults.push("connect_timeout is zero: nothing could ever connect".to_owned());
        }
        if self.look_timeout <= self.connect_timeout {
            faults.push(format!(
                "look_timeout ({:?}) is not longer than connect_timeout ({:?})",
                self.look_timeout, self.connect_timeout
            ));
        }
        if let Some(name) = &self.attempt_header {
            faults.extend(super::guard::header_faults(&[(name.clone(), String::new())]));
        }
        if http::HeaderValue::from_str(&self.user_agent).is_err() {
            faults.push("user_agent holds what a header cannot carry: use visible ASCII".to_owned());
        }
        faults
    }

    pub(super) fn connect_timeout_is(&self) -> Duration {
        self.connect_timeout
    }

    pub(super) fn client(&mut self) -> Result<Client, Faults> {
        let builder = match self.customise.take() {
            Some(hook) => hook(Client::builder()),
            None => Client::builder(),
        };
        let builder = builder
            .user_agent(self.user_agent.clone())
            .connect_timeout(self.connect_timeout)
            // A 307 would send the POST again, elsewhere; a 302 would turn it into a GET.
            .redirect(reqwest::redirect::Policy::none())
            // The default sends a request up to three times when HTTP/2 frames say "not processed"; a server that
            // took it and then says so receives it three times.
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            // At nought, hyper-util's own repeat of a request that an idle connection never took is out of reach, too.
            .pool_max_idle_per_host(self.idle_connections)
            // Whatever features another crate has switched on: answers are kept and hashed as they came.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate();
        let builder = match self.proxy.take() {
            Some(proxy) => builder.proxy(proxy),
            None => builder,
        };
        builder.build().map_err(|e| {
            Faults::one(format!("the HTTP client cannot be built: {}", earmark_claim::failure::chain(&e)))
        })
    }
}
