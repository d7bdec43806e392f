//! Reads values by key, from the environment first and then from the file, and collects what is wrong.

use std::time::Duration;

use toml::{Table, Value};

use super::Environment;
use super::fault::Fault;
use super::settings::{CREDENTIAL_KEYS, DOWNSTREAM_KEYS, SETTINGS, Setting};
use super::values::{self, Wrong};

/// Where values come from, and the faults so far.
pub(super) struct Reader<'a> {
    pub(super) table: &'a Table,
    pub(super) file: &'a str,
    pub(super) env: &'a Environment,
    faults: Vec<Fault>,
}

/// A value, and where it stands.
pub(super) struct Found {
    pub(super) place: String,
    pub(super) value: Value,
    /// A text of the environment, which knows no other types.
    text_only: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(table: &'a Table, file: &'a str, env: &'a Environment) -> Self {
        Self { table, file, env, faults: Vec::new() }
    }

    pub(super) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    pub(super) fn fault(&mut self, place: &str, key: &str, (wrong, fix): Wrong) {
        self.faults.push(Fault::new(place, key, wrong, fix));
    }

    /// The value of a setting, if anybody says one. An empty variable says nothing, as in a deployment's template that was
    /// not filled in.
    pub(super) fn find(&self, key: &str) -> Option<Found> {
        let setting = SETTINGS.iter().find(|s| s.key == key)?;
        if let Some(text) = self.env.get(setting.env).filter(|text| !text.is_empty()) {
            let place = format!("environment variable {}", setting.env);
            return Some(Found { place, value: Value::String(text.clone()), text_only: true });
        }
        let value = self.table.get(setting.section())?.as_table()?.get(setting.name())?.clone();
        Some(Found { place: self.file.to_owned(), value, text_only: false })
    }

