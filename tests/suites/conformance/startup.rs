//! A store that could not keep its word is not opened, and says why; every fault at once, no secret among them.

use std::time::Duration;

use earmark_claim::failure::chain;
use earmark_claim::{ClaimStore, Claimed, Error, Namespace, StoreOptions};
use earmark_tests::claims::{
    LEASE, count, host, host_with, key, never, new_claim, soon, store, store_on, store_with,
};
use earmark_tests::{Backend, EmptyDb, TestDb, per_backend};
use sea_orm::{ConnectionTrait, DatabaseConnection};

fn options() -> StoreOptions {
    StoreOptions::new(LEASE)
}

/// The faults for which a store is not opened.
fn faults(opened: Result<ClaimStore, Error>) -> String {
    match opened {
        Ok(_) => panic!("the store was opened"),
        Err(Error::Config(faults)) => faults.join("\n"),
        Err(other) => panic!("{}", chain(&other)),
    }
}

/// A host whose connections may lose an acknowledged commit; `None` where only the whole server could be set so.
async fn careless(db: &TestDb) -> Option<DatabaseConnection> {
    match db.backend() {
        Backend::Sqlite => Some(host_with(db, "PRAGMA synchronous = OFF").await),
        Backend::Postgres => Some(host_with(db, "SET synchronous_commit = off").await),
        Backend::MariaDb => None,
    }
}

