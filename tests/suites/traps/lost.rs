//! Lost acknowledgements: the connection is cut at every request and at every answer of an operation, one after the other. SQLite has
//! no connection that could be cut: its statement ends with its worker, and a commit that fails says so (see `sqlite.rs`).

use std::time::{Duration, Instant};

use earmark_claim::state::{Finding, Taking};
use earmark_claim::{
    About, Backoff, Claim, ClaimKey, ClaimStore, Claimed, Declared, Error, Failure, InFlight, Receipt,
    Settled, Started, State, StoreOptions, Taken,
};
use earmark_tests::claims::{
    LEASE, age, count, done, evidence, history, in_state, key, keyed, never, new_claim, receipt, soon, store,
    view, won,
};
use earmark_tests::fault::{Lost, Proxy};
use earmark_tests::{Backend, TestDb};

/// A claim has some three round trips, a move some eight; with a new connection's some more.
const STEPS_MAX: u32 = 60;

/// Runs an operation with each of its requests, then each of its answers, lost.
async fn at_every_step(backend: Backend, mut run: impl AsyncFnMut(&Bench, ClaimKey) -> Option<Error>) {
    if !Backend::all().contains(&backend) {
        return;
    }
    let bench = Bench::new(backend).await;
    for lost in [Lost::Request, Lost::Claimed] {
        for pass in 0..=STEPS_MAX {
            assert!(pass < STEPS_MAX, "the operation never ends");
            bench.lost.set((lost, pass));
            let error = run(&bench, key(&format!("{lost:?}-{pass}"))).await;
            if let Some(error) = error {
                assert!(error.is_transient(), "{lost:?} {pass}: {error:?}");
            }
            if !bench.proxy.disarm() {
                assert!(pass > 0, "nothing went through the proxy");
                break;
            }
        }
    }
}

struct Bench {
    db: TestDb,
    proxy: Proxy,
    /// Behind the proxy.
    store: ClaimStore,
    /// Beside it.
    beside: ClaimStore,
    lost: std::cell::Cell<(Lost, u32)>,
}

impl Bench {
    async fn new(backend: Backend) -> Self {
        let db = TestDb::new(backend).await;
        let proxy = Proxy::new(&db).await;
        let store = ClaimStore::connect(proxy.url(), StoreOptions::new(LEASE)).await.unwrap();
        let beside = store_beside(&db).await;
        Self { db, proxy, store, beside, lost: std::cell::Cell::new((Lost::Request, 0)) }
    }

    fn arm(&self) {
        let (lost, pass) = self.lost.get();
        self.proxy.arm(lost, pass);
    }

    async fn won(&self, key: &ClaimKey, declared: Declared) -> Claim<InFlight> {
        won(&self.store, key, declared).await
    }
}

async fn store_beside(db: &TestDb) -> ClaimStore {
    store(db).await
}

macro_rules! on_servers {
    ($($(#[$meta:meta])* async fn $name:ident($backend:ident) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;

            async fn body($backend: Backend) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                body(Backend::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                body(Backend::MariaDb).await;
            }
        }
    )+};
}

