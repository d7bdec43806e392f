//! What the doctor looks at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use earmark_claim::failure::chain;
use earmark_claim::{ClaimStore, ClaimView, Snapshot, State, Timestamp};
use earmark_effects::http::FORM;
use earmark_migrations::{Inspection, inspect};
use earmark_sweeper::config::Config;
use earmark_sweeper::report::input::Window;
use earmark_sweeper::report::{Moment, Untrusted, build};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, TransactionTrait};

use super::{Finding, Level};
use crate::cli::{list, pause, report, setup};

/// How long the doctor waits for a database.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Deadlines are compared by the database's clock alone; people compare what they read with their own.
const SKEW_MAX: Duration = Duration::from_secs(1);
/// Requests of open claims that are read, to see whether they may go where they go.
const REQUESTS_MAX: usize = 1000;
/// Rows and origins that are named one by one.
const NAMED_MAX: usize = 10;

/// Secrets that cannot be sent now.
pub(super) async fn credentials(config: &Config) -> Vec<Finding> {
    match setup::credentials(config) {
        Ok(credentials) => {
            let unreadable = credentials.unreadable().await.into_iter();
            unreadable.map(|what| Finding::fault("credential", what, "put the secret there")).collect()
        }
        Err(error) => vec![Finding::fault("credential", chain(error.as_ref()), "")],
    }
}

/// The tables, read on a connection of its own.
pub(super) async fn schema(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let mut options = setup::connect_options(config, config.database.url.expose());
    options.connect_timeout(CONNECT_TIMEOUT).acquire_timeout(CONNECT_TIMEOUT);
    let db = setup::connect(config, options).await?;
    let inspected = if config.database.pooler { lent(&db).await } else { inspect(&db).await };
    let _ = db.close().await;
    Ok(match inspected {
        Ok(found) => {
            let mut findings = of_version(found.version, found.breaking, found.newest);
            if found.version > 0 {
                findings.extend(of_tables(&found));
            }
            findings
        }
        Err(error) => vec![Finding::fault("schema", chain(&error), "")],
    })
}

/// Behind a pooler: in one transaction, on a server that keeps no statement of it.
async fn lent(db: &DatabaseConnection) -> Result<Inspection, earmark_migrations::Error> {
    let failed = |source| earmark_migrations::Error::Database { doing: "reading the tables".into(), source };
    let tx = db.begin().await.map_err(failed)?;
    let is_postgres = db.get_database_backend() == DbBackend::Postgres;
    if is_postgres {
        tx.execute_unprepared("DEALLOCATE ALL").await.map_err(failed)?;
    }
    let found = inspect(&tx).await?;
    if is_postgres {
        tx.execute_unprepared("DEALLOCATE ALL").await.map_err(failed)?;
    }
    tx.rollback().await.map_err(failed)?;
    Ok(found)
}

fn of_version(version: u32, breaking: u32, newest: u32) -> Vec<Finding> {
    let finding = if version == 0 {
        Finding::fault("schema", "there are no tables of Earmark", "run earmark migrate")
    } else if breaking > newest {
        let what = format!("the tables need code that knows schema {breaking}; this knows {newest}");
        Finding::fault("schema", what, "deploy the newer earmark")
    } else if version < newest {
        let what = format!("the tables have schema {version}, and {newest} is the newest");
        Finding::fault("schema", what, "run earmark migrate")
    } else {
        Finding::note("schema", format!("version {version}"))
    };
    vec![finding]
}

fn of_tables(found: &Inspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(namespace) = &found.namespace {
        findings.push(Finding::note("namespace", namespace.clone()));
    }
    let guard =
        if found.guard { "installed" } else { "not installed: illegal moves typed by hand are not refused" };
    findings.push(Finding::note("guard", guard));
    if found.partitions > 0 {
        findings.push(Finding::note("partitions", format!("claims and events are in {}", found.partitions)));
    }
    for index in &found.missing_indexes {
        let fix = "make it again from the text of earmark migrate --print";
        findings.push(Finding::fault(
            "index",
            format!("{index} is missing, and reads scan the whole table"),
            fix,
        ));
    }
    findings
}

/// Durability, clocks, sweepers, and what the claims say.
pub(super) async fn claims(config: &Config, store: &ClaimStore) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(why) = store.non_durable() {
        let fix = "mend it; until then a power cut may lose claims, and effects be repeated without a trace";
        findings.push(Finding::new(Level::Warning, "durability", why, fix));
    }
    let before = host_now();
    let read = match store.now().await {
        Ok(now) => {
            findings.extend(skew(before, now, host_now()));
            store.snapshot(now).await
        }
        Err(error) => Err(error),
    };
    let snapshot = match read {
        Ok(snapshot) => snapshot,
        Err(error) => {
            findings.push(Finding::fault(
                "store",
                chain(&error),
                "see whether the tables were changed by hand",
            ));
            return findings;
        }
    };
    findings.extend(sweepers(config, &snapshot));
    findings.extend(snapshot.pauses.iter().filter(|p| p.stands()).map(|p| {
        let fix = "earmark resume, when its reason is gone; until then nothing is sent there";
        Finding::new(Level::Warning, "paused", pause::words(p), fix)
    }));
    findings.extend(unreadable(&snapshot));
    findings.extend(no_handler(config, store, &snapshot));
    findings.extend(origins(config, store, &snapshot.claims).await);
    findings
}

/// The host's clock, to be compared with the database's. Nothing is decided by it.
fn host_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// How far apart the clocks are at least: the database's was read somewhere between the two readings of the host's.
fn skew(before: Timestamp, database: Timestamp, after: Timestamp) -> Option<Finding> {
    let (ahead, behind) = (database.since(after), before.since(database));
    let (apart, which) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    let fix = "synchronise both with NTP: people compare the report's times with their own clocks";
    (apart > SKEW_MAX).then(|| {
        let what = format!("the database's clock is {} ms {which} this host's", apart.as_millis());
        Finding::new(Level::Warning, "clock", what, fix)
    })
}

