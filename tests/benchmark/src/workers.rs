//! Workers from outside: processes that are started, told to begin, and listened to.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::load::{READY, Report, Round, URL_VARIABLE};
use crate::systems::System;

/// For connecting, and for the finished claims that some loads need.
const START: Duration = Duration::from_secs(120);
/// For what is under way when a round ends, beyond the round itself.
const END: Duration = Duration::from_secs(180);
/// The program of the peers, beside this one.
const PEERS: &str = "earmark-peers";

/// A worker that waits for its beginning, or is at work.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    complaints: JoinHandle<String>,
}

impl Worker {
    /// Starts one and waits until it is connected.
    pub async fn start(system: System, round: &Round, url: &str, wrap: Option<&str>) -> Result<Self> {
        let program = program(system)?;
        let mut words = wrap.map(|w| w.split_whitespace()).into_iter().flatten();
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        if !system.is_peer() {
            command.arg("worker");
        }
        let mut child = command
            .arg(serde_json::to_string(round)?)
            .env(URL_VARIABLE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut errors = child.stderr.take().context("no standard error")?;
        let complaints = tokio::spawn(async move {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text).await;
            text
        });
        let mut worker = Self { child, input, lines, complaints };
        match timeout(START, worker.lines.next_line()).await.context("not ready in time")?? {
            Some(line) if line == READY => Ok(worker),
            Some(line) => bail!("it says {line:?} instead of {READY:?}"),
            None => bail!(worker.why().await),
        }
    }

    /// Tells it to begin.
    pub async fn begin(&mut self) -> Result<()> {
        self.input.write_all(b"go\n").await?;
        Ok(self.input.flush().await?)
    }

    /// Waits for what it has done, and for its end.
    pub async fn report(mut self, round: &Round) -> Result<Report> {
        let patience = END + Duration::from_millis(round.warm_up_ms + round.measure_ms);
        let Some(line) = timeout(patience, self.lines.next_line()).await.context("no end in time")?? else {
            bail!(self.why().await);
        };
        let report = serde_json::from_str(&line).with_context(|| format!("it answers {line:?}"))?;
        // Its sessions are closed when it is gone.
        timeout(patience, self.child.wait()).await.context("it does not end")??;
        Ok(report)
    }

    /// The end of what it complained about.
    async fn why(mut self) -> String {
        let _ = self.child.kill().await;
        let text = self.complaints.await.unwrap_or_default();
        match text.trim() {
            "" => "it ended without a word".to_owned(),
            text => text.chars().skip(text.chars().count().saturating_sub(600)).collect(),
        }
    }
}

fn program(system: System) -> Result<PathBuf> {
    let own = std::env::current_exe().context("where is this program?")?;
    if !system.is_peer() {
        return Ok(own);
    }
    let peers = own.with_file_name(PEERS);
    if !peers.exists() {
        bail!("the peers' program is not built");
    }
    Ok(peers)
}
