//! The flags. `tests/bench --help` explains them with examples.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::systems::System;

/// Where the systems keep their effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Database {
    Postgres,
    Mariadb,
    Sqlite,
}

impl Database {
    /// Its name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Sqlite => "sqlite",
        }
    }
}

/// What is measured beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Extra {
    /// Duplicates of finished claims, against one read by primary key.
    Duplicates,
    /// One load by 1, 2 and 4 processes.
    Processes,
    /// Nothing.
    None,
}

/// Compares Earmark with the pattern written by hand and with its neighbours. Started by tests/bench.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// One round of one system in a process of its own; started by the benchmark.
    #[command(hide = true)]
    Worker {
        /// What to do, as JSON.
        round: String,
    },
}

#[derive(Debug, Args)]
pub struct Flags {
    /// Reads the flags and does nothing: for tests/bench, before it starts anything.
    #[arg(long, hide = true)]
    pub check: bool,
    /// A short run: fewer tasks, 3 pairs, 1 s each
    #[arg(long)]
    pub quick: bool,
    /// Databases [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub database: Vec<Database>,
    /// Systems [default: all that the database has]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub systems: Vec<System>,
    /// Effects under way at once [default: 1,8,32,64,128,256,1024; quick: 1,32,256]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub tasks: Vec<u32>,
    /// Rounds of each system, in turn [default: 5; quick: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: Option<u32>,
    /// Measured seconds of a round [default: 3; quick: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Finished effects that are in the table before (PostgreSQL)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub prefill: u64,
    /// What else is measured [default: duplicates,processes; none if --systems or --tasks is given]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub extras: Vec<Extra>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results of the extras as JSON
    #[arg(long, value_name = "FILE")]
    pub extra_json: Option<PathBuf>,
    /// Draw throughput against tasks
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Start workers through this command, for example "perf record -g -o FILE"
    #[arg(long, value_name = "COMMAND")]
    pub wrap: Option<String>,
    /// PostgreSQL, as a user who may create databases and checkpoint
    #[arg(long, value_name = "URL", env = "EARMARK_BENCH_POSTGRES_URL", hide_env_values = true)]
    pub postgres_url: Option<String>,
    /// MariaDB, as a user who may create databases
    #[arg(long, value_name = "URL", env = "EARMARK_BENCH_MYSQL_URL", hide_env_values = true)]
    pub mysql_url: Option<String>,
    /// Where SQLite's files are made, and the disk's fsync is measured
    #[arg(long, value_name = "FOLDER", env = "EARMARK_BENCH_FOLDER", default_value = "/var/tmp")]
    pub folder: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds from 0.2 to 600".to_owned()),
    }
}

/// What a run does, its defaults filled in.
#[derive(Debug)]
pub struct Plan {
    pub databases: Vec<Database>,
    pub systems: Vec<System>,
    pub tasks: Vec<usize>,
    pub pairs: u32,
    pub seconds: f64,
    pub extras: Vec<Extra>,
    /// Tasks that deliver finished messages again.
    pub duplicate_tasks: Vec<usize>,
}

impl Flags {
    /// Fills the defaults in.
    pub fn plan(&self) -> Plan {
        let or = |given: &[u32], full: &[u32], quick: &[u32]| -> Vec<usize> {
            let chosen = if !given.is_empty() {
                given
            } else if self.quick {
                quick
            } else {
                full
            };
            chosen.iter().map(|n| *n as usize).collect()
        };
        let extras = if !self.extras.is_empty() {
            self.extras.clone()
        } else if self.systems.is_empty() && self.tasks.is_empty() {
            vec![Extra::Duplicates, Extra::Processes]
        } else {
            Vec::new()
        };
        Plan {
            databases: if self.database.is_empty() {
                vec![Database::Postgres, Database::Mariadb, Database::Sqlite]
            } else {
                self.database.clone()
            },
            systems: if self.systems.is_empty() { System::MAIN.to_vec() } else { self.systems.clone() },
            tasks: or(&self.tasks, &[1, 8, 32, 64, 128, 256, 1024], &[1, 32, 256]),
            pairs: self.pairs.unwrap_or(if self.quick { 3 } else { 5 }),
            seconds: self.seconds.unwrap_or(if self.quick { 1.0 } else { 3.0 }),
            extras,
            duplicate_tasks: or(&self.tasks, &[1, 32, 256], &[32]),
        }
    }
}