/// Somebody must sweep; heartbeats of names that are no more are no fault.
fn sweepers(config: &Config, snapshot: &Snapshot) -> Vec<Finding> {
    let Ok(schedule) = setup::schedule(config) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut fresh = 0;
    for sweeper in &snapshot.sweepers {
        let name = Untrusted::from(sweeper.name.as_str()).exact();
        let since = sweeper.last_success_at.map(|at| snapshot.as_of.since(at));
        let stale = since.is_none_or(|since| schedule.is_overdue(since));
        fresh += usize::from(!stale);
        let when = sweeper.last_success_at.map_or("never".into(), |at| Moment(at).text());
        let stale = if stale { ", stale" } else { "" };
        findings
            .push(Finding::note("sweeper", format!("{name} {}: last pass {when}{stale}", sweeper.version)));
    }
    if fresh == 0 {
        let what = match snapshot.sweepers.len() {
            0 => "no sweeper has ever finished a pass here".to_owned(),
            n => format!("none of {n} sweepers has finished a pass for three intervals"),
        };
        findings.push(Finding::fault(
            "no_sweeper",
            what,
            "start earmark run, or a service that sweeps; see its log",
        ));
    }
    findings
}

fn unreadable(snapshot: &Snapshot) -> Vec<Finding> {
    let rows = &snapshot.unreadable;
    let fix =
        "mend the row by hand, with the help of docs/adr/0001-stored-form.md; until then nobody handles it";
    let mut findings: Vec<_> = rows
        .iter()
        .take(NAMED_MAX)
        .map(|row| Finding::fault("unreadable", Untrusted::from(row.as_str()).exact(), fix))
        .collect();
    if rows.len() > NAMED_MAX {
        findings.push(Finding::fault("unreadable", format!("and {} rows more", rows.len() - NAMED_MAX), fix));
    }
    findings
}

fn no_handler(config: &Config, store: &ClaimStore, snapshot: &Snapshot) -> Vec<Finding> {
    let window = Window { from: snapshot.as_of, to: snapshot.as_of };
    let report = build(&report::input(config, store, snapshot, window), &report::options(config));
    let finding = |group: &earmark_sweeper::report::model::NoHandler| {
        let fix = match (group.state, group.form.raw() == FORM) {
            (State::InFlight, _) => "start a sweeper: any can put it in doubt",
            (_, true) => "start earmark run; see its log for what fails",
            (_, false) => "start a service that registers this kind, with a sweeper in it",
        };
        let what = format!(
            "{} {} of {}, kind {}, form {}: due since {}, and nobody has handled them",
            group.tally.claims,
            group.state,
            group.consumer.exact(),
            group.kind.exact(),
            group.form.exact(),
            group.due_since.text()
        );
        Finding::fault("no_handler", what, fix)
    };
    report.no_handler.iter().map(finding).collect()
}

/// Open claims of form `http/1` that this process must not call: wrong origin, credential not configured, request not readable.
async fn origins(config: &Config, store: &ClaimStore, claims: &[ClaimView]) -> Vec<Finding> {
    let Ok(http) = setup::http(config) else { return Vec::new() };
    let open = |view: &&ClaimView| view.form == FORM && !view.facts.state.is_terminal();
    let mut why: std::collections::BTreeMap<String, (u64, String)> = std::collections::BTreeMap::new();
    for view in claims.iter().filter(open).take(REQUESTS_MAX) {
        let Ok(Some(request)) = store.request(&view.key).await else { continue };
        if let Err(failure) = http.admit(&request) {
            let age = list::age(view.facts.now.since(view.facts.created_at));
            let first = format!("{} ({age} old)", view.reference);
            why.entry(Untrusted::new(failure.message).prose()).or_insert((0, first)).0 += 1;
        }
    }
    why.into_iter()
        .take(NAMED_MAX)
        .map(|(message, (n, first))| {
            let what = format!("{n} open claims, {first} among them, would not be sent from here: {message}");
            Finding::fault("origin", what, "configure it, or let a service that may do it sweep")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_apart_are_told_and_a_slow_answer_is_not_blamed_on_them() {
        let at = |ms: i64| Timestamp::from_micros(1_000_000_000_000_000 + ms * 1000);
        assert_eq!(skew(at(0), at(5), at(10)), None);
        assert_eq!(skew(at(0), at(-900), at(10)), None);
        assert_eq!(skew(at(0), at(4000), at(5000)), None, "read somewhere in five seconds");
        let told = |database| skew(at(0), database, at(10)).map(|finding| finding.what).unwrap_or_default();
        assert!(told(at(3010)).contains("3000 ms ahead of"), "{}", told(at(3010)));
        assert!(told(at(-2000)).contains("2000 ms behind"), "{}", told(at(-2000)));
    }

    #[test]
    fn a_schema_is_judged_by_what_this_code_knows() {
        let codes = |version, breaking, newest| {
            let faults =
                of_version(version, breaking, newest).into_iter().filter(|f| f.level == Level::Fault);
            faults.map(|f| f.fix).collect::<Vec<_>>()
        };
        assert_eq!(codes(0, 0, 2), ["run earmark migrate"]);
        assert_eq!(codes(1, 1, 2), ["run earmark migrate"]);
        assert_eq!(codes(3, 3, 2), ["deploy the newer earmark"]);
        assert_eq!(codes(3, 2, 2), Vec::<String>::new());
    }
}
