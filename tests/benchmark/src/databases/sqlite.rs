//! SQLite from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Executor};

use super::{Facts, home_name, migrate};
use crate::args::{Database, Flags};
use crate::disk;
use crate::loads::SQLITE_SCHEMA;
use crate::systems::{System, Tables};

pub struct Sqlite {
    folder: PathBuf,
    /// One connection to each file, so that its write-ahead log lives on between the rounds.
    homes: BTreeMap<String, SqlitePool>,
}

impl Sqlite {
    pub fn open(flags: &Flags) -> Result<Self> {
        let folder = flags.folder.join(format!("earmark-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Self { folder, homes: BTreeMap::new() })
    }

    pub fn facts(&self) -> Result<Facts> {
        let settings = "SQLite, bundled with sqlx, journal_mode=wal, synchronous=full".to_owned();
        let weak = disk::in_memory(&self.folder.to_string_lossy()).into_iter().collect();
        Ok(Facts { settings, weak })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sqlite"))
    }

    pub async fn make_home(&mut self, system: System) -> Result<String> {
        let name = home_name(system);
        let file = self.file(&name);
        let url = format!("sqlite://{}", file.display());
        if self.homes.contains_key(&name) {
            return Ok(url);
        }
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let one =
            || SqlitePoolOptions::new().min_connections(1).max_connections(1).connect_with(options.clone());
        let making = one().await?;
        if system.tables() == Tables::HandWritten {
            making.execute(SQLITE_SCHEMA).await?;
        }
        making.close().await;
        if system.tables() == Tables::Earmark {
            migrate(&url).await?;
        }
        let kept = one().await?;
        kept.fetch_one("SELECT count(*) FROM sqlite_schema").await?;
        self.homes.insert(name, kept);
        Ok(url)
    }

    pub async fn clean(&mut self) -> Result<()> {
        for pool in std::mem::take(&mut self.homes).into_values() {
            pool.close().await;
        }
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }

    pub async fn checkpoint(&self) -> Result<()> {
        for pool in self.homes.values() {
            pool.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        }
        Ok(())
    }

    /// The counter in the head of the wal-index that every committed write raises (`iChange`: bytes 8 to 11 of the `-shm` file, in
    /// the machine's own order; <https://sqlite.org/walformat.html#the_wal_index_file_format>).
    pub fn commits(&self, system: System) -> Result<Option<u64>> {
        let shm = format!("{}-shm", self.file(&home_name(system)).display());
        let head = fs::read(&shm).with_context(|| format!("{shm} cannot be read"))?;
        let change = head.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        Ok(change.map(u64::from))
    }

    pub async fn count(&self, system: System, round: &str) -> Result<u64> {
        let pool = self.homes.get(&home_name(system)).context("a system without a home")?;
        let count: i64 =
            sqlx::query_scalar(system.count_sql(Database::Sqlite)).bind(round).fetch_one(pool).await?;
        Ok(u64::try_from(count)?)
    }
}

impl Drop for Sqlite {
    /// After a failure, too.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