on_servers! {
    async fn a_claim_whose_acknowledgement_was_lost_is_recognised_by_its_token(backend) {
        at_every_step(backend, async |bench, key| {
            bench.arm();
            match bench.store.claim(&key, new_claim(never())).await {
                Ok(Claimed::Won(claim)) => {
                    let row = view(&bench.beside, &key).await.facts;
                    assert_eq!((row.state, row.fence, row.revision), (State::InFlight, 1, 1));
                    let settled = bench.beside.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                    assert!(matches!(settled, Settled::Moved(State::Confirmed)), "the row is not ours");
                    None
                }
                Ok(other) => panic!("nobody else claims {key}: {other:?}"),
                Err(error) => Some(error),
            }
        })
        .await;
    }

    async fn a_settle_whose_acknowledgement_was_lost_is_written_once(backend) {
        at_every_step(backend, async |bench, key| {
            let claim = bench.won(&key, never()).await;
            bench.arm();
            let answer = bench.store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await;
            let row = view(&bench.beside, &key).await;
            match answer {
                Ok(Settled::Moved(State::Confirmed)) => {
                    assert_eq!(row.facts.state, State::Confirmed);
                    assert!(row.answer.is_some());
                    assert!(history(&bench.beside, &key).await.is_empty());
                    None
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => Some(error),
            }
        })
        .await;
    }

    async fn a_move_whose_acknowledgement_was_lost_is_written_once_with_its_event(backend) {
        at_every_step(backend, async |bench, key| {
            let claim = bench.won(&key, never()).await;
            bench.arm();
            let unknown = Err::<Receipt, _>(Failure::unknown("timeout"));
            match bench.store.settle(claim, unknown, Backoff::default()).await {
                Ok(settled) => {
                    assert!(matches!(settled, Settled::Moved(State::InDoubt)), "{settled:?}");
                    assert_eq!(history(&bench.beside, &key).await, ["unknown"]);
                    None
                }
                Err(error) => Some(error),
            }
        })
        .await;
    }

    async fn a_taking_whose_acknowledgement_was_lost_is_recognised_by_its_token(backend) {
        at_every_step(backend, async |bench, key| {
            in_state(&bench.db, &bench.beside, &key, State::InDoubt, keyed()).await;
            bench.arm();
            match bench.store.take_over(&key, Taking::Redrive, None).await {
                Ok(Taken::Started(Started { claim, .. })) => {
                    assert_eq!(view(&bench.beside, &key).await.facts.fence, 2);
                    let settled = bench.beside.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                    assert!(matches!(settled, Settled::Moved(State::Confirmed)), "the taking is not ours");
                    assert_eq!(history(&bench.beside, &key).await, ["unknown", "redrive", "confirm"]);
                    None
                }
                // Somebody's dead connection still holds the row, or held it: then nobody has taken it.
                Ok(other @ (Taken::Refused(_) | Taken::Missing)) => {
                    assert_eq!(view(&bench.beside, &key).await.facts.fence, 1, "taken, and not told so: {other:?}");
                    None
                }
                Err(error) => Some(error),
            }
        })
        .await;
    }

    async fn evidence_is_on_file_whenever_it_is_said_to_be(backend) {
        for finding in [Finding::Done { ids: vec!["ch_1".into()] }, Finding::NotDone, Finding::CannotTell] {
            at_every_step(backend, async |bench, key| {
                let key = earmark_tests::claims::key(&format!("{}-{finding:?}", key.message_id()));
                in_state(&bench.db, &bench.beside, &key, State::InFlight, never()).await;
                bench.arm();
                match bench.store.record_evidence(&About::Key(key.clone()), evidence(finding.clone())).await {
                    Ok(_) => {
                        assert_eq!(history(&bench.beside, &key).await.len(), 1, "{key}");
                        None
                    }
                    Err(error) => Some(error),
                }
            })
            .await;
        }
    }

    async fn an_orphan_and_a_mismatch_are_on_file_whenever_they_are_said_to_be(backend) {
        at_every_step(backend, async |bench, key| {
            let before = count(&bench.db, "earmark_orphan").await;
            bench.arm();
            let orphan = bench.store.record_evidence(&About::Key(key.clone()), done(key.message_id())).await;
            if orphan.is_ok() {
                assert_eq!(count(&bench.db, "earmark_orphan").await, before + 1);
            }
            orphan.err()
        })
        .await;
        at_every_step(backend, async |bench, key| {
            drop(bench.won(&key, never()).await);
            bench.arm();
            let other = earmark_claim::NewClaim::new("mail.welcome", "mailer", "other", never());
            let answer = bench.store.claim(&key, other).await;
            if answer.is_ok() {
                assert_eq!(history(&bench.beside, &key).await, ["mismatch"]);
            }
            answer.err()
        })
        .await;
    }

    /// What looks like our own settle may be a webhook that was faster: our receipt is still ours to keep.
    async fn a_webhook_during_a_lost_settle_does_not_cost_the_receipt(backend) {
        if !Backend::all().contains(&backend) {
            return;
        }
        let bench = Bench::new(backend).await;
        let key = key("m1");
        let claim = bench.won(&key, never()).await;
        bench.proxy.arm_held_at("UPDATE earmark_claim SET", Lost::Request, 0);
        let settling = {
            let store = bench.store.clone();
            tokio::spawn(async move { store.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await })
        };
        bench.proxy.reached().await;
        let _ = bench.beside.record_evidence(&About::Key(key.clone()), done("ch_1")).await.unwrap();
        bench.proxy.release();
        let settled = settling.await.unwrap().unwrap();
        let on_row = view(&bench.beside, &key).await.answer.is_some();
        let events = bench.beside.history(&key).await.unwrap();
        let in_history = events.iter().any(|e| e.bytes.as_deref() == Some(br#"{"id":"ch_1"}"#.as_slice()));
        assert!(on_row || in_history, "the receipt is lost: {settled:?}, {events:?}");
        assert!(matches!(settled, Settled::Late(Claimed::Confirmed(_))), "{settled:?}");
    }

    /// Two people (or webhooks) at once: the first one's lost move must not take the second one's for its own.
    async fn an_identical_move_of_somebody_else_is_not_taken_for_ones_own(backend) {
        if !Backend::all().contains(&backend) {
            return;
        }
        let bench = Bench::new(backend).await;
        let key = key("m1");
        in_state(&bench.db, &bench.beside, &key, State::InFlight, never()).await;
        let from = |source: &str| earmark_claim::Evidence { source: source.into(), ..evidence(Finding::NotDone) };
        // The COMMIT is the last request of the move.
        for pass in 0..STEPS_MAX {
            bench.proxy.arm_held(Lost::Request, pass);
            let first = format!("webhook:{pass}");
            let recording = {
                let (store, about, said) = (bench.store.clone(), About::Key(key.clone()), from(&first));
                tokio::spawn(async move { store.record_evidence(&about, said).await })
            };
            let cut = tokio::select! {
                () = bench.proxy.reached() => true,
                () = earmark_tests::claims::eventually("the end", async || recording.is_finished()) => false,
            };
            if !cut {
                let _ = bench.proxy.disarm();
                recording.await.unwrap().unwrap();
                return;
            }
            let second = {
                let (store, about, said) = (bench.beside.clone(), About::Key(key.clone()), from(&format!("other:{pass}")));
                tokio::spawn(async move { store.record_evidence(&about, said).await })
            };
            // Where the first one's transaction holds the row, the second waits for its end.
            earmark_tests::claims::eventually("the second is done or waits", async || {
                second.is_finished() || earmark_tests::claims::waits_for_a_lock(&bench.db).await
            })
            .await;
            bench.proxy.set_paused(true);
            bench.proxy.release();
            second.await.unwrap().unwrap();
            // Now the first one reads back.
            bench.proxy.set_paused(false);
            recording.await.unwrap().unwrap();
            let events = bench.beside.history(&key).await.unwrap();
            let kept = events.iter().filter(|e| e.actor.as_deref() == Some(&first)).count();
            assert_eq!(kept, 1, "{first} was said to be on file");
        }
        panic!("the operation never ends");
    }

    async fn a_read_back_does_not_renew_the_permit(backend) {
        if !Backend::all().contains(&backend) {
            return;
        }
        let db = TestDb::new(backend).await;
        let proxy = Proxy::new(&db).await;
        let declared = Declared { call_timeout: Duration::from_secs(1), ..never() };
        let room = Duration::from_secs(1);
        let options = StoreOptions { margin: Duration::from_millis(10), ..StoreOptions::new(declared.call_timeout + room) };
        let store = ClaimStore::connect(proxy.url(), options).await.unwrap();
        proxy.arm_held(Lost::Claimed, 1);
        let before = Instant::now();
        let claiming = {
            let store = store.clone();
            tokio::spawn(async move { store.claim(&key("m1"), new_claim(declared)).await })
        };
        proxy.reached().await;
        // The answer stays away for half of the time in which sending may start.
        tokio::time::sleep_until((before + room / 2).into()).await;
        proxy.release();
        let Claimed::Won(claim) = claiming.await.unwrap().unwrap() else { panic!() };
        tokio::time::sleep_until((before + room + Duration::from_millis(50)).into()).await;
        assert!(claim.permit().last_look().is_err(), "the permit was renewed");
    }

    async fn while_the_database_is_down_a_claim_errs_as_transient_and_the_redelivery_wins(backend) {
        if !Backend::all().contains(&backend) {
            return;
        }
        let db = TestDb::new(backend).await;
        let proxy = Proxy::new(&db).await;
        // A settle is tried again until about the end of its lease: a short one, just longer than a call.
        let lease = never().call_timeout + Duration::from_secs(2);
        let options = StoreOptions { acquire_timeout: Duration::from_millis(500), ..StoreOptions::new(lease) };
        let store = ClaimStore::connect(proxy.url(), options).await.unwrap();
        let in_flight = won(&store, &key("before"), never()).await;
        proxy.set_down(true).await;
        let refused = store.claim(&key("m1"), new_claim(never())).await;
        assert!(matches!(&refused, Err(e) if e.is_transient()), "{refused:?}");
        let settled = store.settle(in_flight, Ok(receipt("ch_1")), Backoff::default()).await;
        assert!(matches!(&settled, Err(e) if e.is_transient()), "{settled:?}");
        assert_eq!(count(&db, "earmark_claim").await, 1);
        proxy.set_down(false).await;
        // Delivered again, as a broker would: a login may take its time on a busy machine.
        let redelivered = async {
            loop {
                match store.claim(&key("m1"), new_claim(never())).await {
                    Err(error) if error.is_transient() => {}
                    answer => break answer,
                }
            }
        };
        assert!(matches!(soon("the redelivery", redelivered).await, Ok(Claimed::Won(_))));
        // The outcome was not recorded, and that is not "it did not happen".
        age(&db, &key("before"), LEASE).await;
        assert_eq!(store.lease_over(&key("before")).await.unwrap(), Some(State::InDoubt));
    }

    /// A password changed behind our back, a database renamed: the message must come again, not be dropped.
    async fn a_login_that_fails_after_the_start_is_transient(backend) {
        if !Backend::all().contains(&backend) {
            return;
        }
        let db = TestDb::new(backend).await;
        let name = db.url().rsplit('/').next().unwrap().to_owned();
        let user = format!("u{}", name.trim_start_matches("earmark_test_"));
        // The password of the server's own URL stays in ours.
        let password = url::Url::parse(db.url()).unwrap().password().unwrap_or_default().to_owned();
        let statements = match backend {
            Backend::Postgres => vec![
                format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{password}'"),
            ],
            _ => vec![
                format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'"),
                format!("GRANT ALL ON {name}.* TO {user}@'%'"),
            ],
        };
        for sql in statements {
            db.execute(&sql).await.unwrap();
        }
        let proxy = Proxy::new(&db).await;
        let mut url = url::Url::parse(proxy.url()).unwrap();
        url.set_username(&user).unwrap();
        let options = StoreOptions { acquire_timeout: Duration::from_millis(500), ..StoreOptions::new(LEASE) };
        let store = ClaimStore::connect(url.as_str(), options).await.unwrap();
        db.execute(&match backend {
            Backend::Postgres => format!("ALTER ROLE {user} NOLOGIN"),
            _ => format!("ALTER USER {user}@'%' ACCOUNT LOCK"),
        })
        .await
        .unwrap();
        proxy.set_down(true).await;
        proxy.set_down(false).await;
        let refused = store.claim(&key("m1"), new_claim(never())).await;
        store.close().await;
        let dropped = match backend {
            Backend::Postgres => format!("DROP ROLE {user}"),
            _ => format!("DROP USER {user}@'%'"),
        };
        db.execute(&dropped).await.unwrap();
        assert!(matches!(&refused, Err(e) if e.is_transient()), "{refused:?}");
        assert_eq!(count(&db, "earmark_claim").await, 0);
    }
}

/// The connection is lost while the server commits, and it goes on committing: "nothing there" is "not yet", and neither "somebody else
/// is at it" nor "not allowed".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taking_that_the_server_is_still_committing_is_not_somebody_elses() {
    if !Backend::all().contains(&Backend::Postgres) {
        return;
    }
    let Bench { db, proxy, store, beside, .. } = Bench::new(Backend::Postgres).await;
    for slow in ["0.03", "0.6"] {
        let key = key(slow);
        in_state(&db, &beside, &key, State::Retryable, keyed()).await;
        // A trigger of the host's that runs in the commit, and takes its time.
        for sql in [
            format!(
                "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({slow}); RETURN NULL; END $$"
            ),
            "DROP TRIGGER IF EXISTS slow ON earmark_claim".to_owned(),
            "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON earmark_claim DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION slow()"
                .to_owned(),
        ] {
            db.execute(&sql).await.unwrap();
        }
        let taking = tokio::spawn({
            let (store, key) = (store.clone(), key.clone());
            async move { store.take_over(&key, Taking::Take, None).await }
        });
        let committing = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND state = 'active'";
        while db.number(committing).await == 0 && !taking.is_finished() {}
        proxy.set_down(true).await;
        proxy.set_down(false).await;
        match taking.await.unwrap() {
            Ok(Taken::Started(Started { claim, .. })) => {
                let settled = beside.settle(claim, Ok(receipt("ch_1")), Backoff::default()).await.unwrap();
                assert!(
                    matches!(settled, Settled::Moved(State::Confirmed)),
                    "the row is not ours: {settled:?}"
                );
            }
            Err(error) => assert!(matches!(error, Error::Unclear { .. }), "{slow}: {error:?}"),
            Ok(other) => panic!("{slow}: {other:?}"),
        }
    }
}
