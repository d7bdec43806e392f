//! Section by section: from values to the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use earmark_claim::{Error, Namespace, PurgeRules, Retention, Tombstones};
use toml::{Table, Value};

use super::downstreams;
use super::read::{Found, Reader, type_fault};
use super::secret::SecretUrl;
use super::types::{
    Config, Credential, Database, HttpClient, Listen, Origin, Purge, ReportFiles, Scheme, SecretSource,
    Sweep, When,
};
use super::values::{self, Wrong};

const CALL_CONCURRENCY_MAX: u32 = 1000;
/// One pass holds its claims in memory, with requests of up to 16 MiB each.
const BATCH_MAX_MAX: u32 = 10_000;

/// Reads everything, whatever is wrong on the way: the value of a faulty setting is its default, and never used.
pub(super) fn config(r: &mut Reader<'_>) -> Config {
    r.refuse_unknown();
    Config {
        database: database(r),
        sweep: sweep(r),
        purge: purge(r),
        http: http(r),
        credentials: credentials(r),
        downstreams: downstreams::downstreams(r),
        listen: listen(r),
        report: ReportFiles { dir: r.read("report.dir", text).map(PathBuf::from) },
    }
}

fn text(found: &Found) -> Result<String, Wrong> {
    match &found.value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::String(_) => Err(("is empty".into(), "write a value, or leave the key out".into())),
        other => Err(type_fault(other, "a text in quotes")),
    }
}

fn secret_url(found: &Found, judge: fn(&str) -> Result<(), Wrong>) -> Result<SecretUrl, Wrong> {
    let text = text(found)?;
    judge(&text).map(|()| SecretUrl::new(text))
}

fn database(r: &mut Reader<'_>) -> Database {
    if r.find("database.url").is_none() {
        let fix = "set it there or in EARMARK_DATABASE_URL, to the database of the service";
        r.fault(r.file, "database.url", ("is missing".into(), fix.into()));
    }
    let url = r.read("database.url", |found| secret_url(found, values::database_url));
    let pooler = r.boolean("database.pooler");
    if pooler && url.as_ref().is_some_and(|url| url.expose().starts_with("sqlite:")) {
        let place = r.find("database.pooler").map_or(r.file.to_owned(), |found| found.place);
        let wrong = "is set, and nothing stands before a SQLite file";
        r.fault(&place, "database.pooler", (wrong.into(), "leave it out".into()));
    }
    Database {
        pooler,
        url: url.unwrap_or_else(|| SecretUrl::new(String::new())),
        allow_non_durable: r.boolean("database.allow_non_durable"),
        namespace: r.read("database.namespace", |found| {
            let text = text(found)?;
            match Namespace::new(text.as_str()) {
                Ok(_) => Ok(text),
                Err(_) => Err((
                    format!("{text:?} is not a namespace"),
                    "write 1 to 64 characters of A-Z a-z 0-9 . _ -".into(),
                )),
            }
        }),
    }
}

fn sweep(r: &mut Reader<'_>) -> Sweep {
    let d = Sweep::default();
    let sweep = Sweep {
        when: when(r, d.when),
        batch_max: r.number("sweep.batch_max", d.batch_max, BATCH_MAX_MAX),
        lease: r.duration("sweep.lease", d.lease),
        margin: r.duration("sweep.margin", d.margin),
        backoff_base: r.duration("sweep.backoff_base", d.backoff_base),
        backoff_max: r.duration("sweep.backoff_max", d.backoff_max),
        orphan_after: r.duration("sweep.orphan_after", d.orphan_after),
        call_concurrency: r.number("sweep.call_concurrency", d.call_concurrency, CALL_CONCURRENCY_MAX),
    };
    let mut less = |smaller: &str, is_less: bool, than: &str, why: &str| {
        if !is_less {
            let place = r.find(smaller).or_else(|| r.find(than)).map_or(r.file.to_owned(), |f| f.place);
            let fix = format!("make {than} longer, or {smaller} shorter: {why}");
            r.fault(&place, smaller, (format!("is not shorter than {than}"), fix));
        }
    };
    less("sweep.margin", sweep.margin < sweep.lease, "sweep.lease", "nothing would be left to call in");
    less(
        "sweep.backoff_base",
        sweep.backoff_base <= sweep.backoff_max,
        "sweep.backoff_max",
        "a pause grows from the one to the other",
    );
    if let When::Every(interval) = sweep.when {
        let why = "every claim would be without a handler before a pass comes by";
        less("sweep.interval", interval < sweep.orphan_after, "sweep.orphan_after", why);
    }
    sweep
}

