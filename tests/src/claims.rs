//! Short ways to make claims in tests.

use std::time::{Duration, Instant};

use earmark_claim::policy::Cause;
use earmark_claim::state::Finding;
use earmark_claim::{
    Answer, Backoff, Claim, ClaimKey, ClaimStore, ClaimView, Claimed, Declared, Evidence, Failure, Held,
    InFlight, Joined, NewClaim, Receipt, RepeatSafety, State, StoreOptions, When,
};
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DatabaseTransaction, DbBackend, IsolationLevel,
    SqliteTransactionMode, SqlxMySqlConnector, SqlxPostgresConnector, SqlxSqliteConnector,
    TransactionOptions, TransactionTrait,
};
use sqlx::Executor;

use crate::{Backend, EmptyDb, TestDb};

/// A lease that no test waits for.
pub const LEASE: Duration = Duration::from_secs(60);

/// An effect that the provider does not deduplicate, with a horizon and no probe.
pub fn never() -> Declared {
    Declared {
        repeat: RepeatSafety::Never,
        landing_horizon: Some(Duration::from_secs(10)),
        probe: None,
        call_timeout: Duration::from_secs(5),
        attempts_max: 5,
        age_max: Duration::from_secs(24 * 3600),
    }
}

/// An effect whose provider remembers our key for a day.
pub fn keyed() -> Declared {
    Declared { repeat: RepeatSafety::Keyed { window: Duration::from_secs(24 * 3600) }, ..never() }
}

/// An effect that may be repeated at will.
pub fn natural() -> Declared {
    Declared { repeat: RepeatSafety::Natural, ..never() }
}

/// A claim of that effect with a small request.
pub fn new_claim(declared: Declared) -> NewClaim {
    NewClaim::new("mail.welcome", "mailer", r#"{"to":"a@example.org"}"#, declared)
}

/// The key of a message for the consumer `mail`.
pub fn key(message_id: &str) -> ClaimKey {
    ClaimKey::new("mail", message_id).expect("a key")
}

/// A store on the test's database, with a lease of [`LEASE`].
pub async fn store(db: &TestDb) -> ClaimStore {
    store_with(db, StoreOptions::new(LEASE)).await
}

/// A store on the test's database.
pub async fn store_with(db: &TestDb, options: StoreOptions) -> ClaimStore {
    ClaimStore::connect(db.url(), options)
        .await
        .unwrap_or_else(|e| panic!("{}", earmark_claim::failure::chain(&e)))
}

/// Claims a new key; any other answer fails the test.
pub async fn won(store: &ClaimStore, key: &ClaimKey, declared: Declared) -> Claim<InFlight> {
    match store.claim(key, new_claim(declared)).await.expect("a claim") {
        earmark_claim::Claimed::Won(claim) => claim,
        other => panic!("{key} was not won: {other:?}"),
    }
}

/// Ages a claim by hand: every time of its row moves into the past, as if that long had passed. Production SQL has no bound clock.
pub async fn age(db: &TestDb, key: &ClaimKey, by: Duration) {
    let micros = by.as_micros();
    let columns = ["due_at", "not_before", "send_by", "created_at", "window_from", "last_end_at", "ruled_at"];
    let set = columns.map(|c| format!("{c} = {c} - {micros}")).join(", ");
    let rows = db
        .execute(&format!(
            "UPDATE earmark_claim SET {set} WHERE consumer = '{}' AND message_id = '{}'",
            key.consumer(),
            key.message_id()
        ))
        .await
        .expect("an update");
    assert_eq!(rows, 1, "{key} is there");
}

/// Longest that a test waits for a condition: a loaded machine, not a measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a condition holds; fails the test after [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The answer of a future that must come; fails the test after [`PATIENCE`].
pub async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, answer)
        .await
        .unwrap_or_else(|_| panic!("no answer within {PATIENCE:?}: {what}"))
}

/// Drops a future that has not answered after that long, to the microsecond; a timer's step would be a thousand times that. It is
/// polled at least once.
pub async fn cut_after<T>(after: Duration, future: impl Future<Output = T>) -> Option<T> {
    let end = Instant::now() + after;
    let spin = async {
        while Instant::now() < end {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = future => Some(answer),
        () = spin => None,
    }
}

/// A pool as a service would have it.
pub async fn host(db: &EmptyDb) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(4).min_connections(0).acquire_timeout(PATIENCE).sqlx_logging(false);
    Database::connect(options).await.expect("a host's pool")
}

/// A host's pool that runs a statement on each new connection, as services do to set their session up.
pub async fn host_with(db: &EmptyDb, setup: &'static str) -> DatabaseConnection {
    macro_rules! pool {
        ($options:ty, $connector:ident :: $from:ident) => {{
            let pool = <$options>::new()
                .max_connections(4)
                .acquire_timeout(PATIENCE)
                .after_connect(move |connection, _| {
                    Box::pin(async move { connection.execute(setup).await.map(drop) })
                })
                .connect(db.url())
                .await
                .expect("a host's pool");
            $connector::$from(pool)
        }};
    }
    match db.backend() {
        Backend::Sqlite => {
            pool!(sqlx::sqlite::SqlitePoolOptions, SqlxSqliteConnector::from_sqlx_sqlite_pool)
        }
        Backend::Postgres => {
            pool!(sqlx::postgres::PgPoolOptions, SqlxPostgresConnector::from_sqlx_postgres_pool)
        }
        Backend::MariaDb => pool!(sqlx::mysql::MySqlPoolOptions, SqlxMySqlConnector::from_sqlx_mysql_pool),
    }
}