    /// The value, judged; a fault and nothing where it is wrong.
    pub(super) fn read<T>(&mut self, key: &str, judge: impl Fn(&Found) -> Result<T, Wrong>) -> Option<T> {
        let found = self.find(key)?;
        match judge(&found) {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.fault(&found.place, key, wrong);
                None
            }
        }
    }

    pub(super) fn duration(&mut self, key: &str, default: Duration) -> Duration {
        self.span(key, values::duration).unwrap_or(default)
    }

    /// A duration of years, without a default.
    pub(super) fn age(&mut self, key: &str) -> Option<Duration> {
        self.span(key, values::age)
    }

    fn span(&mut self, key: &str, judge: fn(&str) -> Result<Duration, Wrong>) -> Option<Duration> {
        self.read(key, |found| match &found.value {
            Value::Integer(n) => judge(&n.to_string()),
            Value::String(text) => judge(text),
            other => Err(type_fault(other, "a duration as text, such as \"30s\"")),
        })
    }

    pub(super) fn boolean(&mut self, key: &str) -> bool {
        self.read(key, |found| match &found.value {
            Value::Boolean(b) => Ok(*b),
            Value::String(text) if found.text_only && text == "true" => Ok(true),
            Value::String(text) if found.text_only && text == "false" => Ok(false),
            other => Err(type_fault(other, "true or false")),
        })
        .unwrap_or(false)
    }

    pub(super) fn number(&mut self, key: &str, default: u32, max: u32) -> u32 {
        self.number_opt(key, max).unwrap_or(default)
    }

    pub(super) fn number_opt(&mut self, key: &str, max: u32) -> Option<u32> {
        self.read(key, |found| {
            let number = match &found.value {
                Value::Integer(n) => Some(*n),
                Value::String(text) if found.text_only => text.trim().parse().ok(),
                _ => None,
            };
            let Some(number) = number else { return Err(type_fault(&found.value, "a whole number")) };
            let legal = u32::try_from(number).ok().filter(|n| (1..=max).contains(n));
            legal.ok_or_else(|| {
                (format!("{number} is out of range"), format!("write a number from 1 to {max}"))
            })
        })
    }

    /// Refuses what nobody knows, with the nearest name that somebody does.
    pub(super) fn refuse_unknown(&mut self) {
        let sections =
            ["database", "sweep", "purge", "http", "credentials", "downstreams", "listen", "report"];
        for (section, value) in self.table {
            let section = section.as_str();
            if !sections.contains(&section) {
                let mut fix = nearest(section, sections.iter().map(|s| format!("[{s}]")), "sections");
                if let Some(s) = SETTINGS.iter().find(|s| s.name() == section) {
                    fix = format!("did you mean {}? It belongs under [{}]", s.key, s.section());
                }
                self.fault(self.file, section, ("is unknown".into(), fix));
                continue;
            }
            let Some(keys) = value.as_table() else {
                let fix = format!("write [{section}] on a line of its own, and its keys below");
                self.fault(self.file, section, type_fault_with(value, "a section", fix));
                continue;
            };
            match section {
                "credentials" => self.refuse_unknown_of_named(section, keys, CREDENTIAL_KEYS),
                "downstreams" => self.refuse_unknown_of_named(section, keys, DOWNSTREAM_KEYS),
                _ => self.refuse_unknown_keys(section, keys),
            }
        }
        self.refuse_unknown_variables();
    }

    fn refuse_unknown_keys(&mut self, section: &str, keys: &Table) {
        let known = || SETTINGS.iter().filter(|s| s.section() == section).map(Setting::name);
        for key in keys.keys().filter(|key| known().all(|known| known != key.as_str())) {
            let elsewhere = SETTINGS.iter().find(|s| s.name() == key);
            let fix = match elsewhere {
                Some(s) => format!("did you mean {}? It belongs under [{}]", s.key, s.section()),
                None => nearest(key, known().map(str::to_owned), "keys"),
            };
            self.fault(self.file, &format!("{section}.{key}"), ("is unknown".into(), fix));
        }
    }

    fn refuse_unknown_of_named(&mut self, section: &str, all: &Table, known: &[(&str, &str)]) {
        for (name, value) in all {
            let path = format!("{section}.{name}");
            let Some(keys) = value.as_table() else {
                let fix = format!("write [{section}.NAME] on a line of its own, and its keys below");
                self.fault(self.file, &path, type_fault_with(value, "a section", fix));
                continue;
            };
            let known = || known.iter().map(|(key, _)| *key);
            for key in keys.keys().filter(|key| known().all(|known| known != key.as_str())) {
                let fix = nearest(key, known().map(str::to_owned), "keys");
                self.fault(self.file, &format!("{path}.{key}"), ("is unknown".into(), fix));
            }
        }
    }

    fn refuse_unknown_variables(&mut self) {
        let mut known: Vec<String> = SETTINGS.iter().map(|s| s.env.to_owned()).collect();
        // A secret may have any name, ours included.
        let credentials = self.table.get("credentials").and_then(Value::as_table);
        let named = credentials.into_iter().flat_map(Table::values).filter_map(|c| c.get("env")?.as_str());
        known.extend(named.map(str::to_owned));
        let unknown: Vec<&String> = self
            .env
            .keys()
            .filter(|name| name.starts_with("EARMARK_") && !known.contains(name) && !is_of_kubernetes(name))
            .collect();
        for name in unknown {
            let fix = nearest(name, known.iter().cloned(), "variables");
            self.fault(&format!("environment variable {name}"), "", ("is unknown".into(), fix));
        }
    }
}

/// Kubernetes gives every container of a namespace variables for every service in it: with a service `earmark`
/// these are `EARMARK_SERVICE_HOST`, `EARMARK_PORT_9464_TCP_ADDR` and others. They are not ours to refuse.
fn is_of_kubernetes(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_") && ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol))
}

/// What was found, by its type only: the value may be a secret.
pub(super) fn type_fault(found: &Value, wanted: &str) -> Wrong {
    type_fault_with(found, wanted, format!("write {wanted}"))
}

fn type_fault_with(found: &Value, wanted: &str, fix: String) -> Wrong {
    let article = if matches!(found, Value::Integer(_) | Value::Array(_)) { "an" } else { "a" };
    (format!("is {article} {} instead of {wanted}", found.type_str()), fix)
}

/// `did you mean …?`, or all there are.
fn nearest(name: &str, known: impl Iterator<Item = String>, what: &str) -> String {
    let known: Vec<String> = known.collect();
    let distance = |k: &String| strsim::damerau_levenshtein(&name.to_lowercase(), &k.to_lowercase());
    match known.iter().min_by_key(|k| distance(k)) {
        // A third of the letters wrong is no slip any more.
        Some(near) if distance(near) <= 2.max(name.len() / 3) => format!("did you mean {near}?"),
        _ if what == "variables" => "see the list of settings in --help".into(),
        _ => format!("known {what} are {}", known.join(", ")),
    }
}