fn when(r: &mut Reader<'_>, default: When) -> When {
    let (schedule, interval) = (r.find("sweep.schedule"), r.find("sweep.interval"));
    if let (Some(schedule), Some(_)) = (&schedule, &interval) {
        let fix = "leave out one of the two";
        r.fault(&schedule.place, "sweep.schedule", ("is set beside sweep.interval".into(), fix.into()));
    }
    if schedule.is_some() {
        let cron = r.read("sweep.schedule", |found| {
            let text = text(found)?;
            values::cron(&text).map(|()| text)
        });
        return cron.map_or(default, When::Cron);
    }
    match default {
        When::Every(every) => {
            let every = r.duration("sweep.interval", every);
            if let (Some(found), Err(wrong)) = (interval, values::interval(every)) {
                r.fault(&found.place, "sweep.interval", wrong);
            }
            When::Every(every)
        }
        cron @ When::Cron(_) => cron,
    }
}

fn purge(r: &mut Reader<'_>) -> Purge {
    let d = Purge::default();
    let purge = Purge {
        retention: r.age("purge.retention"),
        tombstone_age: r.age("purge.tombstone_age"),
        redelivery: r.age("purge.redelivery"),
        schedule: r
            .read("purge.schedule", |found| {
                let text = text(found)?;
                values::cron(&text).map(|()| text)
            })
            .unwrap_or(d.schedule),
        batch_max: r.number("purge.batch_max", d.batch_max, BATCH_MAX_MAX),
        share_percent: r.number("purge.share_percent", d.share_percent, 100),
        rows_per_second: r.number_opt("purge.rows_per_second", u32::MAX),
    };
    let mut missing = |key: &str, beside: &str, fix: &str| {
        if let (Some(found), None) = (r.find(beside), r.find(key)) {
            r.fault(&found.place, key, (format!("is missing beside {beside}"), fix.to_owned()));
        }
    };
    missing("purge.retention", "purge.tombstone_age", "say when claims become tombstones, such as \"30d\"");
    missing("purge.redelivery", "purge.tombstone_age", REDELIVERY);
    let tombstones = purge.tombstones();
    if let Some(retention) = purge.retention
        && let Err(Error::Invalid { faults, .. }) = PurgeRules::new(retention, tombstones, [])
    {
        let place = r.find("purge.tombstone_age").map_or(r.file.to_owned(), |found| found.place);
        for fault in faults {
            let (wrong, fix) = fault.rsplit_once("; ").unwrap_or((&fault, "choose other ages"));
            r.fault(&place, "purge.tombstone_age", (wrong.to_owned(), fix.to_owned()));
        }
    }
    purge
}

const REDELIVERY: &str = "say for how long a message can come again: the broker's lock times its deliveries, and the message's \
    time to live, and until when a person replays a dead-lettered one";

impl Purge {
    /// When tombstones are deleted, and what that must outlive.
    pub fn tombstones(&self) -> Option<Tombstones> {
        let redelivery = Retention::of(self.redelivery?);
        Some(Tombstones { age: self.tombstone_age?, redelivery })
    }
}

fn http(r: &mut Reader<'_>) -> HttpClient {
    let d = HttpClient::default();
    HttpClient {
        connect_timeout: r.duration("http.connect_timeout", d.connect_timeout),
        anonymous_origins: r
            .find("http.anonymous_origins")
            .map_or(vec![], |found| origins(r, &found.place, "http.anonymous_origins", &split(found.value))),
        attempt_header: r.read("http.attempt_header", |found| values::header(&text(found)?)),
        proxy: r.read("http.proxy", |found| secret_url(found, values::proxy_url)),
    }
}

/// A list in the environment is one text, separated by commas.
fn split(value: Value) -> Value {
    match value {
        Value::String(text) => {
            Value::Array(text.split(',').map(|part| Value::String(part.trim().to_owned())).collect())
        }
        other => other,
    }
}

fn origins(r: &mut Reader<'_>, place: &str, key: &str, value: &Value) -> Vec<Origin> {
    let Some(list) = value.as_array() else {
        r.fault(place, key, type_fault(value, "a list, such as [\"https://api.example.com\"]"));
        return vec![];
    };
    let mut origins = Vec::new();
    for (at, one) in list.iter().enumerate() {
        let judged = match one {
            Value::String(text) => values::origin(text),
            other => Err(type_fault(other, "a text in quotes")),
        };
        match judged {
            Ok(origin) => origins.push(origin),
            Err(wrong) => r.fault(place, &format!("{key}[{at}]"), wrong),
        }
    }
    origins
}

fn listen(r: &mut Reader<'_>) -> Listen {
    let d = Listen::default();
    let address = r.read("listen.address", |found| values::address(&text(found)?)).unwrap_or(d.address);
    let allow_public = r.boolean("listen.allow_public");
    if !address.ip().is_loopback() && !allow_public {
        let place = r.find("listen.address").map_or(r.file.to_owned(), |found| found.place);
        let wrong = format!("{address} can be reached from other machines, and nobody is asked who they are");
        let fix = "use 127.0.0.1, or set listen.allow_public = true where the network keeps others out";
        r.fault(&place, "listen.address", (wrong, fix.into()));
    }
    Listen { address, allow_public }
}