per_backend! {
    async fn without_the_tables_it_names_the_migrations(db: EmptyDb) {
        let said = faults(ClaimStore::connect(db.url(), options()).await);
        assert!(said.contains("earmark_meta") && said.contains("migrat"), "{said}");
    }

    async fn an_older_schema_and_one_that_newer_code_broke_are_refused_and_a_newer_one_is_not(db: TestDb) {
        let set = async |name: &str, value: &str| {
            db.execute(&format!("UPDATE earmark_meta SET value = '{value}' WHERE name = '{name}'")).await.unwrap()
        };
        set("schema_version", "0").await;
        assert!(faults(ClaimStore::connect(db.url(), options()).await).contains("run the migrations"));
        set("schema_version", "9").await;
        set("schema_breaking", "9").await;
        assert!(faults(ClaimStore::connect(db.url(), options()).await).contains("upgrade Earmark"));
        set("schema_breaking", "1").await;
        store(&db).await.close().await;
        set("schema_breaking", "one").await;
        assert!(faults(ClaimStore::connect(db.url(), options()).await).contains("earmark_meta"));
    }

    async fn another_services_database_is_refused_by_its_namespace(db: TestDb) {
        let stored = store(&db).await.namespace().clone();
        let same = StoreOptions { namespace: Some(stored.clone()), ..options() };
        assert_eq!(*store_with(&db, same).await.namespace(), stored);
        let other = StoreOptions { namespace: Some(Namespace::new("other").unwrap()), ..options() };
        let said = faults(ClaimStore::connect(db.url(), other).await);
        assert!(said.contains(stored.as_str()) && said.contains("other"), "{said}");
        db.execute("UPDATE earmark_meta SET value = 'not a namespace!' WHERE name = 'namespace'").await.unwrap();
        assert!(faults(ClaimStore::connect(db.url(), options()).await).contains("namespace"));
    }

    async fn every_fault_of_the_options_is_named_at_once(db: TestDb) {
        let wrong = StoreOptions {
            write_connections: 0,
            read_connections: 0,
            acquire_timeout: Duration::ZERO,
            lock_timeout: Duration::ZERO,
            ..StoreOptions::new(Duration::ZERO)
        };
        let said = faults(ClaimStore::connect(db.url(), wrong).await);
        let names =
            ["lease is zero", "margin", "write_connections", "read_connections", "acquire_timeout", "lock_timeout"];
        for name in names {
            assert!(said.contains(name), "{name} is missing: {said}");
        }
        let day = Duration::from_secs(24 * 3600 + 1);
        assert!(faults(ClaimStore::connect(db.url(), StoreOptions::new(day)).await).contains("24 h"));
    }

    async fn careless_settings_are_refused_or_stand_on_every_report(db: TestDb) {
        let Some(host) = careless(&db).await else { return };
        let said = faults(ClaimStore::on(&host, options()).await);
        assert!(said.contains("synchronous"), "{said}");
        let store = ClaimStore::on(&host, StoreOptions { allow_non_durable: true, ..options() }).await.unwrap();
        assert!(store.non_durable().unwrap().contains("synchronous"));
        let sound = earmark_tests::claims::store(&db).await;
        assert_eq!(sound.non_durable(), None);
    }

    async fn a_hosts_pool_outlives_the_store_beside_it(db: TestDb) {
        // Not one connection of its own yet: the store must not open one for it on the store's thread.
        let mut lazily = sea_orm::ConnectOptions::new(db.url());
        lazily.connect_lazy(true).max_connections(2).test_before_acquire(false).sqlx_logging(false);
        let host = sea_orm::Database::connect(lazily).await.unwrap();
        let store = store_on(&host).await;
        host.execute_unprepared("SELECT 1").await.unwrap();
        store.close().await;
        drop(store);
        for _ in 0..3 {
            soon("the host's own statement", host.execute_unprepared("SELECT 1")).await.unwrap();
        }
    }

    async fn closing_waits_for_what_is_under_way(db: TestDb) {
        let store = store(&db).await;
        let mut under_way: Vec<_> = (0..40)
            .map(|i| {
                let store = store.clone();
                Box::pin(async move { store.claim(&key(&format!("m{i}")), new_claim(never())).await })
            })
            .collect();
        // Handed over, answered or not.
        for claim in &mut under_way {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(claim.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        store.close().await;
        for claim in under_way {
            let answer = claim.await;
            assert!(matches!(answer, Ok(Claimed::Won(_))), "{answer:?}");
        }
        assert_eq!(count(&db, "earmark_claim").await, 40);
        assert!(matches!(store.claim(&key("late"), new_claim(never())).await, Err(Error::Closed)));
    }

    async fn a_lease_that_a_call_could_outlast_is_refused_before_anything_is_written(db: TestDb) {
        let call = never().call_timeout;
        let short = StoreOptions::new(call + options().margin);
        let store = store_with(&db, short.clone()).await;
        let refused = store.claim(&key("m1"), new_claim(never())).await;
        assert!(matches!(&refused, Err(Error::Invalid { faults, .. }) if faults[0].contains("lease")), "{refused:?}");
        let enough = StoreOptions::new(short.lease + Duration::from_micros(1));
        let store = store_with(&db, enough).await;
        assert_eq!(count(&db, "earmark_claim").await, 0);
        assert!(matches!(store.claim(&key("m1"), new_claim(never())).await, Ok(Claimed::Won(_))));
    }

    async fn every_fault_of_a_claim_is_named_before_anything_is_written(db: TestDb) {
        let store = store(&db).await;
        let mut wrong = new_claim(never());
        wrong.kind = "k".repeat(129);
        wrong.downstream = String::new();
        wrong.summary = Some("s".repeat(257));
        wrong.business_ref = Some("line\nbreak".into());
        wrong.request = vec![0; earmark_claim::REQUEST_BYTES_MAX + 1];
        wrong.declared.attempts_max = 0;
        let refused = store.claim(&key("m1"), wrong).await;
        let Err(Error::Invalid { faults, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert_eq!(count(&db, "earmark_claim").await, 0);
    }
}

/// A claim is one statement that commits itself: where it does not, it would be won and never be on file.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_commit_by_themselves_are_refused() {
    if !Backend::all().contains(&Backend::MariaDb) {
        return;
    }
    let db = TestDb::new(Backend::MariaDb).await;
    let host = host_with(&db, "SET autocommit = 0").await;
    let said = faults(ClaimStore::on(&host, options()).await);
    assert!(said.contains("autocommit"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_no_database_is_refused() {
    let said = faults(ClaimStore::on(&DatabaseConnection::default(), options()).await);
    assert!(said.contains("disconnected"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_never_in_the_text_of_an_error() {
    let urls = [
        "hunter2",
        "hunter2:5432/db",
        "user:hunter2@localhost/db",
        "host=localhost user=u password=hunter2 dbname=d",
        "host=localhost password=hunter2 options=a:b",
        "oracle://u:hunter2@localhost/db",
        "postgres://u:hunter2@localhost:notaport/db",
        "postgres://u:hunter2@[bad/db",
        "postgres://u:hunter2@127.0.0.1:1/db?sslmode=hunter2",
        "mysql://u:hunter2@localhost:notaport/db",
        "mysql://u:hunter2@127.0.0.1:1/db",
        "sqlite://hunter2?mode=rwz",
        "",
    ];
    for url in urls {
        let wanted = StoreOptions { acquire_timeout: Duration::from_millis(200), ..options() };
        let error = ClaimStore::connect(url, wanted).await.expect_err(url);
        let said = format!("{error} {error:?} {}", chain(&error));
        let named = url.starts_with("sqlite") || url.contains("sslmode");
        assert!(!said.contains("hunter2") || named, "{url}: {said}");
        assert!(matches!(error, Error::Config(_) | Error::Connect(_)), "{url}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_database_in_memory_is_refused_however_it_is_named() {
    let named = [
        "sqlite::memory:",
        "sqlite://:memory:",
        "sqlite://?mode=memory",
        "sqlite://m.db?mode=memory",
        "sqlite://",
    ];
    for url in named {
        for allow_non_durable in [false, true] {
            let said =
                faults(ClaimStore::connect(url, StoreOptions { allow_non_durable, ..options() }).await);
            assert!(said.contains("memory"), "{url}: {said}");
        }
    }
    let host = sea_orm::Database::connect("sqlite::memory:").await.unwrap();
    assert!(faults(ClaimStore::on(&host, options()).await).contains("memory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_reached_is_said_to_be_so() {
    let wanted = StoreOptions { acquire_timeout: Duration::from_millis(200), ..options() };
    for url in ["postgres://u@127.0.0.1:1/db", "mysql://u@127.0.0.1:1/db", "sqlite:///nowhere/at/all/x.db"] {
        let error = ClaimStore::connect(url, wanted.clone()).await.expect_err(url);
        assert!(matches!(error, Error::Connect(_)) && error.is_transient(), "{url}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_written_is_refused_or_every_claim_is() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = host(&db).await;
    let store = store_on(&host).await;
    assert!(matches!(store.claim(&key("m1"), new_claim(never())).await, Ok(Claimed::Won(_))));
    store.close().await;
    let read_only = format!("{}?mode=ro", db.url().split('?').next().unwrap());
    match ClaimStore::connect(&read_only, options()).await {
        Err(error) => assert!(matches!(error, Error::Config(_) | Error::Connect(_)), "{error:?}"),
        Ok(store) => {
            let answer = store.claim(&key("m2"), new_claim(never())).await;
            assert!(matches!(&answer, Err(e) if e.is_transient()), "{answer:?}");
        }
    }
}

/// The store has a runtime of its own: whoever opened it may be gone.
#[test]
fn a_store_outlives_the_runtime_that_opened_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for backend in Backend::all() {
        let (db, store) = runtime().block_on(async {
            let db = TestDb::new(*backend).await;
            let host = host(&db).await;
            let store = store_on(&host).await;
            host.close().await.unwrap();
            (db, store)
        });
        runtime().block_on(async {
            assert!(matches!(store.claim(&key("m1"), new_claim(never())).await, Ok(Claimed::Won(_))));
            store.close().await;
        });
        drop(db);
    }
}

/// A file that is not in WAL mode yet, and a host that writes while the store is opened.
#[tokio::test(flavor = "multi_thread")]
async fn opening_waits_for_a_host_that_writes_to_the_sqlite_file() {
    let db = TestDb::new(Backend::Sqlite).await;
    let host = host(&db).await;
    let tx = earmark_tests::claims::begin(&host).await;
    tx.execute_unprepared("UPDATE earmark_meta SET value = value").await.unwrap();
    let opening = {
        let url = db.url().to_owned();
        tokio::spawn(async move { ClaimStore::connect(&url, options()).await.map(drop) })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!opening.is_finished());
    tx.commit().await.unwrap();
    soon("the store", opening).await.unwrap().unwrap();
}
