//! Reading a secret and writing it into a header. It is kept by nobody: neither cached nor shown.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::Checked;

/// Longest secret that is read. Servers take some 8 KiB of headers; a longer file is the wrong file.
const SECRET_BYTES_MAX: u64 = 8 * 1024;

#[derive(Clone)]
pub(super) enum Source {
    Env(String),
    File(PathBuf),
}

impl Source {
    /// The secret as it is now. The error names the source and never the content.
    pub(super) async fn read(&self) -> Result<SecretString, String> {
        let (text, from) = match self {
            Self::Env(name) => {
                let text = std::env::var(name).map_err(|e| match e {
                    std::env::VarError::NotPresent => format!("the environment variable {name} is not set"),
                    std::env::VarError::NotUnicode(_) => {
                        format!("the environment variable {name} is not UTF-8")
                    }
                })?;
                (SecretString::from(text), format!("the environment variable {name}"))
            }
            Self::File(path) => {
                let (path, shown) = (path.clone(), path.display().to_string());
                // A file on a network mount may hang: not on the thread that serves everybody.
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                let text = read.map_err(|_| format!("reading the file {shown} was broken off"))?;
                (
                    text.map_err(|e| format!("the file {shown} cannot be read: {e}"))?,
                    format!("the file {shown}"),
                )
            }
        };
        let trimmed = text.expose_secret().trim();
        if trimmed.is_empty() {
            return Err(format!("{from} is empty"));
        }
        Ok(SecretString::from(trimmed.to_owned()))
    }
}

fn read_file(path: &Path) -> std::io::Result<SecretString> {
    let mut text = String::new();
    File::open(path)?.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(std::io::Error::other(format!("it is longer than {SECRET_BYTES_MAX} bytes")));
    }
    Ok(SecretString::from(text))
}

impl Checked {
    pub(super) fn header(&self, secret: &SecretString) -> Result<(HeaderName, HeaderValue), String> {
        let secret = secret.expose_secret();
        let (name, text) = match self {
            Self::Bearer => (AUTHORIZATION, format!("Bearer {secret}")),
            Self::Basic { user: Some(user) } => (AUTHORIZATION, basic(&format!("{user}:{secret}"))),
            Self::Basic { user: None } if !secret.contains(':') => {
                return Err("the secret has no \":\": write it as user:password, or set user".to_owned());
            }
            Self::Basic { user: None } => (AUTHORIZATION, basic(secret)),
            Self::Header { name, prefix } => (name.clone(), format!("{prefix}{secret}")),
        };
        // Neither the value nor the place of the bad byte is told.
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            "the secret holds bytes that a header cannot carry, such as a line break inside it".to_owned()
        })?;
        // Kept out of debug output, and out of the tables that HTTP/2 compresses headers with.
        value.set_sensitive(true);
        Ok((name, value))
    }
}

fn basic(user_and_password: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_and_password))
}
