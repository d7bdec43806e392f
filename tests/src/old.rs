//! Many claims, and old ones.

use std::time::Duration;

use earmark_claim::{ClaimKey, ClaimStore, PurgeRules, Timestamp};

use crate::claims::age;
use crate::{Backend, TestDb};

/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// Rules that make tombstones of what was closed a day ago, and keep those.
pub fn after_a_day() -> PurgeRules {
    PurgeRules::new(DAY, None, []).expect("rules")
}

/// Ages a claim by hand, the moment at which it was closed included.
pub async fn age_closed(db: &TestDb, key: &ClaimKey, by: Duration) {
    age(db, key, by).await;
    let micros = by.as_micros();
    let (consumer, message_id) = (key.consumer(), key.message_id());
    db.execute(&format!(
        "UPDATE earmark_claim SET closed_at = closed_at - {micros} WHERE consumer = '{consumer}' AND message_id = '{message_id}'"
    ))
    .await
    .expect("an update");
}

/// Makes a tombstone of a finished claim, as time and a purge would.
pub async fn purge(db: &TestDb, store: &ClaimStore, key: &ClaimKey) {
    age_closed(db, key, DAY * 2).await;
    let done = store.purge_batch(&after_a_day(), Timestamp::default(), 100).await.expect("a purge");
    assert_eq!(done.claims, 1, "{key}");
}

/// Makes `PREFIX1` to `PREFIXn-1` out of `PREFIX0`, in one statement.
pub async fn copy(db: &TestDb, prefix: &str, n: u32) {
    copy_apart(db, prefix, n, Duration::ZERO).await;
}

/// The same, each closed by so much later than the one before it.
pub async fn copy_apart(db: &TestDb, prefix: &str, n: u32, apart: Duration) {
    let digit = (0..10).map(|d| format!("SELECT {d} AS d")).collect::<Vec<_>>().join(" UNION ALL ");
    let places = (n - 1).max(1).ilog10() + 1;
    let from: Vec<_> = (0..places).map(|p| format!("({digit}) d{p}")).collect();
    let number: Vec<_> = (0..places).map(|p| format!("{} * d{p}.d", 10u32.pow(p))).collect();
    let number = format!("({})", number.join(" + "));
    let id = match db.backend() {
        Backend::MariaDb => format!("CONCAT('{prefix}', {number})"),
        Backend::Sqlite | Backend::Postgres => format!("'{prefix}' || {number}"),
    };
    let columns = columns(db).await;
    let apart = apart.as_micros();
    let value = |column: &String| match column.as_str() {
        "message_id" => id.clone(),
        "closed_at" => format!("e.closed_at + {apart} * {number}"),
        column => format!("e.{column}"),
    };
    let picked: Vec<_> = columns.iter().map(value).collect();
    let (columns, picked) = (columns.join(", "), picked.join(", "));
    let insert = format!(
        "INSERT INTO earmark_claim ({columns}) SELECT {picked} FROM earmark_claim e, {} \
         WHERE e.message_id = '{prefix}0' AND {number} BETWEEN 1 AND {}",
        from.join(", "),
        n - 1
    );
    assert_eq!(db.execute(&insert).await.expect("an insert"), u64::from(n - 1));
}

/// The columns of a claim, without MySQL's counter.
async fn columns(db: &TestDb) -> Vec<String> {
    use sea_orm::{ConnectionTrait, Statement};
    let sql = match db.backend() {
        Backend::Sqlite => "SELECT name AS c FROM pragma_table_info('earmark_claim')",
        Backend::Postgres => {
            "SELECT column_name::text AS c FROM information_schema.columns WHERE table_name = 'earmark_claim'"
        }
        Backend::MariaDb => {
            "SELECT CAST(column_name AS CHAR) AS c FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name = 'earmark_claim' AND column_name <> 'id'"
        }
    };
    let backend = db.connection().get_database_backend();
    let rows = db.connection().query_all_raw(Statement::from_string(backend, sql)).await.expect("columns");
    rows.iter().map(|row| row.try_get("", "c").expect("a column")).collect()
}
