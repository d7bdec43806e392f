//! Credentials: secrets by name, added at the wire, and only for the origins that each is configured for.
//!
//! A frozen request comes from a database and names a credential. Whoever can write there must not be able to send a
//! secret elsewhere, nor to make this process call whatever it can reach: so every origin is allowed by
//! configuration, credential by credential, and for anonymous calls in a list of their own.

mod config;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use earmark_claim::{ErrorClass, Failure};
use http::{HeaderName, HeaderValue};

use crate::http::Faults;

pub use config::{CredentialConfig, Scheme};
use config::{check_name, origin_of};
use secret::Source;

/// The configured credentials.
///
/// ```
/// use earmark_effects::credentials::{CredentialConfig, Credentials};
/// let stripe = CredentialConfig::bearer_from_env("STRIPE_KEY", ["https://api.stripe.com"]);
/// let credentials = Credentials::new([("stripe".to_owned(), stripe)], ["https://hooks.example.com"])?;
/// # Ok::<(), earmark_effects::http::Faults>(())
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    named: BTreeMap<String, Credential>,
    anonymous: BTreeSet<String>,
}

#[derive(Clone)]
struct Credential {
    source: Source,
    scheme: Checked,
    allowed_origins: BTreeSet<String>,
}

/// A scheme whose texts have been checked.
#[derive(Clone)]
enum Checked {
    Bearer,
    Basic { user: Option<String> },
    Header { name: HeaderName, prefix: String },
}

impl Credentials {
    /// Checks a configuration. `anonymous_origins`: where calls without a credential may go, and no other.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong, each naming the credential and the fix. No secret is read.
    pub fn new<O: AsRef<str>>(
        named: impl IntoIterator<Item = (String, CredentialConfig)>,
        anonymous_origins: impl IntoIterator<Item = O>,
    ) -> Result<Self, Faults> {
        let (mut this, mut faults) = (Self::default(), Vec::new());
        for (name, config) in named {
            if let Some(fault) = check_name(&name) {
                faults.push(fault);
            }
            match config.check() {
                Ok((source, scheme, allowed_origins)) => {
                    this.named.insert(name, Credential { source, scheme, allowed_origins });
                }
                Err(of_it) => {
                    faults.extend(of_it.into_iter().map(|fault| format!("credential {name:?}: {fault}")))
                }
            }
        }
        for origin in anonymous_origins {
            // No secret goes there, and whoever lists a plain origin has said so.
            match origin_of(origin.as_ref(), true) {
                Ok(origin) => _ = this.anonymous.insert(origin),
                Err(fault) => faults.push(format!("anonymous_origins: {fault}")),
            }
        }
        Faults::none_in(faults)?;
        Ok(this)
    }

    /// Whether a call with this credential, or with none, may go to this origin.
    ///
    /// # Errors
    /// *Not sent*: with class `fault.origin_not_allowed`, which no retry mends; or `operator`, where this process does
    /// not know the credential.
    pub fn admit(&self, credential: Option<&str>, origin: &str) -> Result<(), Failure> {
        let (allowed, fix) = match credential {
            None => {
                (&self.anonymous, "add it to anonymous_origins, or name a credential in the call".to_owned())
            }
            Some(name) => {
                let fix = format!("add it to allowed_origins of the credential {name:?}");
                (&self.get(name)?.allowed_origins, fix)
            }
        };
        if allowed.contains(origin) {
            return Ok(());
        }
        Err(Failure::not_sent(ErrorClass::ORIGIN_NOT_ALLOWED)
            .because(format!("the call goes to {origin}, which is not allowed: if it should be, {fix}")))
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Reads every secret once, and says what is wrong with those that could not be sent now. For a start-up check;
    /// secrets are read anew for each call.
    pub async fn unreadable(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for name in self.named.keys() {
            faults.extend(self.header(name).await.err().map(|failure| failure.message));
        }
        faults
    }

    /// The header that carries the secret, read now: a rotated secret needs no restart.
    pub(crate) async fn header(&self, name: &str) -> Result<(HeaderName, HeaderValue), Failure> {
        let credential = self.get(name)?;
        let operator = |why: String| {
            Failure::not_sent(ErrorClass::OPERATOR).because(format!("the credential {name:?}: {why}"))
        };
        let secret = credential.source.read().await.map_err(operator)?;
        credential.scheme.header(&secret).map_err(operator)
    }

    fn get(&self, name: &str) -> Result<&Credential, Failure> {
        self.named.get(name).ok_or_else(|| {
            Failure::not_sent(ErrorClass::OPERATOR).because(format!(
                "the call names the credential {name:?}, which is not configured here: add [credentials.{name}]"
            ))
        })
    }
}

impl fmt::Debug for Credentials {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
