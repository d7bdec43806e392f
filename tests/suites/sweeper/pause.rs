//! Sweeps obey a pause: nothing is sent, what needs no call is done, and everything goes on after the resume.

use std::time::Duration;

use earmark_claim::{ClaimKey, Failure, Joined, NewClaim, State, When};
use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Limits};
use earmark_sweeper::{Sweeper, SweeperOptions};
use earmark_tests::claims::{age, key, keyed, natural, never, store};
use earmark_tests::effects::probed;
use earmark_tests::{TestDb, per_backend};

use crate::kit::{KIND, LONG, World, new, past_lease};

async fn hold(world: &World<'_>, key: &ClaimKey, new: NewClaim) {
    let joined = world.store().claim_held(key, new, Duration::ZERO).await.unwrap();
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
}

per_backend! {
    async fn nothing_is_sent_what_needs_no_call_is_done_and_after_the_resume_all_is_sent(db: TestDb) {
        let world = World::limited(&db, Stub::new(KIND, keyed()), Limits::default()).await;
        world.store().pause("stub", "K. Lang", "outage").await.unwrap();
        hold(&world, &key("held"), new(keyed())).await;
        let minute = Some(When::In(Duration::from_secs(60)));
        hold(&world, &key("expires"), NewClaim { send_by: minute, ..new(keyed()) }).await;
        world.fail(&key("retryable"), new(keyed()), Failure::not_sent("busy")).await;
        world.fail(&key("too old"), new(keyed()), Failure::not_sent("busy")).await;
        world.fail(&key("doubtful"), new(keyed()), Failure::unknown("timeout")).await;
        world.fail(&key("nobody can tell"), new(never()), Failure::unknown("timeout")).await;
        world.crash(&key("in flight"), new(keyed())).await;
        for id in ["held", "expires", "retryable", "doubtful", "nobody can tell", "in flight"] {
            age(&db, &key(id), past_lease()).await;
        }
        age(&db, &key("too old"), Duration::from_secs(25 * 3600)).await;

        let pass = world.sweep().await;
        assert_eq!((pass.performed, pass.looked, pass.failed), (0, 0, 0), "{pass:?}");
        assert_eq!((pass.expired, pass.doubted, pass.escalated), (1, 1, 2), "{pass:?}");
        assert_eq!(pass.paused, 3, "retryable, in doubt, and in flight until now; what is held is not read: {pass:?}");
        assert!(world.stub.calls().is_empty());
        for (id, state) in [
            ("held", State::Held),
            ("expires", State::Abandoned),
            ("retryable", State::Retryable),
            ("too old", State::Escalated),
            ("doubtful", State::InDoubt),
            ("nobody can tell", State::Escalated),
            ("in flight", State::InDoubt),
        ] {
            assert_eq!(world.state(&key(id)).await, state, "{id}");
        }
        assert_eq!(world.sweep().await.due, 0, "they wait aside");

        world.store().resume("stub", "K. Lang", "over").await.unwrap();
        let pass = world.sweep().await;
        assert_eq!((pass.performed, pass.confirmed), (4, 4), "{pass:?}");
        assert_eq!((world.stub.calls().len(), world.stub.effects().len()), (4, 4));
    }

    async fn nobody_is_asked_while_it_is_paused(db: TestDb) {
        let stub = Stub::new(KIND, probed(never())).script([Step::ActThenLose]);
        let earmark = Earmark::builder(store(&db).await).probed(stub.clone(), stub.clone());
        let earmark = earmark.pauses_every(Duration::ZERO).build().unwrap();
        let _ = earmark.run::<Stub>(&key("m1"), &serde_json::json!({})).await.unwrap();
        age(&db, &key("m1"), LONG).await;
        let sweeper = Sweeper::new(&earmark, SweeperOptions::default()).unwrap();
        earmark.store().pause("stub", "K. Lang", "outage").await.unwrap();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.paused, stub.looks()), (1, 1, 0), "{pass:?}");
        earmark.store().resume("stub", "K. Lang", "over").await.unwrap();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.looked, pass.confirmed, stub.looks()), (1, 1, 1), "{pass:?}");
    }

    async fn any_number_of_held_claims_of_a_paused_downstream_starve_no_other_of_their_pair(db: TestDb) {
        let world = World::limited(&db, Stub::new(KIND, natural()), Limits::default()).await;
        for n in 0..30 {
            hold(&world, &key(&format!("waits {n}")), NewClaim { downstream: "paused".into(), ..new(natural()) }).await;
        }
        hold(&world, &key("last"), new(natural())).await;
        world.store().pause("paused", "K. Lang", "outage").await.unwrap();
        let options = SweeperOptions { share_max: 5, batch_max: 5, ..SweeperOptions::default() };
        let sweeper = Sweeper::new(&world.earmark, options).unwrap();
        let pass = sweeper.run_once().await.unwrap();
        assert_eq!((pass.due, pass.confirmed), (1, 1), "{pass:?}");
        world.store().resume("paused", "K. Lang", "over").await.unwrap();
        let mut passes = 0;
        while db.number("SELECT COUNT(*) FROM earmark_claim WHERE state <> 'confirmed'").await > 0 {
            assert_eq!(sweeper.run_once().await.unwrap().confirmed, 5);
            passes += 1;
        }
        assert_eq!((passes, world.stub.calls().len()), (6, 31));
    }

    async fn what_is_beyond_a_limit_waits_for_the_next_passes(db: TestDb) {
        let slow = Limits { calls_per_second: Some(0.01), burst: Some(4), ..Limits::default() };
        let world = World::limited(&db, Stub::new(KIND, natural()), slow).await;
        for n in 0..10 {
            hold(&world, &key(&format!("m{n}")), new(natural())).await;
        }
        let pass = world.sweep().await;
        assert_eq!((pass.due, pass.confirmed, pass.limited), (10, 4, 6), "{pass:?}");
        // A process with limits of its own does the rest.
        let other = Earmark::builder(world.store().clone()).effect(world.stub.clone()).build().unwrap();
        let pass = Sweeper::new(&other, SweeperOptions::default()).unwrap().run_once().await.unwrap();
        assert_eq!((pass.due, pass.confirmed), (6, 6), "{pass:?}");
    }
}
