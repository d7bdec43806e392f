//! What floods, fails or cannot be read does not keep the rest from being swept.

use std::time::Duration;

use earmark_claim::{Backoff, ClaimKey, Claimed, Failure, NewClaim, Receipt, State};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Limits, Outcome};
use earmark_sweeper::report::input::{Scope, Window};
use earmark_sweeper::report::{self, build};
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{key, keyed, natural, never, store};
use earmark_tests::old::copy;
use earmark_tests::{Backend, TestDb, per_backend};
use serde_json::Value;

use crate::kit::{KIND, LONG, World, new, only, past_lease};

/// Everything becomes due.
async fn age_all(db: &TestDb) {
    let micros = past_lease().as_micros();
    let columns = ["due_at", "created_at", "window_from"].map(|c| format!("{c} = {c} - {micros}")).join(", ");
    db.execute(&format!("UPDATE earmark_claim SET {columns} WHERE due_at IS NOT NULL")).await.unwrap();
}

per_backend! {
    async fn a_pair_with_a_thousand_due_claims_does_not_starve_another(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("flood-0"), new(natural())).await;
        copy(&db, "flood-", 1000).await;
        for n in 0..5 {
            world.crash(&ClaimKey::in_tenant("b", "mail", format!("few-{n}").as_str()).unwrap(), new(natural())).await;
        }
        age_all(&db).await;
        let options = SweeperOptions { batch_max: 20, share_max: 50, ..SweeperOptions::default() };
        let sweeper = Sweeper::new(&world.earmark, options).unwrap();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.confirmed), (20, 20), "the pass is full, and all of the few are in it");
        let open = "SELECT COUNT(*) FROM earmark_claim WHERE tenant = 'b' AND state <> 'confirmed'";
        assert_eq!(db.number(open).await, 0);
    }

    async fn a_pass_begins_where_the_last_one_ended(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        for tenant in ["a", "b", "c"] {
            for n in 0..4 {
                let key = ClaimKey::in_tenant(tenant, "mail", format!("m{n}").as_str()).unwrap();
                world.crash(&key, new(natural())).await;
            }
        }
        age_all(&db).await;
        let options = SweeperOptions { batch_max: 2, ..SweeperOptions::default() };
        let sweeper = Sweeper::new(&world.earmark, options).unwrap();
        let mut confirmed = Vec::new();
        for _ in 0..3 {
            assert_eq!(sweeper.run_once().await.unwrap().confirmed, 2);
            let mut of = Vec::new();
            for tenant in ["a", "b", "c"] {
                let sql = format!("SELECT COUNT(*) FROM earmark_claim WHERE tenant = '{tenant}' AND state = 'confirmed'");
                of.push(db.number(&sql).await);
            }
            confirmed.push(of);
        }
        assert_eq!(confirmed, [[1, 1, 0], [2, 1, 1], [2, 2, 2]], "more pairs than a pass has places: none waits for another's end");
    }

    async fn a_kind_that_nobody_here_knows_is_left_and_shows_as_without_a_handler(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        let foreign = |declared| NewClaim { kind: "sms.code".into(), ..new(declared) };
        world.crash(&key("natural"), foreign(natural())).await;
        world.crash(&key("never"), foreign(never())).await;
        age_all(&db).await;
        let pass = world.sweep().await;
        assert_eq!((pass.doubted, pass.left, pass.escalated, pass.performed, pass.failed), (2, 1, 1, 0, 0));
        assert_eq!(world.state(&key("natural")).await, State::InDoubt, "a process with its code may redrive it");
        assert_eq!(world.cause(&key("never")).await, "no_rule_decides");
        assert_eq!(world.sweep().await.due, 0, "it steps aside");

        let no_handler = async |after: Duration| {
            let snapshot = world.store().snapshot(world.store().now().await.unwrap()).await.unwrap();
            let window = Window { from: snapshot.as_of, to: snapshot.as_of };
            let input = report::read::input(&snapshot, window, Scope::default());
            let options = report::Options { orphan_after: after, ..report::Options::default() };
            let report = build(&input, &options);
            report.no_handler.iter().map(|n| (n.kind.raw().to_owned(), n.state, n.tally.claims)).collect::<Vec<_>>()
        };
        assert_eq!(no_handler(Duration::from_secs(3600)).await, []);
        world.sweep_after(&key("natural"), Duration::from_secs(3700)).await;
        assert_eq!(no_handler(Duration::from_secs(3600)).await, [("sms.code".to_owned(), State::InDoubt, 1)]);
    }

    async fn a_row_that_cannot_be_read_steps_aside_and_is_named_on_the_report(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        for id in ["bad", "good"] {
            world.crash(&key(id), new(natural())).await;
        }
        // Three letters are what the column checks; that they are capitals is for the code to see.
        db.execute("UPDATE earmark_claim SET amount_minor = 1, currency = 'eu1' WHERE message_id = 'bad'").await.unwrap();
        age_all(&db).await;
        let pass = world.sweep().await;
        assert_eq!((pass.due, pass.confirmed, pass.failed), (2, 1, 1));
        assert_eq!(world.state(&key("good")).await, State::Confirmed);
        assert_eq!(world.sweep().await.due, 0, "it steps aside");

        let from = world.store().now().await.unwrap().minus(LONG);
        let snapshot = world.store().snapshot(from).await.unwrap();
        assert_eq!(snapshot.unreadable.len(), 1, "{:?}", snapshot.unreadable);
        assert!(snapshot.unreadable[0].contains("mail/bad"), "{:?}", snapshot.unreadable);
        let window = Window { from, to: snapshot.as_of };
        let report = build(&report::read::input(&snapshot, window, Scope::default()), &report::Options::default());
        let fault = report.faults.iter().find(|fault| fault.code == "unreadable").expect("a fault");
        assert!(fault.words.contains("mail/bad"), "{}", fault.words);

        db.execute("UPDATE earmark_claim SET amount_minor = NULL, currency = NULL WHERE message_id = 'bad'").await.unwrap();
        let other = Sweeper::new(&world.earmark, SweeperOptions::default()).unwrap();
        assert_eq!(other.run_once().await.unwrap().confirmed, 1, "mended, it is handled as any other");
    }

    async fn a_key_that_nobody_could_have_made_stops_no_sweep(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        for id in ["bad", "good"] {
            world.crash(&key(id), new(natural())).await;
        }
        let bell = match db.backend() {
            Backend::Sqlite => "char(7)",
            Backend::Postgres => "chr(7)",
            Backend::MariaDb => "CHAR(7)",
        };
        db.execute(&format!("UPDATE earmark_claim SET message_id = {bell} WHERE message_id = 'bad'")).await.unwrap();
        age_all(&db).await;
        assert_eq!(world.sweep().await.confirmed, 1);
        let now = world.store().now().await.unwrap();
        assert_eq!(world.store().snapshot(now).await.unwrap().unreadable.len(), 1);
    }

    async fn a_downstream_that_fails_in_a_row_is_left_alone(db: TestDb) {
        let failing = Stub::new(KIND, keyed()).script(vec![Step::Lose; 7]);
        let world = World::limited(&db, failing, Limits { breaker_sample_every: LONG, ..Limits::default() }).await;
        for n in 0..10 {
            world.fail(&key(&format!("m{n}")), new(keyed()), Failure::unknown("timeout")).await;
        }
        age_all(&db).await;
        age_all(&db).await;
        let options = SweeperOptions { concurrency: 1, ..SweeperOptions::default() };
        let sweeper = Sweeper::new(&world.earmark, options).unwrap();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.performed, pass.rested), (10, 5, 5), "five in a row, and no more");
        age_all(&db).await;
        age_all(&db).await;
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.performed, pass.rested), (5, 0, 5), "the others are aside");
        let held = world.earmark.run::<Stub>(&key("new"), &serde_json::json!({})).await.unwrap();
        assert!(matches!(held, Outcome::Held { .. }), "the service asks the same breaker: {held:?}");
        assert_eq!(world.stub.calls().len(), 5);
    }

    async fn a_downstream_that_is_left_alone_is_sampled_and_once_it_answers_called_as_ever(db: TestDb) {
        let failing = Stub::new(KIND, keyed()).script(vec![Step::Lose; 7]);
        let sampled = Limits { breaker_sample_every: Duration::from_millis(20), ..Limits::default() };
        let world = World::limited(&db, failing, sampled).await;
        for n in 0..10 {
            world.fail(&key(&format!("m{n}")), new(keyed()), Failure::unknown("timeout")).await;
        }
        // Claims that have stepped aside return one by one as samples, and all of them with the answer; by time none would.
        let options = SweeperOptions { concurrency: 1, aside_for: LONG, ..SweeperOptions::default() };
        let sweeper = Sweeper::new(&world.earmark, options).unwrap();
        let begun = std::time::Instant::now();
        while db.number("SELECT COUNT(*) FROM earmark_claim WHERE state <> 'confirmed'").await > 0 {
            age_all(&db).await;
            age_all(&db).await;
            sweeper.run_once().await.unwrap();
            assert!(begun.elapsed() < Duration::from_secs(60), "it never answers: {:?}", world.stub.calls().len());
        }
        assert_eq!((world.stub.effects().len(), world.stub.calls().len()), (10, 17));
        assert!(!world.earmark.is_failing("stub"));
    }

    async fn a_panic_of_the_effects_code_costs_its_claim_one_attempt_and_no_other(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, natural()).script([Step::Panic])).await;
        for id in ["a", "b", "c"] {
            world.crash(&key(id), new(natural())).await;
        }
        age_all(&db).await;
        let pass = world.sweep().await;
        assert_eq!((pass.performed, pass.confirmed, pass.failed), (3, 2, 0));
    }

    async fn another_kind_of_claim_is_swept_by_the_service_that_knows_it(db: TestDb) {
        let sidecar = Earmark::builder(store(&db).await).build().unwrap();
        let sweeper = Sweeper::new(&sidecar, SweeperOptions::default()).unwrap();
        let world = World::new(&db, Stub::new(KIND, natural())).await;
        world.crash(&key("m1"), new(natural())).await;
        age_all(&db).await;
        assert_eq!(sweeper.run_once().await.unwrap(), only(|p| (p.doubted, p.left) = (1, 1)));
        assert_eq!(world.sweep().await, only(|p| (p.performed, p.confirmed) = (1, 1)));
    }

    async fn a_settle_that_comes_late_is_not_undone_by_the_sweep(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, never())).await;
        let Claimed::Won(claim) = world.store().claim(&key("m1"), new(never())).await.unwrap() else { panic!() };
        age_all(&db).await;
        assert_eq!(world.sweep().await.escalated, 1);
        let done: Result<Receipt<Value>, Failure> = Ok(Receipt::new(None, Some("ch_1".into())));
        let _ = world.store().settle(claim, done, Backoff::default()).await.unwrap();
        assert_eq!(world.state(&key("m1")).await, State::Confirmed);
    }
}
