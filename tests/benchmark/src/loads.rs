//! The systems that this program can put under load. The others are in the package of the peers.

mod duplicates;
mod earmark;
mod mariadb;
mod postgres;
mod sqlite;

use anyhow::{Result, bail};

use crate::load::{Round, serve, url};

pub use earmark::one_claim;
pub use mariadb::SCHEMA as MARIADB_SCHEMA;
pub use postgres::SCHEMA as POSTGRES_SCHEMA;
pub use sqlite::SCHEMA as SQLITE_SCHEMA;

/// Runs the worker of that round.
pub fn work(round: &Round) -> Result<()> {
    let url = url()?;
    match (round.system.as_str(), round.database.as_str()) {
        ("earmark", _) => serve(round, earmark::EarmarkRun::open(&url, round)),
        ("earmark-duplicate", _) => serve(round, duplicates::Duplicates::open(&url, round)),
        ("primary-key-read", "postgres") => serve(round, postgres::KeyRead::open(&url, round)),
        ("primary-key-read", "mariadb") => serve(round, mariadb::KeyRead::open(&url, round)),
        ("primary-key-read", "sqlite") => serve(round, sqlite::KeyRead::open(&url, round)),
        ("hand-written", "postgres") => serve(round, postgres::HandWritten::open(&url, round)),
        ("hand-written", "mariadb") => serve(round, mariadb::HandWritten::open(&url, round)),
        ("hand-written", "sqlite") => serve(round, sqlite::HandWritten::open(&url, round)),
        (system, database) => bail!("{system} is not a load of this program on {database}"),
    }
}
