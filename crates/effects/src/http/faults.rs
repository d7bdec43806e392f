//! Everything that is wrong with a declaration, at once.

use std::fmt;

/// Why something was refused: every fault found, each naming the thing and the fix. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<String>);

impl Faults {
    /// Every fault.
    pub fn list(&self) -> &[String] {
        &self.0
    }

    /// The same faults, each said to be of `what`.
    #[must_use]
    pub fn of(self, what: &str) -> Self {
        Self(self.0.into_iter().map(|fault| format!("{what}: {fault}")).collect())
    }

    pub(crate) fn one(fault: String) -> Self {
        Self(vec![fault])
    }

    /// `Ok` where nothing is wrong.
    pub(crate) fn none_in(list: Vec<String>) -> Result<(), Self> {
        if list.is_empty() { Ok(()) } else { Err(Self(list)) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Faults {}
