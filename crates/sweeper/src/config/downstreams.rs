//! `[downstreams.NAME]`: limits and breaker.

use std::collections::BTreeMap;

use earmark_effects::Limits;
use toml::{Table, Value};

use super::read::{Reader, type_fault};
use super::values::{self, Wrong};

/// More is no limit any more.
const MOST: u32 = 1_000_000;

pub(super) fn downstreams(r: &mut Reader<'_>) -> BTreeMap<String, Limits> {
    let Some(all) = r.table.get("downstreams").and_then(Value::as_table) else { return BTreeMap::new() };
    let mut downstreams = BTreeMap::new();
    for (name, table) in all.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
        let path = format!("downstreams.{name}");
        if !(1..=64).contains(&name.len()) || !name.is_ascii() || name.contains(char::is_control) {
            let fix = "write the name that its claims bear: 1 to 64 ASCII characters";
            r.fault(r.file, &path, ("is not the name of a downstream".into(), fix.into()));
        }
        downstreams.insert(name.clone(), limits(r, &path, table));
    }
    downstreams
}

fn limits(r: &mut Reader<'_>, path: &str, table: &Table) -> Limits {
    let d = Limits::default();
    let limits = Limits {
        calls_per_second: value(r, path, table, "calls_per_second", rate),
        burst: value(r, path, table, "burst", count),
        concurrent_calls: value(r, path, table, "concurrent_calls", count),
        breaker_failures: value(r, path, table, "breaker_failures", count).unwrap_or(d.breaker_failures),
        breaker_sample_every: value(r, path, table, "breaker_sample_every", duration)
            .unwrap_or(d.breaker_sample_every),
        ..d
    };
    if table.contains_key("burst") && !table.contains_key("calls_per_second") {
        let wrong = "says nothing without calls_per_second";
        r.fault(r.file, &format!("{path}.burst"), (wrong.into(), "set that too, or leave burst out".into()));
    }
    limits
}

fn value<T>(
    r: &mut Reader<'_>,
    path: &str,
    table: &Table,
    key: &str,
    judge: fn(&Value) -> Result<T, Wrong>,
) -> Option<T> {
    match judge(table.get(key)?) {
        Ok(value) => Some(value),
        Err(wrong) => {
            r.fault(r.file, &format!("{path}.{key}"), wrong);
            None
        }
    }
}

fn rate(value: &Value) -> Result<f64, Wrong> {
    let rate = match value {
        #[allow(clippy::cast_precision_loss)] // whatever is not exact is out of range
        Value::Integer(n) => *n as f64,
        Value::Float(n) => *n,
        other => return Err(type_fault(other, "a number")),
    };
    // The library is asked, so that what is accepted here is what it takes.
    if (Limits { calls_per_second: Some(rate), ..Limits::default() }).faults().is_empty() {
        return Ok(rate);
    }
    let fix =
        "write how many calls may be made in a second, such as 25 or 0.5; to stop all of them, earmark pause";
    Err((format!("{value} is out of range"), fix.into()))
}

fn count(value: &Value) -> Result<u32, Wrong> {
    let Value::Integer(n) = value else { return Err(type_fault(value, "a whole number")) };
    let legal = u32::try_from(*n).ok().filter(|n| (1..=MOST).contains(n));
    legal.ok_or_else(|| {
        let fix = format!("write a number from 1 to {MOST}; to stop all calls, earmark pause");
        (format!("{n} is out of range"), fix)
    })
}

fn duration(value: &Value) -> Result<std::time::Duration, Wrong> {
    match value {
        Value::Integer(n) => values::duration(&n.to_string()),
        Value::String(text) => values::duration(text),
        other => Err(type_fault(other, "a duration as text, such as \"30s\"")),
    }
}
