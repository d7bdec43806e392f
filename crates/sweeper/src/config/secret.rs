//! URLs that may hold a password.

use std::fmt;

/// A URL that may hold a password. `Debug` and `Display` leave it out.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    pub(super) fn new(url: String) -> Self {
        Self(url)
    }

    /// The whole URL, for the driver and nobody else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Without password and parameters: for logs and reports.
    pub fn redacted(&self) -> String {
        redacted_url(&self.0)
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({})", self.redacted())
    }
}

/// A URL without its password and its parameters, which may hold one, too: `postgres://app:***@db-1/shop?***`.
///
/// It works on what is no proper URL as well, and rather hides too much: a password may hold any character, so everything up
/// to the last `@` counts as user and password.
pub fn redacted_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // No URL at all: perhaps a password in the wrong place. `sqlite:` takes a path without slashes.
        return match url.split_once(':') {
            Some((scheme @ "sqlite", path)) => {
                format!("{scheme}:{}", path.split('?').next().unwrap_or_default())
            }
            _ => "***".into(),
        };
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            let hidden = if login.contains(':') { ":***" } else { "" };
            // A user name that holds what ends an authority is the start of a password with such a character.
            let user = if user.contains(['/', '?', '#']) { "***" } else { user };
            (format!("{user}{hidden}@"), rest)
        }
        None => (String::new(), rest),
    };
    let cut = rest.find(['?', '#']);
    let tail = if cut.is_some() { "?***" } else { "" };
    format!("{scheme}://{user}{}{tail}", &rest[..cut.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left() {
        for (url, redacted) in [
            ("postgres://app:s3cret@db-1:5432/shop", "postgres://app:***@db-1:5432/shop"),
            ("postgres://app@db-1/shop", "postgres://app@db-1/shop"),
            ("postgres://db-1/shop?user=app&password=s3cret", "postgres://db-1/shop?***"),
            ("mysql://app:s3c@ret@db-1/shop", "mysql://app:***@db-1/shop"),
            ("mysql://app:s3/c?r#et@db-1/shop?ssl-mode=REQUIRED", "mysql://app:***@db-1/shop?***"),
            ("mysql://:s3cret@db-1/shop", "mysql://:***@db-1/shop"),
            ("postgres:///s3cret@x:y@db/z", "postgres://***:***@db/z"),
            ("sqlite:///var/lib/app/claims.db?mode=rwc", "sqlite:///var/lib/app/claims.db?***"),
            ("sqlite:claims.db?mode=rwc", "sqlite:claims.db"),
            ("s3cret", "***"),
            ("host=db password=s3cret", "***"),
        ] {
            assert_eq!(redacted_url(url), redacted);
            assert!(!format!("{:?}", SecretUrl::new(url.into())).contains("s3c"), "{url}");
        }
    }
}
