//! Behind a pooler that lends its servers transaction by transaction: what works, what is refused, and what stays on a server.

use earmark_claim::failure::chain;
use earmark_claim::policy::Cause;
use earmark_claim::state::{Ruling, Seen};
use earmark_claim::{
    About, Begun, ClaimStore, Claimed, Decision, Error, Handle, Joined, NewClaim, Settled, Started, State,
    StoreOptions,
};
use earmark_effects::stub::Stub;
use earmark_migrations::Options;
use earmark_tests::claims::{
    LEASE, PATIENCE, age, begin, count, done, history, in_state, joined, key, keyed, never, new_claim,
    receipt, state, won,
};
use earmark_tests::effects::{earmark_with, probed};
use earmark_tests::pgbouncer::{PgBouncer, Pooling, TRANSACTIONS};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{Backend, EmptyDb, TestDb};
use sea_orm::{ConnectOptions, Database, DatabaseConnection};
use serde_json::json;
use sqlx::{Connection, PgConnection, Row};

/// What docs/poolers.md asks for where the host's own statements come through it too, and PgBouncer is older than 1.21.
const FOR_HOSTS: Pooling = Pooling {
    more: "ignore_startup_parameters = extra_float_digits\nserver_reset_query = DEALLOCATE ALL\n\
           server_reset_query_always = 1",
    ..TRANSACTIONS
};
/// As many people have it: nothing is said at the login.
const QUIET: Pooling =
    Pooling { more: "ignore_startup_parameters = extra_float_digits, options", ..TRANSACTIONS };

fn declared() -> StoreOptions {
    StoreOptions { pooler: true, ..StoreOptions::new(LEASE) }
}

