//! B19: while a slow provider is waited for, no transaction is open and no connection is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earmark_claim::{ClaimStore, Joined, State, StoreOptions};
use earmark_effects::stub::Stub;
use earmark_effects::{Description, Earmark, Outcome};
use earmark_tests::claims::{
    LEASE, PATIENCE, begin, count, eventually, joined, key, keyed, never, soon, state, store_with,
    waits_for_a_lock,
};
use earmark_tests::effects::earmark_with;
use earmark_tests::http::{KIND, charge, run, service};
use earmark_tests::process::declared;
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

const CLAIMS: usize = 200;
const HOST_CONNECTIONS: u32 = 5;
const HEALTH_EVERY: Duration = Duration::from_millis(100);

async fn small_host(db: &TestDb) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(HOST_CONNECTIONS)
        .min_connections(0)
        .acquire_timeout(PATIENCE)
        .sqlx_logging(false);
    Database::connect(options).await.expect("a host's pool")
}

/// Connections of the pool that somebody holds.
fn in_use(host: &DatabaseConnection, backend: Backend) -> usize {
    let (size, idle) = match backend {
        Backend::Sqlite => {
            let pool = host.get_sqlite_connection_pool();
            (pool.size(), pool.num_idle())
        }
        Backend::Postgres => {
            let pool = host.get_postgres_connection_pool();
            (pool.size(), pool.num_idle())
        }
        Backend::MariaDb => {
            let pool = host.get_mysql_connection_pool();
            (pool.size(), pool.num_idle())
        }
    };
    size as usize - idle
}

/// Transactions open on this database, by anybody but the one who asks. SQLite has no list of them: whether one can write at once.
async fn open_transactions(db: &TestDb) -> i64 {
    let sql = match db.backend() {
        Backend::Sqlite => {
            return i64::from(db.execute("UPDATE earmark_meta SET value = value").await.is_err());
        }
        Backend::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL \
             AND pid <> pg_backend_pid()"
        }
        Backend::MariaDb => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx t \
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
             WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()"
        }
    };
    db.number(sql).await
}

/// Ends every other session of the database, as an administrator or a firewall would. How many there were.
async fn end_sessions(db: &TestDb) -> usize {
    let sessions = match db.backend() {
        Backend::Sqlite => return 0,
        Backend::Postgres => {
            let end = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            return db.number(end).await as usize;
        }
        Backend::MariaDb => {
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        }
    };
    let statement = Statement::from_string(db.connection().get_database_backend(), sessions);
    let rows = db.connection().query_all_raw(statement).await.unwrap();
    for row in &rows {
        let id: i64 = row.try_get_by_index(0).unwrap();
        // It may have ended by itself.
        let _ = db.execute(&format!("KILL {id}")).await;
    }
    rows.len()
}

/// Asks the host's pool whether it lives until it is told to stop; how often it was answered.
fn health(host: &DatabaseConnection) -> (Arc<AtomicBool>, JoinHandle<usize>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (host, stopped) = (host.clone(), stop.clone());
    let asking = tokio::spawn(async move {
        let mut answered = 0;
        while !stopped.load(Ordering::SeqCst) {
            let ask = Statement::from_string(host.get_database_backend(), "SELECT 1");
            soon("the health query", host.query_all_raw(ask)).await.expect("a health query is answered");
            answered += 1;
            tokio::time::sleep(HEALTH_EVERY).await;
        }
        answered
    });
    (stop, asking)
}

/// As many messages, every other one claimed inside a transaction of the host's.
fn charge_all(
    earmark: &Earmark,
    host: &DatabaseConnection,
    provider: &Arc<Provider>,
) -> JoinSet<Outcome<Value>> {
    let mut tasks = JoinSet::new();
    for n in 0..CLAIMS {
        let (earmark, host, provider) = (earmark.clone(), host.clone(), provider.clone());
        tasks.spawn(async move {
            let (key, call) = (key(&format!("m{n}")), charge(&provider));
            if n % 2 == 0 {
                return run(&earmark, &key, &call).await;
            }
            let tx = begin(&host).await;
            let joined = earmark.claim_http_in(&tx, KIND, &key, &call, Description::default()).await.unwrap();
            let Joined::Held(held) = joined else { panic!("{key} is not new") };
            tx.commit().await.unwrap();
            earmark.perform(held).await.unwrap()
        });
    }
    tasks
}

async fn on(host: &DatabaseConnection) -> ClaimStore {
    ClaimStore::on(host, StoreOptions::new(LEASE)).await.unwrap()
}

