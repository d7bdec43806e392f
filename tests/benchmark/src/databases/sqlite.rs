//! SQLite from outside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
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
    homes: BTreeMap<String, Home>,
}

struct Home {
    /// One connection, so that the write-ahead log lives on between the rounds.
    kept: SqlitePool,
    /// The wal-index. Never closed before the connection: a process that closes any of its handles of a file loses all its locks on
    /// that file, and SQLite's next one would begin a new wal-index.
    index: File,
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
        let index = format!("{}-shm", file.display());
        let index = File::open(&index).with_context(|| format!("{index} cannot be read"))?;
        self.homes.insert(name, Home { kept, index });
        Ok(url)
    }

    pub async fn clean(&mut self) -> Result<()> {
        for home in std::mem::take(&mut self.homes).into_values() {
            home.kept.close().await;
        }
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }

    pub async fn checkpoint(&self) -> Result<()> {
        for home in self.homes.values() {
            home.kept.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        }
        Ok(())
    }

    /// The counter in the head of the wal-index that every committed write raises (`iChange`: bytes 8 to 11 of the `-shm` file, in
    /// the machine's own order; <https://sqlite.org/walformat.html#the_wal_index_file_format>).
    pub fn commits(&self, system: System) -> Result<u64> {
        let mut change = [0; 4];
        self.home(system)?.index.read_exact_at(&mut change, 8).context("the wal-index cannot be read")?;
        Ok(u64::from(u32::from_ne_bytes(change)))
    }

    fn home(&self, system: System) -> Result<&Home> {
        self.homes.get(&home_name(system)).context("a system without a home")
    }

    pub async fn count(&self, system: System, round: &str) -> Result<u64> {
        let sql = system.count_sql(Database::Sqlite);
        let count: i64 = sqlx::query_scalar(sql).bind(round).fetch_one(&self.home(system)?.kept).await?;
        Ok(u64::try_from(count)?)
    }
}

impl Drop for Sqlite {
    /// After a failure, too.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
