//! How a database runs one of the store's statements: which indexes it uses, what it scans, and how many rows it reads.

use std::collections::BTreeSet;

use sea_orm::{ConnectionTrait, DatabaseTransaction, QueryResult, Statement, TransactionTrait, Value};

use crate::{Backend, EmptyDb};

/// A table with a row for each pause of a downstream, and its name in statements about claims: it is read as a whole where it is a page.
const SMALL: [&str; 2] = ["earmark_pause", "p"];

/// A plan.
#[derive(Debug)]
pub struct Plan {
    /// Every index in it. SQLite calls that of a primary key `sqlite_autoindex_…`.
    pub indexes: BTreeSet<String>,
    /// Every table, or name for one, that is read from its first row to its last.
    pub scanned: BTreeSet<String>,
    /// Rows of tables and indexes that were read. SQLite does not say; nor is it known of a write, which is not run.
    pub rows_read: Option<u64>,
    /// The plan as the database puts it.
    pub text: String,
}

impl Plan {
    /// The plan of the statement of that name, with these values. A read is run; a write is not.
    pub async fn of(db: &EmptyDb, name: &str, values: Vec<Value>) -> Self {
        let dialect = match db.backend() {
            Backend::Postgres => earmark_claim::Dialect::Postgres,
            Backend::MariaDb => earmark_claim::Dialect::MySql,
            Backend::Sqlite => earmark_claim::Dialect::Sqlite,
        };
        let found = dialect.statements().into_iter().find(|(known, _)| *known == name);
        let (_, sql) = found.unwrap_or_else(|| panic!("no statement is named {name}"));
        // One connection: on MariaDB the counters are a session's. Rolled back: a read may lock.
        let tx = db.connection().begin().await.unwrap();
        let plan = match db.backend() {
            Backend::Postgres => postgres(&tx, sql, values).await,
            Backend::MariaDb => mariadb(&tx, sql, values).await,
            Backend::Sqlite => sqlite(&tx, sql, values).await,
        };
        tx.rollback().await.unwrap();
        plan
    }

    /// The same plan with leave to scan a table that stays small: as it is called here, or by its name.
    #[must_use]
    pub fn beside(mut self, small: &[&str]) -> Self {
        self.scanned.retain(|table| !small.contains(&table.as_str()));
        self
    }

    /// Fails unless every one of these indexes is used, no table is scanned, and at most so many rows are read.
    #[track_caller]
    pub fn uses(&self, indexes: &[&str], rows_max: u64) {
        for index in indexes {
            assert!(self.indexes.contains(*index), "{index} is not used:\n{}", self.text);
        }
        let scanned: Vec<_> = self.scanned.iter().filter(|name| !SMALL.contains(&name.as_str())).collect();
        assert!(scanned.is_empty(), "{scanned:?} are scanned:\n{}", self.text);
        if let Some(read) = self.rows_read {
            assert!(read <= rows_max, "{read} rows are read, and not {rows_max}:\n{}", self.text);
        }
    }
}

async fn ask(tx: &DatabaseTransaction, sql: String, values: Vec<Value>) -> Vec<QueryResult> {
    let statement = Statement::from_sql_and_values(tx.get_database_backend(), &sql, values);
    tx.query_all_raw(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn is_read(sql: &str) -> bool {
    sql.trim_start_matches('(').starts_with("SELECT")
}

async fn postgres(tx: &DatabaseTransaction, sql: &str, values: Vec<Value>) -> Plan {
    let run = is_read(sql);
    let analyze = if run { "ANALYZE, TIMING OFF, SUMMARY OFF, " } else { "" };
    let rows = ask(tx, format!("EXPLAIN ({analyze}COSTS OFF) {sql}"), values).await;
    let lines: Vec<String> = rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
    let mut plan = Plan {
        indexes: BTreeSet::new(),
        scanned: BTreeSet::new(),
        rows_read: run.then_some(0),
        text: lines.join("\n"),
    };
    for line in &lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after =
            |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1)).copied();
        let mut reads = 0;
        if line.contains("Bitmap Index Scan on") {
            plan.indexes.extend(after("on").map(str::to_owned));
        } else if line.contains("Scan") && line.contains(" using ") {
            plan.indexes.extend(after("using").map(str::to_owned));
            reads = actual_rows(line);
        } else if line.contains("Seq Scan on") {
            plan.scanned.extend(after("on").map(str::to_owned));
        } else if line.contains("Bitmap Heap Scan on") {
            reads = actual_rows(line);
        } else if let Some(removed) = line.trim().strip_prefix("Rows Removed by Filter: ") {
            reads = removed.parse().unwrap();
        }
        plan.rows_read = plan.rows_read.map(|read| read + reads);
    }
    plan
}

/// `(actual rows=3 loops=2)`: six. Zero of what was never run.
fn actual_rows(line: &str) -> u64 {
    let number = |after: &str| -> Option<u64> {
        let digits = line.split_once(after)?.1;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    number("actual rows=").unwrap_or(0) * number(" loops=").unwrap_or(0)
}

async fn mariadb(tx: &DatabaseTransaction, sql: &str, values: Vec<Value>) -> Plan {
    let rows = ask(tx, format!("EXPLAIN {sql}"), values.clone()).await;
    let mut plan =
        Plan { indexes: BTreeSet::new(), scanned: BTreeSet::new(), rows_read: None, text: String::new() };
    for row in &rows {
        let column = |name: &str| row.try_get::<Option<String>>("", name).unwrap().unwrap_or_default();
        let (table, access, key, extra) = (column("table"), column("type"), column("key"), column("Extra"));
        plan.text += &format!("{table}: {access} {key} {extra}\n");
        // Of the rows of a union, a derived table or a document there is nothing to say.
        let of_table = !table.starts_with('<') && !extra.contains("Table function");
        if (access == "ALL" || access == "index") && of_table {
            plan.scanned.insert(table);
        }
        if !key.is_empty() {
            plan.indexes.insert(key);
        }
    }
    if is_read(sql) {
        let before = handler_reads(tx).await;
        let asking = handler_reads(tx).await - before;
        let before = handler_reads(tx).await;
        ask(tx, sql.to_owned(), values).await;
        plan.rows_read = Some(handler_reads(tx).await.saturating_sub(before + asking));
    }
    plan
}

/// Rows that this session has read so far, by a key, in order or one after the other.
async fn handler_reads(tx: &DatabaseTransaction) -> u64 {
    let rows = ask(tx, "SHOW SESSION STATUS LIKE 'Handler_read%'".to_owned(), Vec::new()).await;
    rows.iter().map(|row| row.try_get_by_index::<String>(1).unwrap().parse::<u64>().unwrap()).sum()
}

async fn sqlite(tx: &DatabaseTransaction, sql: &str, values: Vec<Value>) -> Plan {
    let rows = ask(tx, format!("EXPLAIN QUERY PLAN {sql}"), values).await;
    let lines: Vec<String> = rows.iter().map(|row| row.try_get("", "detail").unwrap()).collect();
    let mut plan =
        Plan { indexes: BTreeSet::new(), scanned: BTreeSet::new(), rows_read: None, text: lines.join("\n") };
    for line in &lines {
        if let Some((_, index)) = line.split_once("INDEX ") {
            plan.indexes.extend(index.split_whitespace().next().map(str::to_owned));
        } else if let Some(table) = line.strip_prefix("SCAN ").filter(|name| !name.starts_with("(subquery")) {
            plan.scanned.insert(table.to_owned());
        }
    }
    plan
}