per_backend! {
    async fn b19_nothing_is_held_open_while_two_hundred_calls_wait(db: TestDb) {
        let host = small_host(&db).await;
        let store = on(&host).await;
        let provider = Arc::new(Provider::start(vec![Reply::ActThenWait; CLAIMS]).await);
        let earmark = service(&store, &provider, declared(false));
        let (stop, healthy) = health(&host);
        let tasks = charge_all(&earmark, &host, &provider);
        provider.arrived(CLAIMS).await;
        // The health query comes and goes.
        eventually("no connection of the host is in use", async || in_use(&host, db.backend()) == 0).await;
        eventually("no transaction is open", async || open_transactions(&db).await == 0).await;
        stop.store(true, Ordering::SeqCst);
        assert!(healthy.await.unwrap() > 0);
        // And now it holds at a single look.
        assert_eq!((in_use(&host, db.backend()), open_transactions(&db).await), (0, 0));
        assert_eq!(count(&db, "earmark_claim WHERE state = 'in_flight'").await, CLAIMS as i64);
        provider.release();
        for outcome in soon("the outcomes", tasks.join_all()).await {
            assert!(matches!(outcome, Outcome::Confirmed(_)), "{outcome:?}");
        }
        assert_eq!(provider.effects().len(), CLAIMS);
        assert_eq!(count(&db, "earmark_claim WHERE state = 'confirmed'").await, CLAIMS as i64);
    }

    async fn b19_sessions_that_the_server_ends_meanwhile_cost_no_outcome(db: TestDb) {
        let host = small_host(&db).await;
        let store = on(&host).await;
        let provider = Arc::new(Provider::start(vec![Reply::ActThenWait; CLAIMS]).await);
        let earmark = service(&store, &provider, declared(false));
        let tasks = charge_all(&earmark, &host, &provider);
        provider.arrived(CLAIMS).await;
        let ended = end_sessions(&db).await;
        assert!(ended > 0 || db.backend() == Backend::Sqlite);
        provider.release();
        for outcome in soon("the outcomes", tasks.join_all()).await {
            assert!(matches!(outcome, Outcome::Confirmed(_)), "{outcome:?}");
        }
        assert_eq!(provider.effects().len(), CLAIMS);
        assert_eq!(count(&db, "earmark_claim WHERE state = 'confirmed'").await, CLAIMS as i64);
    }

    async fn b19_outcomes_do_not_wait_behind_new_claims(db: TestDb) {
        // SQLite has one writer at a time, whoever it is.
        if db.backend() == Backend::Sqlite {
            return;
        }
        let host = small_host(&db).await;
        let store = on(&host).await;
        let provider = Arc::new(Provider::start(vec![Reply::ActThenWait; CLAIMS]).await);
        let earmark = service(&store, &provider, declared(false));
        let tasks = charge_all(&earmark, &host, &provider);
        provider.arrived(CLAIMS).await;
        // New messages queue up, behind strangers that have claimed some of them and do not commit.
        let (mut strangers, mut queue) = (Vec::new(), JoinSet::new());
        let stub = Stub::new("mail.welcome", keyed());
        let mailer = earmark_with(&store, &stub);
        for n in 0..store.options().write_connections {
            let tx = begin(&host).await;
            drop(joined(&store, &tx, &key(&format!("new{n}")), keyed()).await);
            strangers.push(tx);
        }
        for n in 0..CLAIMS / 2 {
            let mailer = mailer.clone();
            queue.spawn(async move { mailer.run::<Stub>(&key(&format!("new{n}")), &json!({})).await });
        }
        eventually("new claims wait", async || waits_for_a_lock(&db).await).await;
        provider.release();
        for outcome in soon("the outcomes", tasks.join_all()).await {
            assert!(matches!(outcome, Outcome::Confirmed(_)), "{outcome:?}");
        }
        for stranger in strangers {
            stranger.rollback().await.unwrap();
        }
        for done in soon("the new ones", queue.join_all()).await {
            assert!(matches!(done, Ok(Outcome::Confirmed(_))), "{done:?}");
        }
        assert_eq!((provider.effects().len(), stub.effects().len()), (CLAIMS, CLAIMS / 2));
    }

    async fn b19_a_claim_that_can_wait_no_longer_is_an_error_and_no_call(db: TestDb) {
        let host = small_host(&db).await;
        // SQLite counts its waits, of five seconds each.
        let options =
            StoreOptions { patience: Duration::from_millis(300), contention_retries: 0, ..StoreOptions::new(LEASE) };
        let store = store_with(&db, options).await;
        let stub = Stub::new("mail.welcome", never());
        let mailer = earmark_with(&store, &stub);
        let stranger = begin(&host).await;
        drop(joined(&store, &stranger, &key("m1"), never()).await);
        let answer = soon("an answer", mailer.run::<Stub>(&key("m1"), &json!({}))).await;
        assert!(answer.is_err(), "{answer:?}");
        assert!(stub.calls().is_empty(), "no call without a claim");
        stranger.rollback().await.unwrap();
        assert!(store.find(&key("m1")).await.unwrap().is_none(), "and no claim that comes later");
        let again = mailer.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(again, Outcome::Confirmed(_)), "{again:?}");
        assert_eq!((state(&store, &key("m1")).await, stub.effects().len()), (State::Confirmed, 1));
    }
}
