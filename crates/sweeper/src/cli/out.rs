//! Data on standard output, messages on standard error.

use std::io::{IsTerminal, Write};

use serde::Serialize;
use tracing_subscriber::EnvFilter;

/// Logs to standard error: the sidecar what it does, a tool what went wrong.
pub(crate) fn log(sidecar: bool) {
    // The scheduler tells at "info" how it is built.
    let default = if sidecar { "info,tokio_cron_scheduler=warn" } else { "warn" };
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|_| {
            eprintln!(
                "earmark: RUST_LOG cannot be read and is not used: write it as info or earmark_sweeper=debug"
            );
            EnvFilter::new(default)
        }),
        _ => EnvFilter::new(default),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let built =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour);
    // It fails only where a subscriber is installed already.
    let _ = built.try_init();
}

/// Writes text as it is. A reader that has gone (`| head`) is no failure.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line.
pub(crate) fn line(words: &str) -> anyhow::Result<()> {
    text(&format!("{words}\n"))
}

/// Writes JSON, so that what cannot be seen stands as an escape and the text is safe to print.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut safe = String::new();
    for c in serde_json::to_string_pretty(value)?.chars() {
        if c == '\n' || c == ' ' || !is_unseen(c) {
            safe.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    line(&safe)
}

fn is_unseen(c: char) -> bool {
    // What `Untrusted` shows by its code.
    let shown = earmark_sweeper::report::Untrusted::new(c.to_string()).prose();
    c != '\\' && shown != c.to_string()
}

/// Columns, each as wide as its widest cell; the last one as long as it is.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if at + 1 < row.len() {
                let pad = widths[at].saturating_sub(cell.chars().count()) + 2;
                out.extend(std::iter::repeat_n(' ', pad));
            }
        }
        out.push('\n');
    }
    out
}
