//! The small questions that differ between databases. The only file, beside `connect.rs`, that matches on the database.

use sea_orm::{AccessMode, DbErr, IsolationLevel, SqliteTransactionMode, TransactionOptions, Value};

use super::sql::{self, Sql};

/// Our own closed enum: `sea_orm::DbBackend` is non-exhaustive and cannot be matched without a `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

/// What a failed statement leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Rolled back by the server because of others: again, soon.
    Contention,
    /// Never handed over, or definitely not done, for want of something that may come back.
    Unavailable,
    /// Definitely not done, and it never will be.
    Rejected,
    /// Handed over, and nobody said what became of it.
    Unclear,
}

impl Dialect {
    pub(crate) const fn backend(self) -> sea_orm::DbBackend {
        match self {
            Self::Postgres => sea_orm::DbBackend::Postgres,
            Self::MySql => sea_orm::DbBackend::MySql,
            Self::Sqlite => sea_orm::DbBackend::Sqlite,
        }
    }

    /// Every statement that the store runs on this database, by name, as it is sent: for whoever answers for the database, and for
    /// tests that ask for its plan.
    pub fn statements(self) -> Vec<(&'static str, &'static str)> {
        self.sql().all()
    }

    pub(crate) const fn sql(self) -> &'static Sql {
        match self {
            Self::Postgres => &sql::postgres::SQL,
            Self::MySql => &sql::mysql::SQL,
            Self::Sqlite => &sql::sqlite::SQL,
        }
    }

    /// How a writing transaction of ours begins. READ COMMITTED whatever the server's default: a duplicate must be seen,
    /// not raise a serialization error. SQLite takes the write lock first: a read that becomes a write fails at once.
    pub(crate) fn writing(self) -> TransactionOptions {
        let (isolation_level, sqlite_transaction_mode) = match self {
            Self::Postgres | Self::MySql => (Some(IsolationLevel::ReadCommitted), None),
            Self::Sqlite => (None, Some(SqliteTransactionMode::Immediate)),
        };
        TransactionOptions { isolation_level, access_mode: None, sqlite_transaction_mode }
    }

    /// How a transaction around one read begins.
    pub(crate) fn reading(self) -> TransactionOptions {
        self.read_only(IsolationLevel::ReadCommitted)
    }

    /// One snapshot for all statements. SQLite's deferred transaction is one from its first read on.
    pub(crate) fn snapshot(self) -> TransactionOptions {
        self.read_only(IsolationLevel::RepeatableRead)
    }

    fn read_only(self, level: IsolationLevel) -> TransactionOptions {
        let (isolation_level, access_mode) = match self {
            Self::Postgres | Self::MySql => (Some(level), Some(AccessMode::ReadOnly)),
            Self::Sqlite => (None, None),
        };
        TransactionOptions { isolation_level, access_mode, sqlite_transaction_mode: None }
    }

    /// Whether one autocommit statement is a safe claim or settle. Not on SQLite: an autocommit `INSERT … RETURNING` commits
    /// when the statement is reset, and that error is dropped.
    pub(crate) const fn autocommit_is_safe(self) -> bool {
        match self {
            Self::Postgres | Self::MySql => true,
            Self::Sqlite => false,
        }
    }

    /// Whether an insert can answer with the row it wrote. MariaDB could, MySQL cannot.
    pub(crate) const fn insert_returns(self) -> bool {
        match self {
            Self::Postgres | Self::Sqlite => true,
            Self::MySql => false,
        }
    }

    /// Whether a read can find that an uncommitted row holds a key. PostgreSQL shows it to nobody, but can be told how long an insert waits;
    /// MySQL knows whole seconds only. SQLite holds no rows.
    pub(crate) const fn shows_held_keys(self) -> bool {
        match self {
            Self::MySql => true,
            Self::Postgres | Self::Sqlite => false,
        }
    }

    /// A value of a key column: bytes on MySQL (`VARBINARY`), so that no collation and no padding rule applies.
    pub(crate) fn key_value(self, text: &str) -> Value {
        match self {
            Self::Postgres | Self::Sqlite => Value::from(text.to_owned()),
            Self::MySql => Value::from(text.as_bytes().to_vec()),
        }
    }

    /// The same, where the column may be null.
    pub(crate) fn key_value_opt(self, text: Option<&str>) -> Value {
        match (self, text) {
            (_, Some(text)) => self.key_value(text),
            (Self::Postgres | Self::Sqlite, None) => Value::from(None::<String>),
            (Self::MySql, None) => Value::from(None::<Vec<u8>>),
        }
    }

    /// A part of a key as the walk over what is due binds it: bytes, but on PostgreSQL, whose text is never anything else.
    pub(crate) fn walked_key(self, part: Vec<u8>) -> Value {
        match self {
            Self::Postgres => Value::from(String::from_utf8_lossy(&part).into_owned()),
            Self::MySql | Self::Sqlite => Value::from(part),
        }
    }

    /// What a failed statement left behind, by the server's numeric code.
    pub(crate) fn fault(self, error: &DbErr) -> Fault {
        // No connection could be made or had: nothing was handed over, whatever the server said to the login.
        if matches!(error, DbErr::Conn(_) | DbErr::ConnectionAcquire(_)) {
            return Fault::Unavailable;
        }
        match sqlx_error(error) {
            Some(sqlx::Error::Database(_)) => match self.code(error) {
                Some(code) => self.fault_of_code(&code),
                None => Fault::Unclear,
            },
            // No connection could be had: the statement was never handed over.
            Some(sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Configuration(_)) => {
                Fault::Unavailable
            }
            // The row is there and cannot be read: a decoding error is not a lost commit, but it proves nothing either.
            Some(_) => Fault::Unclear,
            None => match error {
                // Our own signs that a row went, or that an event's number was taken, between two statements.
                DbErr::RecordNotFound(_) | DbErr::RecordNotInserted => Fault::Contention,
                DbErr::Type(_) | DbErr::Json(_) | DbErr::TryIntoErr { .. } => Fault::Rejected,
                _ => Fault::Unclear,
            },
        }
    }

    /// The server's code: SQLSTATE on PostgreSQL, the error number on MySQL, the extended result code on SQLite.
    pub(crate) fn code(self, error: &DbErr) -> Option<String> {
        let Some(sqlx::Error::Database(database)) = sqlx_error(error) else { return None };
        match self {
            #[cfg(feature = "mysql")]
            Self::MySql => {
                database.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(|e| e.number().to_string())
            }
            _ => database.code().map(|c| c.into_owned()),
        }
    }

    fn fault_of_code(self, code: &str) -> Fault {
        match self {
            Self::Postgres => match code {
                // statement_completion_unknown: how CockroachDB and its kin say that nobody knows.
                "40003" => Fault::Unclear,
                // transaction_rollback (serialization_failure, deadlock_detected …), lock_not_available, query_canceled (a
                // statement timeout), a transaction that was idle or lasted too long
                "55P03" | "57014" | "25P03" | "25P04" => Fault::Contention,
                c if c.starts_with("40") => Fault::Contention,
                // The connection is going away, or the system failed: whether a commit went through is not said.
                c if ["08", "57P", "58", "XX"].iter().any(|class| c.starts_with(class)) => Fault::Unclear,
                // insufficient_resources (disk full, too many connections), read_only_sql_transaction
                c if c.starts_with("53") => Fault::Unavailable,
                "25006" | "25P02" => Fault::Unavailable,
                // A prepared statement that is not there, or whose name is taken: an undeclared pooler lent us another
                // server than the one it was prepared on. Nothing ran, and the next try may meet the right one.
                "26000" | "42P05" => Fault::Unavailable,
                _ => Fault::Rejected,
            },
            Self::MySql => match code {
                // deadlock, lock wait timeout, statement timeouts (MySQL, MariaDB), a row that changed since the snapshot
                // (MariaDB with innodb_snapshot_isolation, its default since 11.6), rolled back by group replication; a lock that
                // is not waited for; a wait for the lock of AUTO_INCREMENT, which a batch has that waits for a row
                "1213" | "1205" | "3024" | "1969" | "1020" | "3101" | "3572" | "1467" => Fault::Contention,
                // server shutdown, connection killed, aborted; an error during the commit, in it or in a hook of replication
                "1053" | "1927" | "1317" | "1152" | "1184" | "1180" | "3100" => Fault::Unclear,
                // too many connections, disk full, table full, read only; a node of a cluster that is not ready
                "1040" | "1203" | "1021" | "1114" | "1290" | "1792" | "1836" | "1047" => Fault::Unavailable,
                _ => Fault::Rejected,
            },
            Self::Sqlite => match code.parse::<u32>().map(|c| c & 0xff) {
                Ok(5 | 6 | 15) => Fault::Contention, // BUSY, LOCKED, PROTOCOL (a race for the WAL)
                Ok(8 | 13 | 14) => Fault::Unavailable, // READONLY, FULL, CANTOPEN
                Ok(10) => Fault::Unclear,            // IOERR
                _ => Fault::Rejected,
            },
        }
    }

    /// Whether this is a violation of a unique constraint; of which one, only a row under the key can tell.
    pub(crate) fn is_unique_violation(self, error: &DbErr) -> bool {
        matches!(
            (self, self.code(error).as_deref()),
            (Self::Postgres, Some("23505"))
                | (Self::MySql, Some("1062"))
                | (Self::Sqlite, Some("2067" | "1555"))
        )
    }

    /// Whether the statement waited too long for a row that another transaction holds. (SQLite has no rows that could be held.)
    pub(crate) fn is_lock_timeout(self, error: &DbErr) -> bool {
        matches!(
            (self, self.code(error).as_deref()),
            (Self::Postgres, Some("55P03")) | (Self::MySql, Some("1205" | "3572"))
        )
    }

    /// Whether the server has ended the caller's transaction, which must be begun again as a whole.
    pub(crate) fn is_whole_transaction_retry(self, error: &DbErr) -> bool {
        matches!(
            (self, self.code(error).as_deref()),
            (Self::Postgres, Some("40001" | "40P01")) | (Self::MySql, Some("1213" | "1020"))
        )
    }

    /// SQLite: the transaction read first and then wanted to write, or could not get the write lock.
    pub(crate) fn is_not_immediate(self, error: &DbErr) -> bool {
        self == Self::Sqlite
            && self
                .code(error)
                .is_some_and(|c| matches!(c.parse::<u32>(), Ok(c) if c & 0xff == 5 || c & 0xff == 6))
    }
}

