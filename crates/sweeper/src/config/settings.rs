//! The one list of what can be set.

use std::fmt::Write as _;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key's path in the file; empty where only the environment can say it.
    pub key: &'static str,
    /// The environment variable that overrides the file.
    pub env: &'static str,
    /// What holds where nobody says anything; empty: nothing, or it is required.
    pub default: &'static str,
    /// What it is for.
    pub what: &'static str,
}

const fn setting(key: &'static str, env: &'static str, default: &'static str, what: &'static str) -> Setting {
    Setting { key, env, default, what }
}

/// Every setting with a fixed name. Beside them `[credentials.NAME]` and `[downstreams.NAME]`, see [`CREDENTIAL_KEYS`] and [`DOWNSTREAM_KEYS`].
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("", "EARMARK_CONFIG", "", "the file to read; none: the environment alone"),
    setting("database.url", "EARMARK_DATABASE_URL", "", "required: postgres://, mysql:// or sqlite: URL of the service's database"),
    setting("database.pooler", "EARMARK_DATABASE_POOLER", "false", "a pooler (PgBouncer, in transaction or session mode) stands before the database"),
    setting("database.allow_non_durable", "EARMARK_DATABASE_ALLOW_NON_DURABLE", "false", "accept a database that may lose commits that it acknowledged; every report says so"),
    setting("database.namespace", "EARMARK_DATABASE_NAMESPACE", "", "refuse a database of another namespace"),
    setting("sweep.interval", "EARMARK_SWEEP_INTERVAL", "10s", "a pass starts this long after the last one started"),
    setting("sweep.schedule", "EARMARK_SWEEP_SCHEDULE", "", "instead of interval: cron expression of six fields (the first is seconds), in UTC"),
    setting("sweep.batch_max", "EARMARK_SWEEP_BATCH_MAX", "100", "most claims of one pass, 1 to 10000"),
    setting("sweep.lease", "EARMARK_SWEEP_LEASE", "60s", "for how long a claim is taken; longer than any call timeout and the margin"),
    setting("sweep.margin", "EARMARK_SWEEP_MARGIN", "1s", "kept free before the end of a lease and of a key window"),
    setting("sweep.backoff_base", "EARMARK_SWEEP_BACKOFF_BASE", "5s", "the first pause between two attempts; doubled each time"),
    setting("sweep.backoff_max", "EARMARK_SWEEP_BACKOFF_MAX", "15m", "the longest pause between two attempts"),
    setting("sweep.orphan_after", "EARMARK_SWEEP_ORPHAN_AFTER", "1h", "a claim due for longer is reported as without a handler"),
    setting("sweep.call_concurrency", "EARMARK_SWEEP_CALL_CONCURRENCY", "8", "calls at the same time, 1 to 1000"),
    setting("purge.retention", "EARMARK_PURGE_RETENTION", "", "how long after it was closed a claim loses request, answer and history; without it nothing is purged"),
    setting("purge.tombstone_age", "EARMARK_PURGE_TOMBSTONE_AGE", "", "how long after it was closed what is left of a claim is deleted and its key is free; without it never"),
    setting("purge.redelivery", "EARMARK_PURGE_REDELIVERY", "", "required with tombstone_age: for how long a message can come again"),
    setting("purge.schedule", "EARMARK_PURGE_SCHEDULE", "0 17 * * * *", "when a purge starts: cron expression of six fields (the first is seconds), in UTC"),
    setting("purge.batch_max", "EARMARK_PURGE_BATCH_MAX", "500", "most claims of one transaction, 10 to 10000"),
    setting("purge.share_percent", "EARMARK_PURGE_SHARE_PERCENT", "10", "most of one connection's time that a purge uses, 1 to 100"),
    setting("purge.rows_per_second", "EARMARK_PURGE_ROWS_PER_SECOND", "", "most claims purged in a second; without it as many as the share allows"),
    setting("http.connect_timeout", "EARMARK_HTTP_CONNECT_TIMEOUT", "5s", "how long connecting may take"),
    setting("http.anonymous_origins", "EARMARK_HTTP_ANONYMOUS_ORIGINS", "", "origins that may be called without a credential (in the environment: separated by commas)"),
    setting("http.attempt_header", "EARMARK_HTTP_ATTEMPT_HEADER", "", "a header that carries the number of the attempt"),
    setting("http.proxy", "EARMARK_HTTP_PROXY", "", "http://, https:// or socks5:// URL of a proxy"),
    setting("listen.address", "EARMARK_LISTEN_ADDRESS", "127.0.0.1:9464", "where metrics and health are served"),
    setting("listen.allow_public", "EARMARK_LISTEN_ALLOW_PUBLIC", "false", "let other machines reach that address; nobody is asked who they are"),
    setting("report.dir", "EARMARK_REPORT_DIR", "", "the directory that reports are written to"),
];

/// The keys of a `[credentials.NAME]` and what they are for. Secrets themselves stand in no file of ours.
pub const CREDENTIAL_KEYS: &[(&str, &str)] = &[
    ("env", "the environment variable that holds the secret; this or file"),
    ("file", "the file that holds the secret; this or env"),
    ("scheme", "required: bearer, basic (the secret is user:password) or header:NAME"),
    ("allowed_origins", "required: where the secret may be sent, and nowhere else"),
    (
        "allow_plain_http",
        "allow an http:// origin, where anybody on the way can read the secret (default false)",
    ),
];

/// The keys of a `[downstreams.NAME]` and what they are for. All of them hold for each process by itself.
pub const DOWNSTREAM_KEYS: &[(&str, &str)] = &[
    (
        "calls_per_second",
        "calls and looks in a second, on average; fractions are allowed (default: any number)",
    ),
    ("burst", "how many of them may come at once after a rest (default: one second's worth)"),
    ("concurrent_calls", "calls and looks under way at once (default: any number)"),
    ("breaker_failures", "after so many failures in a row it is only sampled (default 5)"),
    (
        "breaker_sample_every",
        "then one call in each such interval goes through, until one is answered (default 5s)",
    ),
];

impl Setting {
    /// `sweep` of `sweep.lease`.
    pub(super) fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// `lease` of `sweep.lease`.
    pub(super) fn name(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(_, name)| name)
    }
}

/// The list for `--help` and the documents.
pub fn help() -> String {
    let mut out = String::from("Settings: key in the file, environment variable, default\n");
    for s in SETTINGS {
        let key = if s.key.is_empty() { "(environment only)" } else { s.key };
        let default = if s.default.is_empty() { String::new() } else { format!("  [{}]", s.default) };
        // Writing to a String cannot fail.
        let _ = write!(out, "\n  {key}  {}{default}\n      {}\n", s.env, s.what);
    }
    for (heading, keys) in [
        ("For each credential, [credentials.NAME]", CREDENTIAL_KEYS),
        ("For each downstream that has limits, of this process, [downstreams.NAME]", DOWNSTREAM_KEYS),
    ] {
        let _ = write!(out, "\n{heading} in the file:\n");
        for (key, what) in keys {
            let _ = write!(out, "\n  {key}\n      {what}\n");
        }
    }
    out
}
