//! How credentials are configured.

use std::collections::BTreeSet;
use std::path::PathBuf;

use http::HeaderName;
use serde::Deserialize;
use url::{Host, Url};

use super::Checked;
use super::secret::Source;

/// One credential, as it stands in a configuration file. The secret itself is never there.
///
/// ```toml
/// [credentials.stripe]
/// env = "STRIPE_KEY"                # or: file = "/run/secrets/stripe"
/// scheme = "bearer"                 # or "basic", or "header" with header = "X-Api-Key"
/// allowed_origins = ["https://api.stripe.com"]
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// The environment variable that holds the secret.
    pub env: Option<String>,
    /// The file that holds the secret; white space around it is not a part of it.
    pub file: Option<PathBuf>,
    /// How the secret is sent.
    pub scheme: Scheme,
    /// For `header`: its name.
    pub header: Option<String>,
    /// For `header`: what stands before the secret, such as `"Token "`.
    pub prefix: Option<String>,
    /// For `basic`: the user, where the secret is the password alone. Without it the secret is `user:password`.
    pub user: Option<String>,
    /// Scheme, host and port of every place that the secret may be sent to: `https://api.stripe.com`.
    pub allowed_origins: Vec<String>,
    /// Whether origins without TLS may be allowed beyond this machine. Everybody on the way can then read the secret.
    #[serde(default)]
    pub allow_plain_http: bool,
}

/// How a secret is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// `Authorization: Bearer …` (RFC 6750 §2.1).
    Bearer,
    /// `Authorization: Basic …` (RFC 7617 §2).
    Basic,
    /// A header of the provider's own.
    Header,
}

impl CredentialConfig {
    /// A bearer token in an environment variable.
    pub fn bearer_from_env<O: Into<String>>(
        variable: impl Into<String>,
        allowed_origins: impl IntoIterator<Item = O>,
    ) -> Self {
        Self {
            env: Some(variable.into()),
            file: None,
            scheme: Scheme::Bearer,
            header: None,
            prefix: None,
            user: None,
            allowed_origins: allowed_origins.into_iter().map(Into::into).collect(),
            allow_plain_http: false,
        }
    }

    /// The parts, checked; or every fault.
    pub(super) fn check(self) -> Result<(Source, Checked, BTreeSet<String>), Vec<String>> {
        let mut faults = Vec::new();
        let mut keep = |fault: String| faults.push(fault);
        let source = self.source().map_err(&mut keep);
        let scheme = self.checked_scheme().map_err(&mut keep);
        let mut origins = BTreeSet::new();
        for origin in &self.allowed_origins {
            match origin_of(origin, self.allow_plain_http) {
                Ok(origin) => _ = origins.insert(origin),
                Err(fault) => keep(format!("allowed_origins: {fault}")),
            }
        }
        if self.allowed_origins.is_empty() {
            keep("allowed_origins is empty: name every origin that the secret may be sent to".to_owned());
        }
        match (source, scheme) {
            (Ok(source), Ok(scheme)) if faults.is_empty() => Ok((source, scheme, origins)),
            _ => Err(faults),
        }
    }

    fn source(&self) -> Result<Source, String> {
        match (&self.env, &self.file) {
            (Some(name), None) if name.is_empty() || name.contains(['=', '\0']) => {
                Err(format!("env: {name:?} is not the name of an environment variable"))
            }
            (Some(name), None) => Ok(Source::Env(name.clone())),
            (None, Some(path)) => Ok(Source::File(path.clone())),
            (None, None) => Err("it has no source: set env or file".to_owned()),
            (Some(_), Some(_)) => Err("it has two sources: set env or file, not both".to_owned()),
        }
    }

    fn checked_scheme(&self) -> Result<Checked, String> {
        let only = |field: &str, of: &str, set: bool| {
            if set { Err(format!("{field} is for the scheme {of:?} only: leave it out")) } else { Ok(()) }
        };
        if self.scheme != Scheme::Header {
            only("header", "header", self.header.is_some())?;
            only("prefix", "header", self.prefix.is_some())?;
        }
        if self.scheme != Scheme::Basic {
            only("user", "basic", self.user.is_some())?;
        }
        match self.scheme {
            Scheme::Bearer => Ok(Checked::Bearer),
            Scheme::Basic => match &self.user {
                // RFC 7617 §2: a user with a colon cannot be told from the password.
                Some(user) if user.contains(':') => Err("user holds a \":\", which ends it".to_owned()),
                user => Ok(Checked::Basic { user: user.clone() }),
            },
            Scheme::Header => {
                let name =
                    self.header.as_deref().ok_or("the scheme \"header\" needs header = \"X-Api-Key\"")?;
                let parsed =
                    HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a header name"))?;
                Ok(Checked::Header { name: parsed, prefix: self.prefix.clone().unwrap_or_default() })
            }
        }
    }
}

/// 1 to 64 characters of `[a-z0-9._-]`, since the name is stored, shown and written in configuration.
pub(super) fn check_name(name: &str) -> Option<String> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    let ok = (1..=64).contains(&name.len()) && name.bytes().all(legal);
    (!ok).then(|| format!("{name:?} is no name of a credential: 1 to 64 characters of a-z 0-9 . _ -"))
}

/// An origin as it is compared: scheme, host in lower case, and the port where it is not the scheme's own.
pub(super) fn origin_of(text: &str, plain_http: bool) -> Result<String, String> {
    let fault = |what: &str| Err(format!("{text:?} {what}: write it as https://api.example.com"));
    let Ok(url) = Url::parse(text) else {
        return fault("is not an origin");
    };
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return fault("is not an origin of http or https");
    }
    let more = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
    if more || !url.username().is_empty() || url.password().is_some() {
        return fault("is more than an origin");
    }
    if text.contains('*') {
        return fault("holds a *, and every origin must be named");
    }
    if url.scheme() == "http" && !plain_http && !is_loopback(&url) {
        return Err(format!("{text:?} has no TLS: use https, or set allow_plain_http = true"));
    }
    Ok(crate::http::origin(&url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
