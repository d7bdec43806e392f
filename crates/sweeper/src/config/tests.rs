//! What is accepted, what is refused, and that no secret is ever said.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::*;

const URL: &str = "postgres://app:s3cret@db-1/shop";
const EXAMPLE: &str = include_str!("../../../../docs/earmark.example.toml");

fn env(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// The text after a valid `[database]`.
fn read(text: &str, vars: &[(&str, &str)]) -> Result<Config, Faults> {
    let mut all = env(vars);
    all.entry("EARMARK_DATABASE_URL".into()).or_insert_with(|| URL.into());
    parse(text, "earmark.toml", &all)
}

fn faults(text: &str, vars: &[(&str, &str)]) -> Vec<String> {
    let faults = read(text, vars).expect_err("must be refused");
    faults.each().iter().map(Fault::to_string).collect()
}

#[test]
fn the_url_alone_is_enough() {
    let config = read("", &[]).unwrap();
    assert_eq!(config.database.url.expose(), URL);
    assert_eq!((config.sweep, config.http), (Sweep::default(), HttpClient::default()));
    assert_eq!((config.listen, config.report), (Listen::default(), ReportFiles::default()));
    assert!(config.credentials.is_empty() && !config.database.allow_non_durable);
    assert_eq!(config.purge, Purge::default());
    assert_eq!(config.purge.retention, None, "nothing is purged by itself");
}

#[test]
fn one_fault_names_place_key_and_fix() {
    let cases: &[(&str, &str)] = &[
        ("[sweep]\nlease = 30", "earmark.toml: sweep.lease: 30 has no unit; write \"30s\""),
        ("[sweep]\nlease = \"90\"", "sweep.lease: 90 has no unit; write \"90s\""),
        ("[sweep]\nlease = \"0s\"", "sweep.lease: zero makes no sense here"),
        ("[sweep]\nlease = \"-5s\"", "sweep.lease: a duration cannot be negative"),
        ("[sweep]\nlease = \"5M\"", "sweep.lease: \"M\" has no fixed length"),
        ("[sweep]\nlease = \"soon\"", "sweep.lease: \"soon\" is not a duration"),
        ("[sweep]\nlease = \"99999d\"", "sweep.lease: is longer than a year"),
        ("[sweep]\nlease = true", "sweep.lease: is a boolean instead of a duration as text"),
        ("[sweep]\nlaese = \"30s\"", "sweep.laese: is unknown; did you mean lease?"),
        (
            "[sweep]\nurl = \"x\"",
            "sweep.url: is unknown; did you mean database.url? It belongs under [database]",
        ),
        ("[sweep]\nzzzzzzzzzz = 1", "known keys are interval, schedule, batch_max"),
        ("[sweeps]\nlease = \"30s\"", "sweeps: is unknown; did you mean [sweep]?"),
        ("lease = \"30s\"", "lease: is unknown; did you mean sweep.lease? It belongs under [sweep]"),
        ("sweep = 5", "sweep: is an integer instead of a section"),
        ("[sweep]\nbatch_max = 0", "sweep.batch_max: 0 is out of range; write a number from 1 to 10000"),
        ("[sweep]\nbatch_max = -1", "sweep.batch_max: -1 is out of range"),
        ("[sweep]\nbatch_max = \"7\"", "sweep.batch_max: is a string instead of a whole number"),
        ("[sweep]\nmargin = \"60s\"", "sweep.margin: is not shorter than sweep.lease"),
        ("[sweep]\nbackoff_base = \"1h\"", "sweep.backoff_base: is not shorter than sweep.backoff_max"),
        ("[sweep]\ninterval = \"2h\"", "sweep.interval: is not shorter than sweep.orphan_after"),
        ("[sweep]\nschedule = \"*/5 * * * *\"", "sweep.schedule: has 5 fields instead of 6"),
        ("[sweep]\nschedule = \"99 * * * * *\"", "is not a cron expression"),
        (
            "[sweep]\nschedule = \"0 * * * * *\"\ninterval = \"10s\"",
            "is set beside sweep.interval; leave out one",
        ),
        ("[purge]\nretention = \"0s\"", "purge.retention: zero makes no sense here"),
        ("[purge]\nretention = \"99999d\"", "purge.retention: is longer than a hundred years"),
        (
            "[purge]\ntombstone_age = \"30d\"\nredelivery = \"1d\"",
            "purge.retention: is missing beside purge.tombstone_age",
        ),
        (
            "[purge]\nretention = \"1d\"\ntombstone_age = \"30d\"",
            "purge.redelivery: is missing beside purge.tombstone_age; say for how long a message can come again",
        ),
        (
            "[purge]\nretention = \"1h\"\ntombstone_age = \"2h\"\nredelivery = \"3h\"",
            "purge.tombstone_age: tombstones are deleted after 7200s, but a message can come again for 10800s: it would act \
             again; make the age of tombstones at least that long",
        ),
        (
            "[purge]\nretention = \"2h\"\ntombstone_age = \"1h\"\nredelivery = \"1h\"",
            "purge.tombstone_age: tombstones are deleted after 3600s, which is not longer than the retention of 7200s",
        ),
        ("[purge]\nschedule = \"hourly\"", "purge.schedule: has 1 fields instead of 6"),
        (
            "[purge]\nshare_percent = 101",
            "purge.share_percent: 101 is out of range; write a number from 1 to 100",
        ),
        ("[http]\nattempt_header = \"x y\"", "http.attempt_header: is not the name of a header"),
        ("[http]\nattempt_header = \"Idempotency-Key\"", "idempotency-key is set by Earmark itself"),
        ("[http]\nproxy = \"proxy:3128\"", "http.proxy: is not the URL of a proxy"),
        ("[http]\nanonymous_origins = \"https://a.example\"\nx = 1", "http.x: is unknown"),
        (
            "[http]\nanonymous_origins = [\"https://a.example/path\"]",
            "http.anonymous_origins[0]: goes on after the host",
        ),
        ("[http]\nanonymous_origins = [\"https://*.example\"]", "http.anonymous_origins[0]:"),
        ("[http]\nanonymous_origins = [\"ftp://a.example\", 7]", "http.anonymous_origins[1]: is an integer"),
        (
            "[listen]\naddress = \"0.0.0.0:9464\"",
            "can be reached from other machines, and nobody is asked who they are",
        ),
        ("[listen]\naddress = \"[::]:9464\"", "listen.allow_public = true"),
        ("[listen]\naddress = \"localhost\"", "listen.address: \"localhost\" is not an address"),
        ("[report]\ndir = \"\"", "report.dir: is empty"),
        ("[downstreams.a]\ncalls = 5", "downstreams.a.calls: is unknown"),
        ("[downstreams.a]\ncalls_per_second = \"5\"", "calls_per_second: is a string instead of a number"),
        (
            "[downstreams.a]\ncalls_per_second = 0",
            "calls_per_second: 0 is out of range; write how many calls",
        ),
        ("[downstreams.a]\ncalls_per_second = nan", "calls_per_second: nan is out of range"),
        ("[downstreams.a]\nconcurrent_calls = 0", "downstreams.a.concurrent_calls: 0 is out of range"),
        ("[downstreams.a]\nburst = 5", "downstreams.a.burst: says nothing without calls_per_second"),
        ("[downstreams.a]\nbreaker_failures = -1", "downstreams.a.breaker_failures: -1 is out of range"),
        ("[downstreams.a]\nbreaker_sample_every = 5", "breaker_sample_every: 5 has no unit; write \"5s\""),
        ("[downstreams]\nstripe = 5", "downstreams.stripe: is an integer instead of a section"),
        ("[downstreams.\"str\u{ef}pe\"]", "is not the name of a downstream"),
        ("[database]\nnamespace = \"a b\"", "database.namespace: \"a b\" is not a namespace"),
        (
            "[database]\nallow_non_durable = \"yes\"",
            "database.allow_non_durable: is a string instead of true or false",
        ),
        ("[database]\npooler = 1", "database.pooler: is an integer instead of true or false"),
        ("[database\n", "line 1 is not TOML"),
    ];
    for (text, wanted) in cases {
        let found = faults(text, &[]);
        assert!(
            found.iter().any(|fault| fault.contains(wanted)),
            "{text:?}\n  wanted {wanted}\n  found {found:#?}"
        );
    }
}

#[test]
fn a_pooler_before_a_file_is_refused() {
    let sqlite = [("EARMARK_DATABASE_URL", "sqlite://shop.db")];
    let found = faults("[database]\npooler = true", &sqlite);
    assert_eq!(
        found,
        ["earmark.toml: database.pooler: is set, and nothing stands before a SQLite file; leave it out"]
    );
    assert!(read("[database]\npooler = true", &[]).unwrap().database.pooler);
    assert!(!read("", &[]).unwrap().database.pooler);
}

#[test]
fn credentials_are_refused_without_a_source_a_scheme_and_an_origin() {
    let ok =
        "[credentials.a]\nenv = \"KEY\"\nscheme = \"bearer\"\nallowed_origins = [\"https://a.example\"]\n";
    let with = |from: &str, to: &str| ok.replace(from, to);
    let cases: &[(String, &str)] = &[
        (with("env = \"KEY\"\n", ""), "credentials.a: says not where its secret is"),
        (with("env", "file = \"/f\"\nenv"), "credentials.a: has both env and file"),
        (with("KEY", "sk_live_s3cret"), "credentials.a.env: is not the name of an environment variable"),
        (with("KEY", "OTHER"), "credentials.a.env: names OTHER, which is not set"),
        (with("scheme = \"bearer\"\n", ""), "credentials.a.scheme: is missing"),
        (with("bearer", "Bearer s3cret"), "credentials.a.scheme: is no scheme that is known"),
        (with("bearer", "header:"), "credentials.a.scheme: is not the name of a header"),
        (with("\"https://a.example\"", ""), "credentials.a.allowed_origins: names no origin"),
        (with("https", "http"), "set credentials.a.allow_plain_http = true"),
        (
            with("https://a", "https://user:s3cret@a"),
            "credentials.a.allowed_origins[0]: holds a user or a password",
        ),
        (with("scheme", "allow_plain_http = 1\nscheme"), "credentials.a.allow_plain_http: is an integer"),
        (with("scheme", "tokn = \"s3cret\"\nscheme"), "credentials.a.tokn: is unknown"),
        (with("scheme", "schema = 1\nscheme"), "credentials.a.schema: is unknown; did you mean scheme?"),
        (with("[credentials.a]", "[credentials.\"a b\"]"), "is not a name of a credential"),
        ("[credentials]\na = \"s3cret\"".into(), "credentials.a: is a string instead of a section"),
    ];
    let vars = [("KEY", "s3cret")];
    read(ok, &vars).unwrap();
    for (text, wanted) in cases {
        let found = faults(text, &vars);
        assert!(
            found.iter().any(|fault| fault.contains(wanted)),
            "{text}\n  wanted {wanted}\n  found {found:#?}"
        );
        assert!(!found.concat().contains("s3cret"), "{found:#?}");
    }
    let plain = with("https", "http") + "allow_plain_http = true";
    assert!(read(&plain, &vars).unwrap().credentials["a"].allow_plain_http);
    let header = read(&with("bearer", "header:X-Api-Key"), &vars).unwrap();
    assert_eq!(header.credentials["a"].scheme, Scheme::Header("x-api-key".into()));
}

#[test]
fn every_fault_is_reported_at_once() {
    let text = "
        retries = 5
        [database]
        url = \"oracle://scott:s3cret@db\"
        allow_non_durable = 1
        [sweep]
        lease = 30
        margin = \"0s\"
        batch_maxx = 5
        [http]
        proxy = \"socks4://u:s3cret@p\"
        anonymous_origins = [\"x\", \"https://ok.example\"]
        [credentials.a]
        env = \"s3cret\"
        [listen]
        address = \"0.0.0.0:80\"
        [report]
        dir = 5
    ";
    let vars = env(&[("EARMARK_SWEEP_LEESE", "1s"), ("EARMARK_SWEEP_BACKOFF_BASE", "10")]);
    let faults = parse(text, "earmark.toml", &vars).expect_err("must be refused");
    let mut places: Vec<_> =
        faults.each().iter().map(|f| if f.key.is_empty() { &f.place } else { &f.key }).collect();
    places.sort();
    assert_eq!(
        places,
        [
            "credentials.a.allowed_origins",
            "credentials.a.env",
            "credentials.a.scheme",
            "database.allow_non_durable",
            "database.url",
            "environment variable EARMARK_SWEEP_LEESE",
            "http.anonymous_origins[0]",
            "http.proxy",
            "listen.address",
            "report.dir",
            "retries",
            "sweep.backoff_base",
            "sweep.batch_maxx",
            "sweep.lease",
            "sweep.margin",
        ]
    );
    let text = faults.to_string();
    assert!(text.starts_with("15 faults in the configuration:\n  "), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    assert!(faults.each().iter().all(|f| !f.fix.is_empty() && !f.wrong.is_empty()));
    let base = faults.each().iter().find(|f| f.key == "sweep.backoff_base").unwrap();
    assert_eq!(base.place, "environment variable EARMARK_SWEEP_BACKOFF_BASE");
}

#[test]
fn the_environment_wins_over_the_file() {
    let text = "[sweep]\nlease = \"30s\"\nbatch_max = 5\n[listen]\nallow_public = false\n";
    let vars = [
        ("EARMARK_SWEEP_LEASE", "2m"),
        ("EARMARK_SWEEP_BATCH_MAX", "77"),
        ("EARMARK_LISTEN_ALLOW_PUBLIC", "true"),
        ("EARMARK_LISTEN_ADDRESS", "0.0.0.0:9464"),
        ("EARMARK_HTTP_ANONYMOUS_ORIGINS", "https://a.example, https://B.example:443"),
        ("EARMARK_REPORT_DIR", ""),
        ("EARMARK_CONFIG", "/etc/earmark.toml"),
    ];
    let config = read(text, &vars).unwrap();
    assert_eq!((config.sweep.lease, config.sweep.batch_max), (Duration::from_secs(120), 77));
    assert!(config.listen.allow_public);
    let origins: Vec<_> = config.http.anonymous_origins.iter().map(Origin::as_str).collect();
    assert_eq!(origins, ["https://a.example", "https://b.example"]);
    assert_eq!(config.report.dir, None, "an empty variable says nothing");
}

#[test]
fn every_variable_of_the_list_is_read() {
    for s in SETTINGS.iter().filter(|s| !s.key.is_empty()) {
        // No setting accepts this, but a URL is no place and a directory may have any name.
        let found = parse("", "f", &env(&[("EARMARK_DATABASE_URL", URL), (s.env, "\u{1}")]));
        let refused =
            found.as_ref().is_err_and(|faults| faults.each().iter().any(|f| f.place.contains(s.env)));
        assert!(refused || s.key == "report.dir", "{}: {found:?}", s.env);
    }
}

#[test]
fn an_unknown_variable_is_refused_but_not_those_of_kubernetes() {
    let found = faults("", &[("EARMARK_DATABSE_URL", "x")]);
    assert_eq!(
        found,
        ["environment variable EARMARK_DATABSE_URL: is unknown; did you mean EARMARK_DATABASE_URL?"]
    );
    let found = faults("", &[("EARMARK_WHATEVER_ELSE_THERE_IS", "x")]);
    assert!(found[0].ends_with("see the list of settings in --help"), "{found:?}");
    read(
        "",
        &[
            ("EARMARK_SERVICE_HOST", "10.0.0.1"),
            ("EARMARK_SERVICE_PORT_METRICS", "9464"),
            ("EARMARK_PORT", "tcp://10.0.0.1:9464"),
            ("EARMARK_PORT_9464_TCP_ADDR", "10.0.0.1"),
            ("OTHER", "x"),
        ],
    )
    .unwrap();
    let own = "[credentials.a]\nenv = \"EARMARK_A_KEY\"\nscheme = \"basic\"\nallowed_origins = [\"https://a.example\"]";
    read(own, &[("EARMARK_A_KEY", "x")]).unwrap();
}

#[test]
fn no_secret_is_printed() {
    let text = "[http]\nproxy = \"http://u:s3cret@proxy:3128\"\n";
    let config = read(text, &[]).unwrap();
    let printed =
        format!("{config:?} {config:#?} {} {}", config.database.url, config.http.proxy.as_ref().unwrap());
    assert!(!printed.contains("s3cret"), "{printed}");
    assert!(printed.contains("postgres://app:***@db-1/shop"));
    // A syntax error on the very line.
    let broken = parse("[database]\nurl = \"postgres://u:s3cret@db/x", "f", &env(&[])).expect_err("not TOML");
    assert!(!format!("{broken} {broken:?}").contains("s3cret"), "{broken}");
    assert!(broken.to_string().contains("line 2 is not TOML"), "{broken}");
}

#[test]
fn a_missing_file_is_a_fault_of_the_file() {
    let missing = load(Some(Path::new("no/such/earmark.toml")), &env(&[])).expect_err("missing");
    assert!(missing.to_string().contains("no/such/earmark.toml: cannot be read"), "{missing}");
    assert!(load(None, &env(&[("EARMARK_DATABASE_URL", "sqlite://claims.db")])).is_ok());
    assert!(load(None, &env(&[])).expect_err("no url").to_string().contains("database.url: is missing"));
}

// ---- the list, the defaults and the example agree -----------------------------------------------------------

#[test]
fn the_defaults_of_the_list_are_the_defaults() {
    let defaults: Vec<_> =
        SETTINGS.iter().filter(|s| !s.default.is_empty()).map(|s| (s.env, s.default)).collect();
    assert_eq!(read("", &defaults).unwrap(), read("", &[]).unwrap());
    assert_eq!(defaults.len(), 16);
}

#[test]
fn the_example_is_valid_and_whole() {
    let vars = env(&[("STRIPE_API_KEY", "x")]);
    let config = parse(EXAMPLE, "docs/earmark.example.toml", &vars).unwrap();
    assert_eq!(config.credentials.len(), 2);
    // Every setting is there, if only behind a comment sign.
    let shown = |section: &str, name: &str| {
        let body = EXAMPLE.split(&format!("\n[{section}]")).nth(1).unwrap();
        let body = body.split("\n[").next().unwrap();
        body.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")))
    };
    for s in SETTINGS.iter().filter(|s| !s.key.is_empty()) {
        assert!(shown(s.section(), s.name()), "{} is not in the example", s.key);
    }
    for (key, _) in CREDENTIAL_KEYS {
        assert!(
            shown("credentials.stripe", key) || shown("credentials.mail", key),
            "{key} is not in the example"
        );
    }
    for (key, _) in DOWNSTREAM_KEYS {
        assert!(shown("downstreams.stripe", key), "{key} is not in the example");
    }
    let stripe = &config.downstreams["stripe"];
    assert_eq!(
        (stripe.calls_per_second, stripe.burst, stripe.concurrent_calls),
        (Some(25.0), Some(10), Some(4))
    );
    let default = earmark_effects::Limits::default();
    assert_eq!(
        (stripe.breaker_failures, stripe.breaker_sample_every),
        (default.breaker_failures, default.breaker_sample_every)
    );
}

#[test]
fn what_the_example_calls_a_default_is_one() {
    let says_default = |line: &&str| line.starts_with('[') || line.ends_with("# default");
    let section = |line: &&str| !line.starts_with("[credentials") && !line.starts_with("[downstreams");
    let lines: Vec<_> = EXAMPLE.lines().filter(says_default).filter(section).collect();
    let said = lines.iter().filter(|line| line.ends_with("# default")).count();
    assert_eq!(said, SETTINGS.iter().filter(|s| !s.default.is_empty()).count());
    assert_eq!(read(&lines.join("\n"), &[]).unwrap(), read("", &[]).unwrap());
}

#[test]
fn help_names_everything() {
    let help = help();
    for s in SETTINGS {
        assert!(help.contains(s.env) && help.contains(s.key) && help.contains(s.what), "{}", s.env);
    }
}
