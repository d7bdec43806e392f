//! The databases from outside: settings, a home for each system, commits and counts.

mod mariadb;
mod postgres;
mod sqlite;

use anyhow::Result;
use earmark_migrations::Options;

use crate::args::{Database, Flags};
use crate::systems::System;

pub use mariadb::MariaDb;
pub use postgres::Postgres;
pub use sqlite::Sqlite;

/// A server, or the folder of SQLite's files.
pub enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
    Sqlite(Sqlite),
}

/// Where it keeps its data and with which settings: printed above the table.
pub struct Facts {
    /// One line.
    pub settings: String,
    /// Why its commits could be lost, or would cost nothing: not measured then.
    pub weak: Vec<String>,
}

impl Server {
    /// Connects to it.
    pub async fn open(database: Database, flags: &Flags) -> Result<Self> {
        Ok(match database {
            Database::Postgres => Self::Postgres(Postgres::open(flags).await?),
            Database::Mariadb => Self::MariaDb(MariaDb::open(flags).await?),
            Database::Sqlite => Self::Sqlite(Sqlite::open(flags)?),
        })
    }

    /// How durable it is.
    pub async fn facts(&self) -> Result<Facts> {
        match self {
            Self::Postgres(server) => server.facts().await,
            Self::MariaDb(server) => server.facts().await,
            Self::Sqlite(server) => server.facts(),
        }
    }

    /// Makes the database of that system with its tables, and answers its URL.
    pub async fn make_home(&mut self, system: System) -> Result<String> {
        match self {
            Self::Postgres(server) => server.make_home(system).await,
            Self::MariaDb(server) => server.make_home(system).await,
            Self::Sqlite(server) => server.make_home(system).await,
        }
    }

    /// Takes away what was made.
    pub async fn clean(&mut self) -> Result<()> {
        match self {
            Self::Postgres(server) => server.clean().await,
            Self::MariaDb(server) => server.clean().await,
            Self::Sqlite(server) => server.clean().await,
        }
    }

    /// Writes back what earlier rounds have left, so that no round pays for another.
    pub async fn checkpoint(&self) -> Result<()> {
        match self {
            Self::Postgres(server) => server.checkpoint().await,
            Self::MariaDb(_) => Ok(()),
            Self::Sqlite(server) => server.checkpoint().await,
        }
    }

    /// Transactions that this system's database has committed so far. Asked while no worker is connected.
    pub async fn commits(&self, system: System) -> Result<u64> {
        match self {
            Self::Postgres(server) => server.commits(system).await,
            Self::MariaDb(server) => server.commits().await,
            Self::Sqlite(server) => server.commits(system),
        }
    }

    /// Confirmed effects of that round.
    pub async fn count(&self, system: System, round: &str) -> Result<u64> {
        match self {
            Self::Postgres(server) => server.count(system, round).await,
            Self::MariaDb(server) => server.count(system, round).await,
            Self::Sqlite(server) => server.count(system, round).await,
        }
    }
}

/// Earmark's tables, on a connection that is closed before anybody else opens one.
async fn migrate(url: &str) -> Result<()> {
    let db = sea_orm::Database::connect(url).await?;
    earmark_migrations::run(&db, &Options::default()).await?;
    Ok(db.close().await?)
}

/// The name of a system's database: of this process, so that two runs on one server do not meet.
fn home_name(system: System) -> String {
    format!("earmark_bench_{}_{}", std::process::id(), system.home().replace('-', "_"))
}
