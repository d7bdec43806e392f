//! How the tables come to be: from nothing, twice, by several at once, half-way, and beyond what this code knows.

use earmark_migrations::{Error, Options, run};
use earmark_tests::{Backend, EmptyDb, TestDb, per_backend};
use sea_orm::{ConnectOptions, ConnectionTrait, Database};

/// As many instances of a service as start at once after a deploy.
const RUNNERS: usize = 6;

const TABLES: [&str; 6] =
    ["earmark_claim", "earmark_event", "earmark_orphan", "earmark_sweeper", "earmark_pause", "earmark_meta"];

fn named(namespace: &str) -> Options {
    Options { namespace: Some(namespace.to_owned()), ..Options::default() }
}

async fn set_meta(db: &EmptyDb, name: &str, value: &str) {
    db.execute(&format!("UPDATE earmark_meta SET value = '{value}' WHERE name = '{name}'")).await.unwrap();
}

per_backend! {
    async fn up_from_empty(db: EmptyDb) {
        let report = run(db.connection(), &Options::default()).await.unwrap();
        assert_eq!((report.from, report.to, report.applied), (0, 1, vec!["0001_claims"]));
        assert!(!report.guard_installed);
        assert_eq!(report.namespace.len(), 32, "{}", report.namespace);
        assert!(report.namespace.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        for table in TABLES {
            let rows = if table == "earmark_meta" { 3 } else { 0 };
            assert_eq!(db.number(&format!("SELECT count(*) FROM {table}")).await, rows, "{table}");
        }
    }

    async fn a_second_run_does_nothing(db: EmptyDb) {
        let first = run(db.connection(), &Options::default()).await.unwrap();
        let second = run(db.connection(), &Options::default()).await.unwrap();
        assert_eq!((second.from, second.to, second.applied), (1, 1, vec![]));
        assert_eq!(second.namespace, first.namespace);
    }

    async fn of_many_runners_at_once_one_applies_and_none_fails(db: EmptyDb) {
        let mut runners = Vec::new();
        for _ in 0..RUNNERS {
            let url = db.url().to_owned();
            runners.push(tokio::spawn(async move {
                let own = Database::connect(&url).await.unwrap();
                let report = run(&own, &Options { guard: true, ..Options::default() }).await;
                own.close().await.unwrap();
                report
            }));
        }
        let mut applied = 0;
        for runner in runners {
            applied += runner.await.unwrap().unwrap().applied.len();
        }
        assert_eq!(applied, 1);
    }

    async fn the_namespace_is_random_unless_given(backend: Backend) {
        let one = run(EmptyDb::new(backend).await.connection(), &Options::default()).await.unwrap();
        let other = run(EmptyDb::new(backend).await.connection(), &Options::default()).await.unwrap();
        assert_ne!(one.namespace, other.namespace);
        let given = EmptyDb::new(backend).await;
        assert_eq!(run(given.connection(), &named("orders.eu-1")).await.unwrap().namespace, "orders.eu-1");
    }

    async fn a_database_keeps_its_namespace(db: EmptyDb) {
        run(db.connection(), &named("orders")).await.unwrap();
        assert_eq!(run(db.connection(), &named("orders")).await.unwrap().namespace, "orders");
        assert_eq!(run(db.connection(), &Options::default()).await.unwrap().namespace, "orders");
        match run(db.connection(), &named("billing")).await {
            Err(Error::OtherNamespace { wanted, found }) => assert_eq!((&*wanted, &*found), ("billing", "orders")),
            other => panic!("{other:?}"),
        }
        assert_eq!(run(db.connection(), &Options::default()).await.unwrap().namespace, "orders");
    }

    async fn a_namespace_that_no_key_could_carry_is_refused(db: EmptyDb) {
        for bad in ["", " ", "a b", "a/b", "é", "x\0", &"x".repeat(65)] {
            let outcome = run(db.connection(), &named(bad)).await;
            assert!(matches!(outcome, Err(Error::BadNamespace { .. })), "{bad:?}: {outcome:?}");
        }
        // Nothing was made on the way.
        assert_eq!(run(db.connection(), &named(&"x".repeat(64))).await.unwrap().from, 0);
    }

    async fn a_newer_schema_is_refused_only_when_it_breaks_this_code(db: TestDb) {
        set_meta(&db, "schema_version", "9").await;
        let report = run(db.connection(), &Options::default()).await.unwrap();
        assert_eq!((report.from, report.to, report.applied), (9, 9, vec![]));
        set_meta(&db, "schema_breaking", "8").await;
        match run(db.connection(), &Options::default()).await {
            Err(Error::TooNew { found: 9, breaking: 8, known: 1 }) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn a_version_that_is_no_number_is_named(db: TestDb) {
        set_meta(&db, "schema_version", "one").await;
        let error = run(db.connection(), &Options::default()).await.unwrap_err();
        assert!(error.to_string().contains("\"one\" as schema_version"), "{error}");
    }
}

/// On PostgreSQL; elsewhere it is refused before anything is made.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_chosen_when_the_tables_are_made() {
    for backend in Backend::all() {
        let db = EmptyDb::new(*backend).await;
        let parts = |n| Options { partitions: Some(n), guard: true, ..Options::default() };
        if *backend != Backend::Postgres {
            let refused = run(db.connection(), &parts(4)).await.unwrap_err().to_string();
            assert!(refused.contains("only the tables for PostgreSQL"), "{refused}");
            assert_eq!(run(db.connection(), &Options::default()).await.unwrap().from, 0);
            continue;
        }
        assert!(run(db.connection(), &parts(1)).await.is_err());
        let report = run(db.connection(), &parts(4)).await.unwrap();
        assert_eq!((report.from, report.partitions, report.guard_installed), (0, 4, true));
        let found = earmark_migrations::inspect(db.connection()).await.unwrap();
        assert_eq!((found.partitions, found.guard, found.missing_indexes), (4, true, vec![]));
        // It keeps what it has, asked for or not.
        for options in [parts(4), Options::default()] {
            let again = run(db.connection(), &options).await.unwrap();
            assert_eq!((again.applied, again.partitions), (vec![], 4));
        }
        let other = run(db.connection(), &parts(8)).await;
        assert!(matches!(other, Err(Error::OtherPartitions { wanted: 8, found: 4 })), "{other:?}");
        let whole = TestDb::new(*backend).await;
        let other = run(whole.connection(), &parts(4)).await;
        assert!(matches!(other, Err(Error::OtherPartitions { wanted: 4, found: 0 })), "{other:?}");
    }
}

/// Where the whole run is one transaction. (MySQL's CREATE TABLE IF NOT EXISTS passes over the stranger.)
async fn a_run_that_fails_leaves_nothing(db: EmptyDb) {
    // Not ours, under our name: the last table but one.
    db.execute("CREATE VIEW earmark_sweeper AS SELECT 1 AS x").await.unwrap();
    let error = run(db.connection(), &Options::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the database failed while applying 0001_claims");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("earmark_sweeper"), "{source}");
    assert!(db.execute("SELECT 1 FROM earmark_claim").await.is_err());
    db.execute("DROP VIEW earmark_sweeper").await.unwrap();
    assert_eq!(run(db.connection(), &Options::default()).await.unwrap().from, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_rolls_a_failed_run_back() {
    earmark_tests::db::on(Backend::Sqlite, a_run_that_fails_leaves_nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_rolls_a_failed_run_back() {
    earmark_tests::db::on(Backend::Postgres, a_run_that_fails_leaves_nothing).await;
}

/// MySQL commits each CREATE TABLE: what a run that died half-way left must be completed by the next.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_completes_a_migration_that_stopped_half_way() {
    earmark_tests::db::on(Backend::MariaDb, async |db: EmptyDb| {
        let script = earmark_migrations::sql(db.backend().dialect())[0].sql;
        let statements = script.matches(";\n").count();
        for stop in 1..statements {
            let end = script.match_indices(";\n").nth(stop - 1).unwrap().0;
            db.connection().execute_unprepared(&script[..end]).await.unwrap();
            let report = run(db.connection(), &named("orders")).await.unwrap();
            assert_eq!(
                (report.from, report.to, &*report.namespace),
                (0, 1, "orders"),
                "after {stop} statements"
            );
            let tables = TABLES.join(", ");
            db.connection().execute_unprepared(&format!("DROP TABLE {tables}")).await.unwrap();
        }
    })
    .await;
}

/// The session goes back to the service's pool.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_gets_its_session_back_as_it_was() {
    earmark_tests::db::on(Backend::MariaDb, async |db: EmptyDb| {
        let mut options = ConnectOptions::new(db.url());
        options.max_connections(1).sqlx_logging(false);
        let one = Database::connect(options).await.unwrap();
        one.execute_unprepared("SET SESSION lock_wait_timeout = 77").await.unwrap();
        run(&one, &named("orders")).await.unwrap();
        run(&one, &named("billing")).await.unwrap_err();
        let check = "SELECT @earmark_namespace IS NULL AND @@SESSION.lock_wait_timeout = 77 AND @@autocommit = 1 \
                     AND IS_FREE_LOCK(CONCAT('earmark_migrations_', MD5(DATABASE()))) AS fine";
        let statement = sea_orm::Statement::from_string(sea_orm::DbBackend::MySql, check);
        let row = one.query_one_raw(statement).await.unwrap().unwrap();
        assert_eq!(row.try_get_by_index::<i64>(0).unwrap(), 1);
    })
    .await;
}
