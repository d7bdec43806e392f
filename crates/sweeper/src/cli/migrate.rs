//! `earmark migrate`.

use std::process::ExitCode;

use earmark_migrations::Dialect;

use super::common::Common;
use super::exit::Ended;
use super::{out, setup};

/// Makes or upgrades Earmark's tables in the service's database. Does nothing where they are up to date.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  earmark migrate --database sqlite://shop.db --namespace shop\n  earmark migrate --print postgres > earmark.sql"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Prints the SQL for this database instead, and touches none.
    #[arg(long, value_name = "DIALECT")]
    print: Option<Printed>,
    /// Also the guard: triggers that refuse illegal moves typed by hand. They cost every settle.
    #[arg(long)]
    guard: bool,
    /// From which all idempotency keys of this database are made; chosen once, before the first claim. Random if left out.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// PostgreSQL: claims and events in so many hash partitions by the claim's key, 2 to 256. Chosen when the tables are made.
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Prints JSON.
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Printed {
    Postgres,
    Mysql,
    Sqlite,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(dialect) = args.print {
        print(dialect, args.guard, args.partitions)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = args.common.load()?;
    let namespace = args.namespace.or_else(|| config.database.namespace.clone());
    let options = setup::connect_options(&config, &creating(config.database.url.expose()));
    let db = setup::connect(&config, options).await?;
    let options = earmark_migrations::Options {
        namespace,
        guard: args.guard,
        pooler: config.database.pooler,
        partitions: args.partitions,
    };
    let done = earmark_migrations::run(&db, &options).await.map_err(|error| match error {
        earmark_migrations::Error::BadNamespace { .. }
        | earmark_migrations::Error::OtherNamespace { .. }
        | earmark_migrations::Error::Partitions { .. }
        | earmark_migrations::Error::OtherPartitions { .. } => Ended::usage(error.to_string()),
        error => error.into(),
    })?;
    db.close().await?;
    if args.json {
        out::json(&serde_json::json!({
            "from": done.from, "to": done.to, "applied": done.applied, "namespace": done.namespace,
            "guard_installed": done.guard_installed, "partitions": done.partitions,
        }))?;
    } else {
        let applied =
            if done.applied.is_empty() { "nothing to do".to_owned() } else { done.applied.join(", ") };
        let guard = if done.guard_installed { "; the guard is installed" } else { "" };
        let parts =
            if done.partitions > 0 { format!("; {} partitions", done.partitions) } else { String::new() };
        out::line(&format!(
            "schema {} (was {}): {applied}{guard}{parts}; namespace {}",
            done.to, done.from, done.namespace
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(dialect: Printed, guard: bool, partitions: Option<u32>) -> anyhow::Result<()> {
    let dialect = match dialect {
        Printed::Postgres => Dialect::Postgres,
        Printed::Mysql => Dialect::MySql,
        Printed::Sqlite => Dialect::Sqlite,
    };
    if partitions.is_some() && dialect != Dialect::Postgres {
        return Err(Ended::usage(
            "only the tables for PostgreSQL can be partitioned: leave --partitions out",
        ));
    }
    for migration in earmark_migrations::sql(dialect) {
        let cut = partitions.map(|count| earmark_migrations::partitioned(migration.sql, count)).transpose();
        let cut = cut.map_err(|error| Ended::usage(error.to_string()))?;
        out::text(cut.as_deref().unwrap_or(migration.sql))?;
    }
    if guard {
        out::text(earmark_migrations::guard_sql(dialect))?;
    }
    Ok(())
}

/// A file that is not there yet is what a first migration is for.
fn creating(url: &str) -> String {
    if url.starts_with("sqlite:") && !url.contains("mode=") {
        let separator = if url.contains('?') { '&' } else { '?' };
        return format!("{url}{separator}mode=rwc");
    }
    url.to_owned()
}
