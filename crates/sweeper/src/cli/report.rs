//! `earmark report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, NaiveDate};
use earmark_claim::{ClaimStore, Snapshot, Timestamp};
use earmark_sweeper::config::Config;
use earmark_sweeper::report::input::{Input, Scope, Window};
use earmark_sweeper::report::{Options, Untrusted, build, read, render};

use super::common::{Common, duration};
use super::exit::Ended;
use super::out;

/// The reconciliation report: what happened, what is in doubt, what a person must decide, and the command that decides it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark report\n  earmark report --from 2026-11-30 --to 2026-12-01 --format html --out report.html\n  earmark report --format json --out /var/lib/earmark/reports/"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The time up to now that it is about.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration, conflicts_with_all = ["from", "to"])]
    since: Duration,
    /// The first moment that it is about: 2026-11-30 or 2026-11-30T06:00:00Z. Days begin in UTC.
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    from: Option<Timestamp>,
    /// The first moment that it is not about any more. Left out: now.
    #[arg(long, value_name = "MOMENT", value_parser = moment, requires = "from")]
    to: Option<Timestamp>,
    /// In which form.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// A file, or a directory in which a file is made that bears the window's end in its name. Left out: standard output.
    #[arg(long, value_name = "DIR|FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && to <= from
    {
        return Err(Ended::usage(format!("--to {to} is not after --from {from}")));
    }
    let (config, store) = args.common.open().await?;
    let from = match args.from {
        Some(from) => from,
        None => store.now().await?.minus(args.since),
    };
    let snapshot = store.snapshot(from).await?;
    let window = Window { from, to: args.to.unwrap_or(snapshot.as_of) };
    let input = input(&config, &store, &snapshot, window);
    store.close().await;
    let report = build(&input, &options(&config));
    let (text, ending) = match args.format {
        Format::Text => (render::text(&report), "txt"),
        Format::Json => (render::json(&report)?, "json"),
        Format::Html => (render::html(&report), "html"),
    };
    match args.out {
        None => out::text(&text)?,
        Some(path) => {
            let end = window.to.min(snapshot.as_of);
            let file = write(&path, &text, end, ending)?;
            eprintln!("earmark: written to {}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the report is built from.
pub(super) fn input(config: &Config, store: &ClaimStore, snapshot: &Snapshot, window: Window) -> Input {
    let scope = Scope {
        database: Untrusted::new(config.database.url.redacted()),
        namespace: Untrusted::from(store.namespace().as_str()),
        version: env!("CARGO_PKG_VERSION").into(),
        allow_non_durable: store.non_durable().is_some(),
    };
    read::input(snapshot, window, scope)
}

pub(super) fn options(config: &Config) -> Options {
    Options { orphan_after: config.sweep.orphan_after, margin: config.sweep.margin }
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let day = |day: NaiveDate| day.and_hms_opt(0, 0, 0).map(|t| t.and_utc().timestamp_micros());
    let micros = match DateTime::parse_from_rfc3339(text) {
        Ok(t) => Some(t.timestamp_micros()),
        Err(_) => text.parse::<NaiveDate>().ok().and_then(day),
    };
    micros.map(Timestamp::from_micros).ok_or_else(|| {
        format!("{text:?} is no moment: write 2026-11-30, or with time and zone 2026-11-30T06:00:00Z")
    })
}

/// Whole or not at all: a reader never finds half a report.
fn write(path: &Path, text: &str, end: Timestamp, ending: &str) -> anyhow::Result<PathBuf> {
    let file = if path.is_dir() {
        // No colon: some file systems know it for something else.
        let end: String = end.to_string().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
        path.join(format!("earmark-report-{end}Z.{ending}"))
    } else {
        path.to_owned()
    };
    let name = file.file_name().with_context(|| format!("{} is no file", file.display()))?;
    let half = file.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, &file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&half);
        Ended::usage(format!(
            "--out {}: cannot be written ({error}); name a directory that is there",
            file.display()
        ))
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_days_or_have_a_zone() {
        let shown = |text| moment(text).map(|t| t.to_string()).ok();
        assert_eq!(shown("2026-11-30").as_deref(), Some("2026-11-30T00:00:00.000000Z"));
        assert_eq!(shown("2026-11-30T06:00:00+02:00").as_deref(), Some("2026-11-30T04:00:00.000000Z"));
        for bad in ["yesterday", "2026-11-30T06:00:00", "2026-13-01"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }
}
