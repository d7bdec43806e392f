//! `earmark.toml` and the environment: what the sidecar is told, validated whole before anything starts.
//!
//! Every fault is reported at once, each with its place, its key, what is wrong and the fix. A secret never appears in
//! a fault, nor in what `Debug` prints.
//!
//! [`SETTINGS`] is the one list of what can be set: unknown keys and variables are recognised by it, and `--help` and the
//! documents print it.

mod downstreams;
mod fault;
mod read;
mod secret;
mod sections;
mod settings;
#[cfg(test)]
mod tests;
mod types;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

pub use fault::{Fault, Faults};
pub use secret::{SecretUrl, redacted_url};
pub use settings::{CREDENTIAL_KEYS, DOWNSTREAM_KEYS, SETTINGS, Setting, help};
pub use types::{
    Config, Credential, Database, HttpClient, Listen, Origin, Purge, ReportFiles, Scheme, SecretSource,
    Sweep, When,
};

/// The environment that the configuration reads.
pub type Environment = BTreeMap<String, String>;

/// The variables of this process. One that is not UTF-8 cannot be a setting and is left out.
pub fn environment() -> Environment {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// Reads the file, if one is named, and the environment over it.
///
/// # Errors
/// [`Faults`]: everything that is wrong, at once.
pub fn load(path: Option<&Path>, env: &Environment) -> Result<Config, Faults> {
    let Some(path) = path else { return parse("", "(no file)", env) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        let fix = "name an existing, readable file, or none to use the environment alone";
        Faults::from(vec![Fault::new(&name, "", format!("cannot be read: {e}"), fix)])
    })?;
    let config = parse(&text, &name, env)?;
    let faults = missing_files(&config, &name);
    if faults.is_empty() { Ok(config) } else { Err(faults.into()) }
}

/// Reads the text of a file called `name`, and the environment over it. Touches no file.
///
/// # Errors
/// [`Faults`]: everything that is wrong, at once.
pub fn parse(text: &str, name: &str, env: &Environment) -> Result<Config, Faults> {
    let table: toml::Table = toml::from_str(text).map_err(|e| {
        // Its Display quotes the line, which may hold a password.
        let line =
            e.span().map_or(1, |span| text.get(..span.start).unwrap_or(text).matches('\n').count() + 1);
        let wrong = format!("line {line} is not TOML: {}", e.message().lines().next().unwrap_or_default());
        Faults::from(vec![Fault::new(name, "", wrong, "mend the syntax; texts need quotes")])
    })?;
    let mut reader = read::Reader::new(&table, name, env);
    let config = sections::config(&mut reader);
    match reader.into_faults() {
        faults if faults.is_empty() => Ok(config),
        faults => Err(faults.into()),
    }
}

fn missing_files(config: &Config, name: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (credential, c) in &config.credentials {
        let SecretSource::File(path) = &c.source else { continue };
        if let Err(e) = std::fs::File::open(path) {
            let key = format!("credentials.{credential}.file");
            faults.push(Fault::new(
                name,
                &key,
                format!("cannot be read: {e}"),
                "mount the secret, or mend the path",
            ));
        }
    }
    faults
}