// ---- credentials: nothing that stands there is ever quoted ---------------------------------------------------

fn credentials(r: &mut Reader<'_>) -> BTreeMap<String, Credential> {
    let Some(all) = r.table.get("credentials").and_then(Value::as_table) else { return BTreeMap::new() };
    let tables = all.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
    let mut credentials = BTreeMap::new();
    for (name, table) in tables {
        let path = format!("credentials.{name}");
        if !values::is_credential_name(name) {
            let fix = "a name has 1 to 128 characters of A-Z a-z 0-9 . _ -";
            r.fault(r.file, &path, ("is not a name of a credential".into(), fix.into()));
        }
        if let Some(credential) = credential(r, &path, table) {
            credentials.insert(name.clone(), credential);
        }
    }
    credentials
}

fn credential(r: &mut Reader<'_>, path: &str, table: &Table) -> Option<Credential> {
    let source = source(r, path, table);
    let scheme = scheme(r, path, table);
    let allow_plain_http = match table.get("allow_plain_http") {
        None => false,
        Some(Value::Boolean(allow)) => *allow,
        Some(other) => {
            r.fault(r.file, &format!("{path}.allow_plain_http"), type_fault(other, "true or false"));
            false
        }
    };
    let key = format!("{path}.allowed_origins");
    let list = table.get("allowed_origins").cloned().unwrap_or(Value::Array(vec![]));
    let allowed_origins = origins(r, r.file, &key, &list);
    if list.as_array().is_some_and(Vec::is_empty) {
        let fix = "name where the secret may be sent, such as [\"https://api.example.com\"]";
        r.fault(r.file, &key, ("names no origin".into(), fix.into()));
    }
    if allowed_origins.iter().any(values::is_plain) && !allow_plain_http {
        let wrong = "holds an http:// origin, where anybody on the way can read the secret";
        let fix = format!("use https://, or set {path}.allow_plain_http = true");
        r.fault(r.file, &key, (wrong.into(), fix));
    }
    Some(Credential { source: source?, scheme: scheme?, allowed_origins, allow_plain_http })
}

fn source(r: &mut Reader<'_>, path: &str, table: &Table) -> Option<SecretSource> {
    let fault = |r: &mut Reader<'_>, key: &str, wrong: &str, fix: &str| {
        let key = if key.is_empty() { path.to_owned() } else { format!("{path}.{key}") };
        r.fault(r.file, &key, (wrong.into(), fix.into()));
        None
    };
    match (table.get("env"), table.get("file")) {
        (None, None) => {
            fault(r, "", "says not where its secret is", "set env = \"VARIABLE\" or file = \"PATH\"")
        }
        (Some(_), Some(_)) => fault(r, "", "has both env and file", "leave out one of the two"),
        (Some(Value::String(name)), None) if !values::is_variable_name(name) => fault(
            r,
            "env",
            "is not the name of an environment variable",
            "write the name in capitals, not the secret: \"STRIPE_KEY\"",
        ),
        (Some(Value::String(name)), None) if r.env.get(name).is_none_or(String::is_empty) => {
            fault(r, "env", &format!("names {name}, which is not set"), "set the variable to the secret")
        }
        (Some(Value::String(name)), None) => Some(SecretSource::Env(name.clone())),
        (None, Some(Value::String(file))) if !file.is_empty() => Some(SecretSource::File(file.into())),
        (Some(_), None) => fault(r, "env", "is not a text in quotes", "write the variable's name in quotes"),
        (None, Some(_)) => fault(r, "file", "is not a path", "write the file's path in quotes"),
    }
}

fn scheme(r: &mut Reader<'_>, path: &str, table: &Table) -> Option<Scheme> {
    const FIX: &str = "write \"bearer\", \"basic\" or \"header:NAME\"";
    let judged = match table.get("scheme") {
        None => Err(("is missing".into(), FIX.into())),
        Some(Value::String(text)) => match (text.as_str(), text.strip_prefix("header:")) {
            ("bearer", _) => Ok(Scheme::Bearer),
            ("basic", _) => Ok(Scheme::Basic),
            (_, Some(name)) => values::header(name).map(Scheme::Header),
            _ => Err(("is no scheme that is known".into(), FIX.into())),
        },
        Some(other) => Err(type_fault(other, "a text in quotes")),
    };
    match judged {
        Ok(scheme) => Some(scheme),
        Err(wrong) => {
            r.fault(r.file, &format!("{path}.scheme"), wrong);
            None
        }
    }
}
