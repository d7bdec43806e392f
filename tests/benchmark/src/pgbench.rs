//! The server's own ceiling: pgbench, which makes its rows inside the server, 500 at a time.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use url::Url;

use crate::load::Report;
use crate::payload::{RECEIPT_BYTES, REQUEST_BYTES};

/// Connections; more were never faster.
pub const CLIENTS: usize = 8;
const ROWS: u64 = 500;

/// Two statements, each its own commit, for 500 effects.
fn script(round: &str) -> String {
    format!(
        "\\set batch random(1, 9223372036854775807)
INSERT INTO effect (consumer, message_id, status, due_at, payload) SELECT '{round}', (:batch)::text || '-' || i, 1, now() + interval '60 s', convert_to(repeat('q', {REQUEST_BYTES}), 'UTF8') FROM generate_series(1, {ROWS}) i ON CONFLICT (consumer, message_id) DO NOTHING;
UPDATE effect SET status = 2, outcome = convert_to(repeat('r', {RECEIPT_BYTES}), 'UTF8'), updated_at = now() FROM generate_series(1, {ROWS}) i WHERE consumer = '{round}' AND message_id = (:batch)::text || '-' || i AND status = 1;
"
    )
}

/// One round of whole seconds.
pub async fn round(url: &str, round: &str, folder: &Path, seconds: f64) -> Result<Report> {
    let url = Url::parse(url)?;
    let file = folder.join(format!("earmark-bench-{}-{round}.pgbench", std::process::id()));
    fs::write(&file, script(round)).with_context(|| format!("{} cannot be written", file.display()))?;
    let mut command = Command::new("pgbench");
    command
        .args(["--no-vacuum", "-M", "prepared", "-j", "2", "-c", &CLIENTS.to_string()])
        .args(["-T", &format!("{seconds:.0}"), "-f"])
        .arg(&file)
        .args(["-h", url.host_str().unwrap_or("127.0.0.1"), "-p", &url.port().unwrap_or(5432).to_string()])
        .args(["-U", url.username()])
        .arg(url.path().trim_start_matches('/'))
        .env("PGPASSWORD", url.password().unwrap_or_default())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output =
        command.output().await.context("pgbench does not start: it comes with PostgreSQL's client package");
    let _ = fs::remove_file(&file);
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr).trim());
    let batches: u64 = number(&text, "number of transactions actually processed: ")? as u64;
    let per_second = number(&text, "tps = ")?;
    ensure!(batches > 0, "pgbench ended no batch");
    let effects = batches * ROWS;
    Ok(Report {
        effects,
        done: effects,
        measured: effects,
        seconds: batches as f64 / per_second,
        claim: None,
        settle: None,
        cpu_us: None,
    })
}

/// The number behind a label of pgbench's report.
fn number(text: &str, label: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let digits: String =
        line.unwrap_or_default().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().with_context(|| format!("pgbench says nothing of {label:?}: {text}"))
}
