//! What is a duplicate, and what is another constraint's business: decided by the server's code and the row under the key.

use earmark_claim::{Claimed, Error, Joined, NewClaim};
use earmark_tests::claims::{begin, count, host, host_with, key, never, new_claim, store, store_on, won};
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::ConnectionTrait;

/// Constraints that a service might add to our table, each with a claim that breaks it.
fn constraints(backend: Backend) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut all =
        vec![("a second unique index", vec!["CREATE UNIQUE INDEX shop_ref ON earmark_claim (business_ref)"])];
    match backend {
        // SQLite can add a CHECK or NOT NULL only to a new table; triggers do the same.
        Backend::Sqlite => {
            for (name, raise) in [("not null", "NEW.summary IS NULL"), ("check", "NEW.amount_minor IS NULL")]
            {
                let trigger: &'static str = Box::leak(
                    format!(
                        "CREATE TRIGGER shop_{} BEFORE INSERT ON earmark_claim WHEN {raise} \
                         BEGIN SELECT RAISE(ABORT, 'shop rule'); END",
                        name.replace(' ', "_")
                    )
                    .into_boxed_str(),
                );
                all.push((name, vec![trigger]));
            }
            all.push((
                "a foreign key",
                vec![
                    "CREATE TABLE shop (name TEXT PRIMARY KEY)",
                    "PRAGMA foreign_keys = OFF; \
                     ALTER TABLE earmark_claim ADD COLUMN shop TEXT NOT NULL DEFAULT 'none' REFERENCES shop (name); \
                     PRAGMA foreign_keys = ON",
                ],
            ));
        }
        Backend::Postgres => {
            all.push(("not null", vec!["ALTER TABLE earmark_claim ALTER COLUMN summary SET NOT NULL"]));
            all.push(("check", vec!["ALTER TABLE earmark_claim ADD CHECK (amount_minor IS NOT NULL)"]));
            all.push((
                "a foreign key",
                vec![
                    "CREATE TABLE shop (name text PRIMARY KEY)",
                    "ALTER TABLE earmark_claim ADD FOREIGN KEY (kind) REFERENCES shop (name)",
                ],
            ));
        }
        Backend::MariaDb => {
            all.push((
                "not null",
                vec!["ALTER TABLE earmark_claim MODIFY summary VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"],
            ));
            all.push(("check", vec!["ALTER TABLE earmark_claim ADD CHECK (amount_minor IS NOT NULL)"]));
            all.push((
                "a foreign key",
                vec![
                    "CREATE TABLE shop (name VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY)",
                    "ALTER TABLE earmark_claim ADD FOREIGN KEY (kind) REFERENCES shop (name)",
                ],
            ));
        }
    }
    all
}

fn of_order() -> NewClaim {
    NewClaim { business_ref: Some("order-1".into()), ..new_claim(never()) }
}

per_backend! {
    async fn another_constraint_is_an_error_and_never_a_duplicate(backend: Backend) {
        for (name, statements) in constraints(backend) {
            let db = TestDb::new(backend).await;
            if name == "a second unique index" {
                drop(won_of_order(&store(&db).await).await);
            }
            let before = count(&db, "earmark_claim").await;
            for sql in statements {
                db.connection().execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            }
            let store = store(&db).await;
            for _ in 0..2 {
                let refused = store.claim(&key("m1"), of_order()).await;
                assert!(matches!(refused, Err(Error::Rejected { .. })), "{name}: {refused:?}");
                assert!(!refused.unwrap_err().is_transient(), "{name}");
            }
            assert_eq!(count(&db, "earmark_claim").await, before, "{name}");
            let host = host(&db).await;
            let tx = begin(&host).await;
            let refused = store.claim_in(&tx, &key("m1"), of_order()).await;
            assert!(matches!(refused, Err(Error::InTransaction(_))), "{name}: {refused:?}");
            tx.rollback().await.unwrap();
        }
    }

    async fn a_duplicate_that_breaks_another_constraint_too_is_a_duplicate(db: TestDb) {
        db.execute("CREATE UNIQUE INDEX shop_ref ON earmark_claim (business_ref)").await.unwrap();
        let store = store(&db).await;
        drop(won_of_order(&store).await);
        let answer = store.claim(&key("order"), of_order()).await.unwrap();
        assert!(matches!(answer, Claimed::InFlight { .. }), "{answer:?}");
    }
}

async fn won_of_order(store: &earmark_claim::ClaimStore) -> Claimed {
    store.claim(&key("order"), of_order()).await.unwrap()
}

/// A duplicate is seen on the store's own connection and inside a caller's transaction.
async fn a_duplicate_is_seen(db: &TestDb, store: &earmark_claim::ClaimStore) {
    drop(won(store, &key("m1"), never()).await);
    let answer = store.claim(&key("m1"), new_claim(never())).await.unwrap();
    assert!(matches!(answer, Claimed::InFlight { .. }), "{answer:?}");
    let host = host(db).await;
    let tx = begin(&host).await;
    let answer = store.claim_in(&tx, &key("m1"), new_claim(never())).await.unwrap();
    assert!(matches!(answer, Joined::Lost(Claimed::InFlight { .. })), "{answer:?}");
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_index_and_an_added_primary_key_change_nothing_on_mariadb() {
    if !Backend::all().contains(&Backend::MariaDb) {
        return;
    }
    for sql in [
        "ALTER TABLE earmark_claim RENAME INDEX earmark_claim_key TO somebody_renamed_it",
        "ALTER TABLE earmark_claim DROP COLUMN id, DROP INDEX earmark_claim_key, ADD PRIMARY KEY (tenant, consumer, message_id)",
    ] {
        let db = TestDb::new(Backend::MariaDb).await;
        db.execute(sql).await.unwrap();
        a_duplicate_is_seen(&db, &store(&db).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_of_the_servers_errors_changes_nothing_on_mariadb() {
    if !Backend::all().contains(&Backend::MariaDb) {
        return;
    }
    let db = TestDb::new(Backend::MariaDb).await;
    let host = host_with(&db, "SET SESSION lc_messages = 'de_DE'").await;
    let error =
        host.execute_unprepared("INSERT INTO earmark_meta VALUES ('namespace', '', 1)").await.unwrap_err();
    println!("the server says: {error}");
    a_duplicate_is_seen(&db, &store_on(&host).await).await;
}

/// The conflict is reported under the name of the partition's own index.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_table_changes_nothing_on_postgres() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    db.connection()
        .execute_unprepared(
            "ALTER TABLE earmark_claim RENAME TO plain; \
             CREATE TABLE earmark_claim (LIKE plain INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY HASH (message_id); \
             ALTER TABLE earmark_claim ADD PRIMARY KEY (tenant, consumer, message_id); \
             CREATE TABLE p0 PARTITION OF earmark_claim FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
             CREATE TABLE p1 PARTITION OF earmark_claim FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        )
        .await
        .unwrap();
    a_duplicate_is_seen(&db, &store(&db).await).await;
}
