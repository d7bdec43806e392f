//! One value at a time: a text becomes what it means, or a fault: what is wrong, and the fix.

use std::net::SocketAddr;
use std::time::Duration;

use super::types::Origin;
use crate::{Error, Schedule};

/// What is wrong, and the fix.
pub(super) type Wrong = (String, String);

fn wrong<T>(what: impl Into<String>, fix: impl Into<String>) -> Result<T, Wrong> {
    Err((what.into(), fix.into()))
}

const DURATION_FIX: &str = "write a number with its unit, such as \"30s\", \"5m\" or \"1h30m\"";

pub(super) fn duration(text: &str) -> Result<Duration, Wrong> {
    no_longer_than(LONGEST, "a year", text)
}

/// How old something becomes before it is dropped: books are kept for years.
pub(super) fn age(text: &str) -> Result<Duration, Wrong> {
    no_longer_than(OLDEST, "a hundred years", text)
}

fn no_longer_than(longest: Duration, in_words: &str, text: &str) -> Result<Duration, Wrong> {
    let text = text.trim();
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        return wrong(
            format!("{text} has no unit"),
            format!("write \"{text}s\" for seconds, or another unit"),
        );
    }
    if text.starts_with('-') {
        return wrong("a duration cannot be negative", DURATION_FIX);
    }
    // `5M` would be five months, and was meant to be minutes.
    let mut units = text.split(|c: char| !c.is_alphabetic());
    if let Some(unit) = units.find(|unit| *unit == "M" || unit.starts_with("month") || unit.starts_with('y'))
    {
        return wrong(
            format!("{unit:?} has no fixed length"),
            "use days (d), hours (h), minutes (m) or seconds (s)",
        );
    }
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => wrong("zero makes no sense here", DURATION_FIX),
        Ok(d) if d > longest => {
            wrong(format!("is longer than {in_words}"), "write a shorter duration; is the unit right?")
        }
        Ok(d) => Ok(d),
        Err(_) => wrong(format!("{text:?} is not a duration"), DURATION_FIX),
    }
}

/// Nothing that is configured takes longer; a longer one is a wrong unit.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
const OLDEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Does not quote what it was given: a secret may stand in the wrong place.
pub(super) fn origin(text: &str) -> Result<Origin, Wrong> {
    const FIX: &str =
        "write scheme and host, and a port if it is not the usual one: \"https://api.example.com\"";
    let Ok(url) = reqwest::Url::parse(text) else { return wrong("is not an origin", FIX) };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong("is neither https:// nor http://", FIX);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong(
            "holds a user or a password",
            "leave it out: secrets stand in an environment variable or a file",
        );
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return wrong("goes on after the host", "leave out path and parameters: an origin allows every path");
    }
    if text.contains('*') {
        return wrong("holds a *", "name each origin: a secret goes to hosts that are known by name");
    }
    Ok(Origin(url.origin().ascii_serialization()))
}

pub(super) fn is_plain(origin: &Origin) -> bool {
    origin.as_str().starts_with("http://")
}

pub(super) fn database_url(text: &str) -> Result<(), Wrong> {
    const FIX: &str = "write postgres://USER:PASSWORD@HOST/DATABASE, mysql://… or sqlite://PATH";
    let scheme = text.split(':').next().unwrap_or_default();
    match scheme {
        "sqlite" => Ok(()),
        "postgres" | "postgresql" | "mysql" | "mariadb" => {
            if reqwest::Url::parse(text).is_ok_and(|url| url.has_host()) {
                Ok(())
            } else {
                wrong(
                    "is not a URL",
                    format!(
                        "{FIX}; characters such as @ : / ? # % in a password are written as %40 and so on"
                    ),
                )
            }
        }
        _ => wrong("is not the URL of a database that Earmark knows", FIX),
    }
}

pub(super) fn proxy_url(text: &str) -> Result<(), Wrong> {
    let known =
        |url: reqwest::Url| matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") && url.has_host();
    if reqwest::Url::parse(text).is_ok_and(known) {
        return Ok(());
    }
    wrong("is not the URL of a proxy", "write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
}

/// Asked of the schedule itself, so that what is accepted here is what it runs.
pub(super) fn cron(text: &str) -> Result<(), Wrong> {
    const FIX: &str =
        "write second, minute, hour, day, month and weekday, in UTC: \"0 */5 * * * *\" is every five minutes";
    match Schedule::cron(text) {
        Ok(_) => Ok(()),
        Err(Error::Schedule(what)) => wrong(what, FIX),
        Err(other) => wrong(other.to_string(), FIX),
    }
}

/// An interval that the schedule can strike evenly.
pub(super) fn interval(every: Duration) -> Result<(), Wrong> {
    const FIX: &str =
        "write 1s to 30s that divide a minute, whole minutes that divide an hour, or a schedule";
    match Schedule::every(every) {
        Ok(_) => Ok(()),
        Err(_) => wrong("cannot be struck evenly", FIX),
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().or_else(|_| {
        wrong(
            format!("{text:?} is not an address"),
            "write IP and port, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
        )
    })
}

/// A header name in lower case. Does not quote what it was given.
pub(super) fn header(text: &str) -> Result<String, Wrong> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(token) {
        return wrong(
            "is not the name of a header",
            "write 1 to 64 letters, digits and hyphens, such as \"x-api-key\"",
        );
    }
    let name = text.to_ascii_lowercase();
    let framing = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "idempotency-key",
    ];
    if framing.contains(&name.as_str()) {
        return wrong(format!("{name} is set by Earmark itself"), "use another header");
    }
    Ok(name)
}

/// The name of a credential, as it is frozen on claims.
pub(super) fn is_credential_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && name.chars().all(legal)
}

/// An upper-case name. A lower-case one is more likely to be a secret in the wrong place.
pub(super) fn is_variable_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