/// A store beside a host's pool.
pub async fn store_on(host: &DatabaseConnection) -> ClaimStore {
    ClaimStore::on(host, StoreOptions::new(LEASE))
        .await
        .unwrap_or_else(|e| panic!("{}", earmark_claim::failure::chain(&e)))
}

/// A transaction of the caller's own, begun as the documentation says.
pub async fn begin(host: &DatabaseConnection) -> DatabaseTransaction {
    begin_at(host, Some(IsolationLevel::ReadCommitted)).await
}

/// The same at another isolation level (SQLite has one only).
pub async fn begin_at(host: &DatabaseConnection, level: Option<IsolationLevel>) -> DatabaseTransaction {
    let sqlite = host.get_database_backend() == DbBackend::Sqlite;
    let options = TransactionOptions {
        isolation_level: level.filter(|_| !sqlite),
        access_mode: None,
        sqlite_transaction_mode: sqlite.then_some(SqliteTransactionMode::Immediate),
    };
    host.begin_with_options(options).await.expect("a transaction")
}

/// Joins the caller's transaction; any answer but a held claim fails the test.
pub async fn joined(
    store: &ClaimStore,
    tx: &DatabaseTransaction,
    key: &ClaimKey,
    declared: Declared,
) -> Claim<Held> {
    match store.claim_in(tx, key, new_claim(declared)).await.expect("a claim") {
        Joined::Held(claim) => claim,
        other => panic!("{key} was not joined: {other:?}"),
    }
}

/// What an effect answered: a charge of that id.
pub fn receipt(id: &str) -> Receipt {
    let answer = Answer::json(&serde_json::json!({ "id": id })).expect("json");
    Receipt::new(Some(answer), Some(id.into()))
}

/// A webhook that says that it was done, under that id.
pub fn done(id: &str) -> Evidence {
    evidence(Finding::Done { ids: vec![id.into()] })
}

/// A webhook.
pub fn evidence(finding: Finding) -> Evidence {
    let detail = serde_json::json!({ "event": format!("{finding:?}") });
    Evidence { source: "webhook:mailer".into(), finding, detail, answer: None }
}

/// The state on file.
pub async fn state(store: &ClaimStore, key: &ClaimKey) -> State {
    view(store, key).await.facts.state
}

/// The row on file.
pub async fn view(store: &ClaimStore, key: &ClaimKey) -> ClaimView {
    store.find(key).await.expect("a read").unwrap_or_else(|| panic!("{key} is missing"))
}

/// The names of a claim's events.
pub async fn history(store: &ClaimStore, key: &ClaimKey) -> Vec<String> {
    store.history(key).await.expect("a read").into_iter().map(|event| event.name).collect()
}

/// Brings a claim into a state by the store's own operations.
pub async fn in_state(db: &TestDb, store: &ClaimStore, key: &ClaimKey, state: State, declared: Declared) {
    let unknown = || Err::<Receipt, _>(Failure::unknown("timeout"));
    let quick = Backoff { base: Duration::from_micros(1), max: Duration::from_micros(1) };
    match state {
        State::Held => {
            let later = When::In(Duration::from_secs(3600));
            let new = NewClaim { not_before: Some(later), ..new_claim(declared) };
            assert!(matches!(store.claim(key, new).await, Ok(Claimed::Held { .. })));
        }
        State::InFlight => drop(won(store, key, declared).await),
        State::Retryable => {
            let claim = won(store, key, declared).await;
            let not_sent = Err::<Receipt, _>(Failure::not_sent("rate_limited"));
            let _ = store.settle(claim, not_sent, quick).await.expect("a settle");
        }
        State::InDoubt => {
            let claim = won(store, key, declared).await;
            let _ = store.settle(claim, unknown(), quick).await.expect("a settle");
        }
        State::Escalated => {
            let claim = won(store, key, declared).await;
            let _ = store.settle(claim, unknown(), quick).await.expect("a settle");
            let _ = store.escalate(key, Cause::NoRuleDecides, None, None).await.expect("a move");
        }
        State::Confirmed => {
            let claim = won(store, key, declared).await;
            let _ = store.settle(claim, Ok(receipt("ch_1")), quick).await.expect("a settle");
        }
        State::Abandoned => {
            let claim = won(store, key, declared).await;
            let refused = Err::<Receipt, _>(Failure::refused("card_declined"));
            let _ = store.settle(claim, refused, quick).await.expect("a settle");
        }
    }
    let found = view(store, key).await;
    assert_eq!(found.facts.state, state);
    // In doubt and retryable are due at once.
    age(db, key, Duration::from_millis(5)).await;
}

/// How many rows a table has.
pub async fn count(db: &EmptyDb, table: &str) -> i64 {
    db.number(&format!("SELECT COUNT(*) FROM {table}")).await
}

/// Whether a statement of this database's clients waits for a lock. SQLite has none to show.
pub async fn waits_for_a_lock(db: &EmptyDb) -> bool {
    let sql = match db.backend() {
        Backend::Sqlite => return false,
        Backend::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        }
        Backend::MariaDb => {
            // The server refreshes this table only when nobody has read it for a tenth of a second.
            tokio::time::sleep(Duration::from_millis(120)).await;
            "SELECT COUNT(*) FROM information_schema.innodb_trx t \
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
             WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'"
        }
    };
    db.number(sql).await > 0
}