/// The driver's error inside: the same failure shows up under several variants of `DbErr`.
pub(crate) fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        // Without a database, sea-orm has no driver whose error there could be.
        #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
        DbErr::Exec(sea_orm::RuntimeErr::SqlxError(e))
        | DbErr::Query(sea_orm::RuntimeErr::SqlxError(e))
        | DbErr::Conn(sea_orm::RuntimeErr::SqlxError(e)) => Some(e.as_ref()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Fault};

    #[test]
    fn what_nobody_knows_is_never_said_to_be_not_done() {
        for (dialect, code, fault) in [
            (Dialect::Postgres, "40003", Fault::Unclear),
            (Dialect::Postgres, "40001", Fault::Contention),
            (Dialect::Postgres, "25P03", Fault::Contention),
            (Dialect::Postgres, "57P01", Fault::Unclear),
            (Dialect::Postgres, "58030", Fault::Unclear),
            (Dialect::Postgres, "23514", Fault::Rejected),
            (Dialect::Postgres, "26000", Fault::Unavailable),
            (Dialect::Postgres, "42P05", Fault::Unavailable),
            (Dialect::MySql, "1180", Fault::Unclear),
            (Dialect::MySql, "3100", Fault::Unclear),
            (Dialect::MySql, "3101", Fault::Contention),
            (Dialect::MySql, "1047", Fault::Unavailable),
            (Dialect::MySql, "1467", Fault::Contention),
            (Dialect::MySql, "3819", Fault::Rejected),
            (Dialect::Sqlite, "15", Fault::Contention),
            (Dialect::Sqlite, "517", Fault::Contention),
            (Dialect::Sqlite, "3338", Fault::Unclear),
            (Dialect::Sqlite, "275", Fault::Rejected),
        ] {
            assert_eq!(dialect.fault_of_code(code), fault, "{dialect:?} {code}");
        }
    }
}
