//! Children: this very program under another name, with pipes that end with the parent.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

/// A child. Dropped, it is killed and reaped; and should nobody be left to drop it, its standard input ends.
pub(super) struct Child {
    child: tokio::process::Child,
    stdin: Option<ChildStdin>,
}

/// How long a drop waits for what was killed: a moment, unless the machine is stuck.
const REAPED_WITHIN: Duration = Duration::from_secs(2);
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// What a child says, line by line.
pub(super) struct Voice(Lines<BufReader<ChildStdout>>);

impl Child {
    /// Starts one, and hands it its first line.
    pub(super) async fn start(
        role: &str,
        setup: &impl Serialize,
        log: &Path,
    ) -> anyhow::Result<(Self, Voice)> {
        let program = std::env::current_exe().context("this program's own file cannot be found")?;
        let errors = OpenOptions::new().create(true).append(true).open(log);
        let errors = errors.with_context(|| format!("the log {}", log.display()))?;
        let mut child = Command::new(program)
            .args(["demo-process", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("the process {role} cannot be started"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            anyhow::bail!("the process {role} has no pipes");
        };
        let mut this = Self { child, stdin: Some(stdin) };
        this.send(setup).await;
        Ok((this, Voice(BufReader::new(stdout).lines())))
    }

    /// One line. A child that has died says so by the end of its own lines.
    pub(super) async fn send(&mut self, line: &impl Serialize) {
        if let (Ok(mut text), Some(stdin)) = (serde_json::to_string(line), &mut self.stdin) {
            text.push('\n');
            let _ = stdin.write_all(text.as_bytes()).await;
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        let _ = self.child.start_kill();
    }

    /// Closes its standard input and waits for its end.
    pub(super) async fn end(mut self) -> std::io::Result<ExitStatus> {
        self.stdin = None;
        self.child.wait().await
    }
}

/// Whoever breaks off, by an error or by Ctrl-C, leaves neither a process nor a zombie.
impl Drop for Child {
    fn drop(&mut self) {
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            let _ = self.child.start_kill();
            if begun.elapsed() > REAPED_WITHIN {
                return;
            }
            std::thread::sleep(REAP_PAUSE);
        }
    }
}

impl Voice {
    /// `None`: it has ended.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            let line = self.0.next_line().await.ok()??;
            // A killed process may leave half a line.
            if let Ok(said) = serde_json::from_str(&line) {
                return Some(said);
            }
        }
    }
}
