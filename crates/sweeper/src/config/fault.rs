//! What is wrong, where, and how to mend it.

use std::fmt;

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, or `environment variable NAME`.
    pub place: String,
    /// The key's path, `sweep.lease`; empty for the whole file.
    pub key: String,
    /// What is wrong. Never holds a secret.
    pub wrong: String,
    /// What to do.
    pub fix: String,
}

impl Fault {
    pub(super) fn new(place: &str, key: &str, wrong: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { place: place.into(), key: key.into(), wrong: wrong.into(), fix: fix.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.wrong, self.fix)
    }
}

/// Everything that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Each of them.
    pub fn each(&self) -> &[Fault] {
        &self.0
    }
}

impl From<Vec<Fault>> for Faults {
    fn from(faults: Vec<Fault>) -> Self {
        Self(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.len();
        write!(f, "{n} fault{} in the configuration:", if n == 1 { "" } else { "s" })?;
        for fault in &self.0 {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