async fn open(url: &str) -> ClaimStore {
    ClaimStore::connect(url, declared()).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

/// The fault for which a store is not opened.
async fn refusal(url: &str, options: StoreOptions) -> String {
    match ClaimStore::connect(url, options).await {
        Ok(_) => panic!("the store was opened"),
        Err(Error::Config(faults)) => faults.join("\n"),
        Err(other) => panic!("{}", chain(&other)),
    }
}

fn is_run() -> bool {
    Backend::all().contains(&Backend::Postgres)
}

/// What stays on the servers behind it, asked on each of them: prepared statements, locks of sessions, and settings of ours.
async fn left_behind(pooler: &PgBouncer, servers: u32) -> Vec<i64> {
    let url = &pooler.url();
    let mut left = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..servers {
        let options = url.parse::<sqlx::postgres::PgConnectOptions>().unwrap().extra_float_digits(None);
        let mut client = PgConnection::connect_with(&options).await.unwrap();
        // Holds its server, so that the next one gets another.
        sqlx::raw_sql("BEGIN").execute(&mut client).await.unwrap();
        let sql = "SELECT (SELECT count(*) FROM pg_prepared_statements) \
                   + (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory') \
                   + (current_setting('earmark.session', true) IS NOT NULL)::int";
        let row = sqlx::raw_sql(sql).fetch_one(&mut client).await.unwrap();
        left.push(row.try_get::<i64, _>(0).unwrap());
        clients.push(client);
    }
    left
}

/// A pool as a service behind a pooler has it.
async fn host(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(4).min_connections(0).acquire_timeout(PATIENCE).sqlx_logging(false);
    options.test_before_acquire(false).map_sqlx_postgres_opts(|o| o.statement_cache_capacity(0));
    Database::connect(options).await.expect("a host's pool")
}

/// Every operation, by two stores in turn, so that what one leaves on a server is in the way of the other.
async fn walk(db: &TestDb, stores: &[ClaimStore; 2]) {
    let [one, other] = stores;
    for was in State::ALL {
        for (n, store) in stores.iter().enumerate() {
            in_state(db, store, &key(&format!("{was}-{n}")), was, keyed()).await;
        }
        let name = key(&format!("{was}-0"));
        let again = other.claim(&name, new_claim(keyed())).await.unwrap();
        assert!(!matches!(again, Claimed::Won(_)), "{was}: {again:?}");
        let another = NewClaim::new("mail.welcome", "mailer", "another request", keyed());
        assert!(matches!(other.claim(&name, another).await.unwrap(), Claimed::Mismatch), "{was}");
        assert_eq!(history(one, &name).await.last().map(String::as_str), Some("mismatch"), "{was}");
    }
    assert_eq!(other.find_all(&Handle::ProviderRef("ch_1".into())).await.unwrap().len(), 2);
    let open = one.list(&Default::default(), 100).await.unwrap();
    assert_eq!(open.claims.len(), 10, "five states are open");
    let snapshot = other.snapshot(one.now().await.unwrap().minus(LEASE)).await.unwrap();
    assert_eq!(snapshot.claims.len(), 2 * State::ALL.len());

    let claim = won(one, &key("late"), keyed()).await;
    other.record_evidence(&About::Key(key("late")), done("ch_2")).await.unwrap();
    let _ = one.settle(claim, Ok(receipt("ch_2")), Default::default()).await.unwrap();
    assert_eq!(state(other, &key("late")).await, State::Confirmed);

    age(db, &key("escalated-0"), LEASE).await;
    let escalated = one.find(&key("escalated-0")).await.unwrap().unwrap();
    let f = &escalated.facts;
    let decision = Decision {
        seen: Seen { state: f.state, fence: f.fence, revision: f.revision },
        ruling: Ruling::NotDone,
        actor: "K. Lang".into(),
        reason: "not in the console".into(),
        evidence: vec!["ticket 4711".into()],
        horizon: None,
        looked: false,
    };
    assert_eq!(other.resolve(&escalated.key, decision).await.unwrap(), State::Abandoned);

    // A crash, and the sweep by the other.
    let stub = Stub::new("mail.welcome", probed(never()));
    let earmarks = [earmark_with(one, &stub), earmark_with(other, &stub)];
    let outcome = earmarks[0].run::<Stub>(&key("ran"), &json!({})).await.unwrap();
    assert!(matches!(outcome, earmark_effects::Outcome::Confirmed(_)), "{outcome:?}");
    drop(won(one, &key("crashed"), probed(never())).await);
    age(db, &key("crashed"), LEASE * 2).await;
    sweep_once(&earmarks[1]).await;
    age(db, &key("crashed"), LEASE * 600).await;
    sweep_once(&earmarks[1]).await;
    assert_eq!(history(one, &key("crashed")).await.first().map(String::as_str), Some("lease_over"));
    let _ = other.escalate(&key("in_doubt-1"), Cause::NoRuleDecides, None, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works_and_leaves_nothing_on_the_servers() {
    if !is_run() {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    let pooler = PgBouncer::start(&db, TRANSACTIONS).await;
    let stores = [open(pooler.url()).await, open(pooler.url()).await];
    walk(&db, &stores).await;
    for store in stores {
        store.close().await;
    }
    assert_eq!(left_behind(&pooler, TRANSACTIONS.servers).await, [0, 0]);
}

/// ProxySQL is not in the distribution: the statements, at least, are those that it would see.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works_in_explicit_transactions_on_mariadb() {
    if !is_run() {
        return;
    }
    let db = TestDb::new(Backend::MariaDb).await;
    let stores = [open(db.url()).await, open(db.url()).await];
    walk(&db, &stores).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_nobody_declared_is_refused() {
    if !is_run() {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    let loud = PgBouncer::start(&db, TRANSACTIONS).await;
    let said = refusal(loud.url(), StoreOptions::new(LEASE)).await;
    assert!(said.contains("set pooler") && said.contains("startup parameter"), "{said}");
    for servers in [1, 2] {
        let quiet = PgBouncer::start(&db, Pooling { servers, ..QUIET }).await;
        let said = refusal(quiet.url(), StoreOptions::new(LEASE)).await;
        assert!(said.contains("transaction mode") && said.contains("pooler = true"), "{servers}: {said}");
    }
    assert_eq!(count(&db, "earmark_claim").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_lends_whole_sessions_is_declared_too() {
    if !is_run() {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    let sessions = PgBouncer::start(&db, Pooling { mode: "session", servers: 20, ..QUIET }).await;
    let said = refusal(sessions.url(), StoreOptions::new(LEASE)).await;
    assert!(said.contains("drops what connections are opened with"), "{said}");
    let store = open(sessions.url()).await;
    drop(won(&store, &key("m1"), never()).await);
    assert_eq!(state(&store, &key("m1")).await, State::InFlight);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stands_before_a_sqlite_file() {
    let db = TestDb::new(Backend::Sqlite).await;
    let said = refusal(db.url(), declared()).await;
    assert!(said.contains("pooler") && said.contains("SQLite"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_join_the_transactions_of_a_host_that_comes_through_it_too() {
    if !is_run() {
        return;
    }
    let db = TestDb::new(Backend::Postgres).await;
    db.execute("CREATE TABLE shop_order (id INTEGER PRIMARY KEY)").await.unwrap();
    let pooler = PgBouncer::start(&db, FOR_HOSTS).await;
    let host = host(pooler.url()).await;
    let store = ClaimStore::on(&host, declared()).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
    for round in 0..20 {
        let name = key(&format!("m{round}"));
        let tx = begin(&host).await;
        let held = joined(&store, &tx, &name, never()).await;
        let again = store.claim_in(&tx, &name, new_claim(never())).await.unwrap();
        assert!(matches!(again, Joined::Lost(Claimed::Held { .. })), "{again:?}");
        if round % 2 == 0 {
            tx.rollback().await.unwrap();
            assert!(matches!(store.begin(held).await.unwrap(), Begun::NotCommitted(_)));
            continue;
        }
        tx.commit().await.unwrap();
        let Begun::Started(Started { claim, .. }) = store.begin(held).await.unwrap() else {
            panic!("not begun")
        };
        let settled = store.settle(claim, Ok(receipt("ch_1")), Default::default()).await.unwrap();
        assert!(matches!(settled, Settled::Moved(State::Confirmed)), "{settled:?}");
    }
    assert_eq!(count(&db, "earmark_claim").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_run_through_it_side_by_side_and_leave_nothing_on_the_servers() {
    if !is_run() {
        return;
    }
    let db = EmptyDb::new(Backend::Postgres).await;
    let pooler = PgBouncer::start(&db, QUIET).await;
    let run = async |pooled: bool| {
        let own = host(pooler.url()).await;
        let options = Options { guard: true, pooler: pooled, ..Options::default() };
        let report = earmark_migrations::run(&own, &options).await;
        own.close().await.unwrap();
        report
    };
    let (one, two, three) = tokio::join!(run(true), run(true), run(true));
    let applied: usize = [one, two, three].into_iter().map(|r| r.expect("a run").applied.len()).sum();
    assert_eq!(applied, 1);
    assert_eq!(left_behind(&pooler, TRANSACTIONS.servers).await, [0, 0]);
    // What it is for: without it a run leaves its statements there, and the next one meets them.
    run(false).await.expect("a first one on a clean server");
    assert_ne!(left_behind(&pooler, TRANSACTIONS.servers).await, [0, 0]);
    run(true).await.expect("it minds nothing that it finds");
}
