//! Many claims at once, made by the database out of one that is there.

use std::ops::Range;

use sea_orm::{ConnectionTrait, Statement};

use crate::{Backend, EmptyDb};

/// Rows of one statement, at most: a power of ten.
const AT_ONCE: u64 = 100_000;

/// Copies the claim of that message id once for each number. `set`: columns that differ, each with an expression in which `{n}` is the number
/// and `e` the claim that is copied; the message id must be among them.
pub async fn fill(db: &EmptyDb, message_id: &str, numbers: Range<u64>, set: &[(&str, &str)]) {
    let columns = columns(db).await;
    let mut start = numbers.start;
    while start < numbers.end {
        let end = numbers.end.min(start + AT_ONCE);
        let number = number(start, end - start);
        let picked = columns.iter().map(|column| match set.iter().find(|(name, _)| name == column) {
            Some((_, expression)) => expression.replace("{n}", "s.n"),
            None => format!("e.{column}"),
        });
        let picked = picked.collect::<Vec<_>>().join(", ");
        let sql = format!(
            "INSERT INTO earmark_claim ({}) SELECT {picked} FROM earmark_claim e, ({number}) s \
             WHERE e.message_id = '{message_id}'",
            columns.join(", "),
        );
        let made = db.execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(made, end - start, "one claim is copied: {message_id}");
        start = end;
    }
}

/// A text and a number one after the other, as an expression for [`fill`].
pub fn text_and_number(backend: Backend, text: &str, number: &str) -> String {
    match backend {
        Backend::MariaDb => format!("CONCAT('{text}', {number})"),
        Backend::Sqlite | Backend::Postgres => format!("'{text}' || {number}"),
    }
}

/// So many numbers from the first on, as a query that every database reads.
fn number(first: u64, count: u64) -> String {
    let digits = (0..10).map(|d| format!("SELECT {d} AS d")).collect::<Vec<_>>().join(" UNION ALL ");
    let places = AT_ONCE.ilog10();
    let sum =
        (0..places).map(|place| format!("{} * d{place}.d", 10u64.pow(place))).collect::<Vec<_>>().join(" + ");
    let from = (0..places).map(|place| format!("({digits}) d{place}")).collect::<Vec<_>>().join(", ");
    format!("SELECT {first} + {sum} AS n FROM {from} WHERE {sum} < {count}")
}

/// The columns of a claim, without those that MySQL makes by itself.
async fn columns(db: &EmptyDb) -> Vec<String> {
    let sql = match db.backend() {
        Backend::Sqlite => "SELECT name AS c FROM pragma_table_info('earmark_claim')",
        Backend::Postgres => {
            "SELECT column_name::text AS c FROM information_schema.columns WHERE table_name = 'earmark_claim'"
        }
        Backend::MariaDb => {
            "SELECT CAST(column_name AS CHAR) AS c FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name = 'earmark_claim' AND extra = ''"
        }
    };
    let backend = db.connection().get_database_backend();
    let rows = db.connection().query_all_raw(Statement::from_string(backend, sql)).await.unwrap();
    rows.iter().map(|row| row.try_get("", "c").unwrap()).collect()
}
