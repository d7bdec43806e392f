//! How the database finds what is old: by its index, whatever else is in the table.

use earmark_claim::{State, Timestamp};
use earmark_tests::claims::{in_state, key, never, store};
use earmark_tests::old::{DAY, after_a_day, copy};
use earmark_tests::{Backend, TestDb, per_layout};
use sea_orm::{ConnectionTrait, Statement, Value};

/// The plan as text: one line for each row, its columns beside each other.
async fn plan(db: &TestDb, sql: &str) -> String {
    let connection = db.connection();
    let (explain, column) = match db.backend() {
        Backend::Sqlite => ("EXPLAIN QUERY PLAN ", "detail"),
        Backend::Postgres => ("EXPLAIN ", "QUERY PLAN"),
        Backend::MariaDb => ("EXPLAIN ", "key"),
    };
    let values: [Value; 3] = [0i64.into(), i64::try_from(DAY.as_micros()).unwrap().into(), 500i64.into()];
    let statement =
        Statement::from_sql_and_values(connection.get_database_backend(), format!("{explain}{sql}"), values);
    let rows = connection.query_all_raw(statement).await.unwrap();
    let line =
        |row: &sea_orm::QueryResult| row.try_get::<Option<String>>("", column).unwrap().unwrap_or_default();
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

per_layout! {
    async fn what_is_old_is_found_by_index_among_many(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("m-0"), State::Confirmed, never()).await;
        copy(&db, "m-", 5000).await;
        db.execute(&format!("UPDATE earmark_claim SET closed_at = closed_at - {}", (DAY * 2).as_micros())).await.unwrap();
        // Most are tombstones, some are old and not yet, some are new.
        while db.number("SELECT COUNT(*) FROM earmark_claim WHERE purged_at IS NULL").await > 100 {
            store.purge_batch(&after_a_day(), Timestamp::default(), 700).await.unwrap();
        }
        in_state(&db, &store, &key("n-0"), State::Confirmed, never()).await;
        copy(&db, "n-", 1000).await;
        let analyze = match db.backend() {
            Backend::MariaDb => "ANALYZE TABLE earmark_claim",
            _ => "ANALYZE",
        };
        db.connection().execute_unprepared(analyze).await.unwrap();
        for (sql, index) in store.purge_picks().into_iter().zip(["closed", "tombstone"]) {
            let plan = plan(&db, sql).await;
            let found = match db.backend() {
                // A partition's index has a name of the server's own making.
                Backend::Postgres if plan.contains("earmark_claim_p0") => plan.contains("closed_at_idx"),
                _ => plan.contains(&format!("earmark_claim_{index}")),
            };
            assert!(found && !plan.contains("Seq Scan") && !plan.contains("SCAN"), "{index}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "it comes in order: {plan}");
        }
    }
}
