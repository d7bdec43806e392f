//! What commands share: where the configuration is, how a claim is named.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use earmark_claim::{ClaimKey, ClaimStore, ClaimView, Handle, Reference};
use earmark_sweeper::config::{self, Config};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Ended;
use super::setup;

/// Where to work.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Where")]
pub(crate) struct Common {
    /// The configuration file; settings in the environment win over it.
    #[arg(long, value_name = "FILE", env = "EARMARK_CONFIG")]
    config: Option<PathBuf>,
    /// The service's database, instead of what file and environment say. A password is better kept in EARMARK_DATABASE_URL: arguments show in the list of processes.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl Common {
    /// The configuration, whole and valid.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let mut env = config::environment();
        if let Some(url) = &self.database {
            env.insert("EARMARK_DATABASE_URL".into(), url.clone());
        }
        let path = self.config.as_deref().filter(|path| !path.as_os_str().is_empty());
        Ok(config::load(path, &env)?)
    }

    /// The configuration, and the claims.
    pub(crate) async fn open(&self) -> anyhow::Result<(Config, ClaimStore)> {
        let config = self.load()?;
        let store = open(&config).await?;
        Ok((config, store))
    }
}

/// Opens the claims.
pub(crate) async fn open(config: &Config) -> anyhow::Result<ClaimStore> {
    let options = setup::store_options(config)?;
    ClaimStore::connect(config.database.url.expose(), options)
        .await
        .with_context(|| format!("the claims in {}", config.database.url.redacted()))
}

/// A duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| format!("{text:?} is no duration: write 30s, 5m, 2h or 1d"))
}

/// A claim, as people name it: its reference, or its key as it is shown, `tenant/consumer/message id`.
pub(crate) fn handle(text: &str) -> anyhow::Result<Handle> {
    let parts = parts(text)?;
    let key = match parts.as_slice() {
        [one] => {
            let reference: Reference = one.parse().map_err(|e| {
                Ended::usage(format!(
                    "{text:?} names no claim ({e}): write its reference, or its key as consumer/message-id or \
                     tenant/consumer/message-id"
                ))
            })?;
            return Ok(Handle::Reference(reference));
        }
        [consumer, id] => ClaimKey::new(consumer.clone(), id.as_str()),
        [tenant, consumer, id] => ClaimKey::in_tenant(tenant.clone(), consumer.clone(), id.as_str()),
        _ => {
            return Err(Ended::usage(format!(
                "{text:?} has {} parts: a key has two or three; write a slash inside a part as \\/",
                parts.len()
            )));
        }
    };
    Ok(Handle::Key(key.map_err(earmark_claim::Error::from)?))
}

/// The parts of a key as [`ClaimKey`] shows it, unescaped.
fn parts(text: &str) -> anyhow::Result<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '/' => {
                parts.push(String::new());
                continue;
            }
            '\\' => match chars.next() {
                Some(c @ ('/' | '\\' | '\'' | '"')) => c,
                Some('u') => code(&mut chars).ok_or_else(|| {
                    Ended::usage(format!("{text:?} holds a \\u without {{code}}: copy the key whole"))
                })?,
                _ => {
                    return Err(Ended::usage(format!(
                        "{text:?} holds a \\ that escapes nothing: write it twice"
                    )));
                }
            },
            c => c,
        };
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    Ok(parts)
}

/// `{20}` after `\u`.
fn code(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
    *chars = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// The one claim that a handle names.
pub(crate) async fn the_one(store: &ClaimStore, handle: &Handle) -> anyhow::Result<ClaimView> {
    let mut found = store.find_all(handle).await?;
    match (found.pop(), found.len()) {
        (Some(view), 0) => Ok(view),
        (None, _) => anyhow::bail!("there is no claim {}", shown(handle)),
        (Some(_), more) => {
            Err(Ended::usage(format!("{} claims fit {}: name one by its key", more + 1, shown(handle))))
        }
    }
}

/// A handle for a message.
pub(crate) fn shown(handle: &Handle) -> String {
    match handle {
        Handle::Key(key) => key.to_string(),
        Handle::Reference(reference) => reference.to_string(),
        Handle::ProviderRef(id) => format!("with the provider's id {id:?}"),
    }
}

/// The next of the two signals.
pub(crate) async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// A token that SIGTERM or SIGINT cancels, for a command that then ends in order: `then` says how.
pub(crate) fn until_interrupted(then: &'static str) -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let interrupted = stop.clone();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        either(&mut term, &mut int).await;
        tracing::warn!("interrupted: {then}");
        interrupted.cancel();
    });
    Ok(stop)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_shown() {
        for (tenant, consumer, id) in
            [("", "billing", "m-1"), ("t/1", "c", " a/b\\ "), ("t", "c", "\u{202e}e\u{301}'\"\\")]
        {
            let key = ClaimKey::in_tenant(tenant, consumer, id).expect("a legal key");
            assert_eq!(handle(&key.to_string()).expect("a handle"), Handle::Key(key));
        }
    }

    #[test]
    fn what_names_no_claim_says_what_would() {
        for (text, says) in [
            ("7F3K", "write its reference"),
            ("0000000000000000", "check character"),
            ("a/b/c/d", "a slash inside a part"),
            ("a/b\\n", "write it twice"),
            ("a/\\u20", "copy the key whole"),
        ] {
            let error = handle(text).map(|_| ()).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
