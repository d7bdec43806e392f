//! The demo, run as a newcomer runs it: the built program, its real processes, its real kills.
//!
//! The servers come from `EARMARK_TEST_POSTGRES_URL` and `EARMARK_TEST_MYSQL_URL`; `EARMARK_TEST_QUICK=1` says that SQLite alone is meant.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "demo/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("earmark-demo-test-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn demo(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
    command.arg("demo").args(arguments).arg("--dir").arg(folder.path("demo")).env("NO_COLOR", "1");
    command
}

fn messages(folder: &Folder, count: u32) -> String {
    let line = |n: u32| match n % 2 {
        0 => format!(
            r#"{{"id":"m-{n}","tenant":"t","kind":"email","to":"a{n}@example.org","subject":"Hello"}}"#
        ),
        _ => format!(
            r#"{{"id":"m-{n}","kind":"charge","to":"cus_{n}","amount_minor":{},"currency":"EUR"}}"#,
            n + 100
        ),
    };
    let lines: Vec<_> = (0..count).map(line).collect();
    write(folder, &lines)
}

fn write(folder: &Folder, lines: &[String]) -> String {
    let path = folder.path("messages.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

/// The object on the last line of standard output.
fn object(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().last().unwrap_or_else(|| panic!("no output: {output:?}"));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

fn number(object: &Value, name: &str) -> u64 {
    object.pointer(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("{name} in {object}"))
}

/// What holds of every run, whatever the machine's timing.
fn check(output: &Output, count: u64) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let object = object(output);
    let n = |name: &str| number(&object, name);
    assert_eq!((n("/messages"), n("/effects")), (count, count), "{object}");
    for none in ["/duplicates", "/lost", "/in_doubt", "/escalated"] {
        assert_eq!(n(none), 0, "{none} in {object}");
    }
    assert!(n("/kills") >= 2, "{object}");
    assert!(n("/kills_in_call") * 2 >= n("/kills"), "{object}");
    assert!(n("/control/duplicates") > 0, "{object}");
    assert_eq!(n("/control/effects"), count + n("/control/duplicates") - n("/control/lost"), "{object}");
    let report = object["report"].as_str().unwrap_or_else(|| panic!("{object}"));
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("demo-pay") && html.contains(&count.to_string()), "{report}");
    object
}

#[test]
fn nothing_is_doubled_or_lost_under_claims_and_the_naive_check_doubles() {
    let folder = Folder::new();
    let file = messages(&folder, 40);
    let output = demo(&folder, &["--json", "--seed", "7", "--messages", &file]).output().unwrap();
    let object = check(&output, 40);
    assert_eq!(number(&object, "/seed"), 7);
    // What was printed is what the provider wrote down.
    let ledger = std::fs::read_to_string(folder.path("demo/downstream-ledger.jsonl")).unwrap();
    let of =
        |account: &str| ledger.lines().filter(|l| l.contains(&format!(r#""account":"{account}""#))).count();
    assert_eq!(of("earmark") as u64, number(&object, "/effects"));
    assert_eq!(of("control") as u64, number(&object, "/control/effects"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("seed 7") && !stderr.contains('\u{1b}'), "{stderr}");
}

#[test]
fn on_postgresql() {
    let Some(server) = server::Database::postgres() else { return };
    on_server(&server);
}

#[test]
fn on_mariadb() {
    let Some(server) = server::Database::mysql() else { return };
    on_server(&server);
}

fn on_server(server: &server::Database) {
    let folder = Folder::new();
    let file = messages(&folder, 12);
    let arguments = ["--json", "--messages", &file, "--database", server.url()];
    check(&demo(&folder, &arguments).output().unwrap(), 12);
    // A database may be used again; one with claims of somebody else's is refused before anything is done to it.
    server.execute("UPDATE earmark_claim SET consumer = 'billing' WHERE message_id = 'm-1'");
    let folder = Folder::new();
    let output = demo(&folder, &["--json", "--database", server.url()]).output().unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("not the demo's") && stderr.contains("empty database"), "{stderr}");
    assert!(!folder.path("demo").exists());
}

#[test]
fn a_bad_line_is_named_and_another_body_under_a_known_id_is_told_apart() {
    let folder = Folder::new();
    let charge = |id: &str, minor: i64| {
        format!(r#"{{"id":"{id}","kind":"charge","to":"c","amount_minor":{minor},"currency":"EUR"}}"#)
    };
    let lines = [
        charge("1", 100),
        charge("2", 0),
        charge("3", 300),
        "{".to_owned(),
        charge("1", 999),
        r#"{"id":"4","kind":"email","to":"a@example.org","colour":"red"}"#.to_owned(),
        charge("3", 300),
        r#"{"id":"5","kind":"email","to":"a@example.org"}"#.to_owned(),
    ];
    let file = write(&folder, &lines);
    let output = demo(&folder, &["--json", "--messages", &file]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let object = object(&output);
    let n = |name: &str| number(&object, name);
    assert_eq!((n("/messages"), n("/skipped"), n("/mismatches")), (3, 3, 1), "{object}");
    assert_eq!((n("/effects"), n("/duplicates"), n("/lost")), (3, 0, 0), "{object}");
    for named in
        ["line 2: amount_minor is 0", "line 4: ", "line 6: unknown field `colour`", "3 bad lines skipped"]
    {
        assert!(stderr.contains(named), "{named} in {stderr}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_made() {
    let folder = Folder::new();
    let none = write(&folder, &["{}".to_owned()]);
    let full = folder.0.display().to_string();
    for (arguments, part) in [
        (&["--messages", "/nowhere/m.jsonl"][..], "/nowhere/m.jsonl"),
        (&["--messages", &none], "no usable message"),
        (&["--database", "oracle://h/d"], "postgres://"),
        (&["--database", "postgres://h"], "no database"),
        (&["--database", "sqlite:///nowhere/at/all.sqlite"], "cannot be opened"),
        (&["--colour"], "--colour"),
        (&["--seed", "x"], "--seed"),
    ] {
        let output = demo(&folder, arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        assert!(stderr.contains(part), "{part} in {stderr}");
        assert!(!folder.path("demo").exists(), "{arguments:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_earmark")).args(["demo", "--dir", &full]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"), "{output:?}");
}

/// Linux: processes are read from /proc.
#[cfg(target_os = "linux")]
#[test]
fn children_end_with_a_parent_that_was_killed() {
    let folder = Folder::new();
    let mut parent = demo(&folder, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = parent.id();
    // Downstream, sweeper, two services.
    until("four children", || children(pid).len() >= 4);
    let started = children(pid);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("no child is left", || started.iter().all(|pid| !runs(*pid)));
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    const WITHIN: Duration = Duration::from_secs(20);
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WITHIN, "{what}: not within {WITHIN:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn runs(pid: u32) -> bool {
    // One that has ended may wait for whoever inherited it.
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn children(of: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, parent)| parent == of)).collect()
}
