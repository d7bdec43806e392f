//! A random walk through the store's operations: every row fits the CHECKs and the guard, and every move is what the pure machine says of
//! the facts read before.

use std::time::Duration;

use earmark_claim::policy::Cause;
use earmark_claim::state::{Event, Facts, Finding, Outcome, Refused, Room, Ruling, Seen, Taking, next};
use earmark_claim::{
    About, Backoff, Claim, ClaimKey, ClaimStore, Claimed, Decision, Declared, Error, Failure, InFlight,
    NewClaim, ProbeTerms, Recorded, RepeatSafety, State, Taken, Token, Verdict, When,
};
use earmark_tests::claims::{LEASE, age, evidence, key, natural, never, new_claim, receipt, store, view};
use earmark_tests::{TestDb, per_layout};

const CLAIMS: usize = 8;
const STEPS: usize = 400;

/// A holder and what its claim does not show: the token of its taking.
struct Holder {
    claim: Claim<InFlight>,
    token: Token,
}

struct Walk<'a> {
    db: &'a TestDb,
    store: ClaimStore,
    random: fastrand::Rng,
    keys: Vec<ClaimKey>,
    holders: Vec<Holder>,
    step: usize,
}

/// What an operation did, as the caller was told.
#[derive(Debug, PartialEq)]
enum Told {
    /// The claim's state is now this, or something was kept.
    Made,
    /// Nothing was written.
    Refused,
}

impl Walk<'_> {
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())].clone()
    }

    fn declared(&mut self) -> Declared {
        let proof = ProbeTerms { lag: Duration::from_secs(5), not_found_is_proof: true, looks_max: 3 };
        let weak = ProbeTerms { not_found_is_proof: false, ..proof };
        let probe = self.pick(&[None, Some(proof), Some(weak)]);
        let repeat = self.pick(&[
            RepeatSafety::Never,
            RepeatSafety::Natural,
            RepeatSafety::Keyed { window: Duration::from_secs(600) },
        ]);
        let landing_horizon = self.pick(&[None, Some(Duration::from_secs(10))]);
        Declared {
            repeat,
            probe,
            landing_horizon,
            attempts_max: 3,
            age_max: Duration::from_secs(7200),
            ..never()
        }
    }

    async fn make(&mut self, i: usize) {
        let key = key(&format!("m{i}"));
        let new = NewClaim {
            not_before: self.pick(&[None, None, Some(When::In(Duration::from_secs(30)))]),
            send_by: self.pick(&[None, None, Some(When::In(Duration::from_secs(1800)))]),
            ..new_claim(self.declared())
        };
        if let Claimed::Won(claim) = self.store.claim(&key, new).await.unwrap() {
            let token = view(&self.store, &key).await.facts.token;
            self.holders.push(Holder { claim, token });
        }
        self.keys.push(key);
    }

    fn finding(&mut self) -> Finding {
        let id = self.pick(&["ch_1", "ch_1", "ch_1", "ch_2"]).to_owned();
        self.pick(&[
            Finding::Done { ids: vec![id] },
            Finding::Done { ids: vec![] },
            Finding::Refused { covers_all: true },
            Finding::Refused { covers_all: false },
            Finding::NotDone,
            Finding::NotDone,
            Finding::CannotTell,
        ])
    }

    fn failure(&mut self) -> Failure {
        let verdict = self.pick(&[
            Verdict::Refused { covers_earlier: false },
            Verdict::Refused { covers_earlier: true },
            Verdict::NotSent,
            Verdict::NotSent,
            Verdict::Unknown,
            Verdict::Unknown,
        ]);
        let class = self.pick(&["timeout", "rate_limited", "fault.origin_not_allowed"]);
        Failure::new(verdict, class).with_provider_ref(self.pick(&[None, None, Some("ch_1".to_owned())]))
    }

    /// One operation, the same as an event for the machine, and what the caller was told.
    async fn act(&mut self, key: &ClaimKey, facts: &Facts) -> (Event, Told) {
        let store = self.store.clone();
        match self.random.u32(0..10) {
            0..=2 => {
                let how = self.pick(&[Taking::Begin, Taking::Take, Taking::Redrive]);
                let room = Room { lease: LEASE, margin: store.options().margin };
                let told = match store.take_over(key, how, None).await.unwrap() {
                    Taken::Started(earmark_claim::Started { claim, .. }) => {
                        let token = view(&store, key).await.facts.token;
                        self.holders.push(Holder { claim, token });
                        Told::Made
                    }
                    Taken::Refused(_) => Told::Refused,
                    Taken::Missing => panic!("nobody else holds the row"),
                };
                (Event::Taking { how, room }, told)
            }
            3 => (Event::LeaseOver, quiet(store.lease_over(key).await)),
            4 => (Event::Expire, quiet(store.expire_due(key).await)),
            5 if self.random.u32(0..4) == 0 => {
                (Event::Cancel, told(store.cancel(key, "kim", "by hand").await))
            }
            5 | 6 => {
                let view = view(&store, key).await;
                let (finding, again_in) = (self.finding(), Duration::from_secs(1));
                let begun_at = view.facts.now;
                let told = told(store.record_look(&view, begun_at, finding.clone(), again_in, None).await);
                (Event::Look { fence: view.facts.fence, begun_at, finding, again_in }, told)
            }
            7 => (Event::Escalate, told(store.escalate(key, Cause::NoRuleDecides, None, None).await)),
            8 => {
                let finding = self.finding();
                let source = format!("webhook:{}", self.step);
                let said = earmark_claim::Evidence { source, ..evidence(finding.clone()) };
                let recorded = store.record_evidence(&About::Key(key.clone()), said).await.unwrap();
                assert!(matches!(recorded, Recorded::At { .. }), "{recorded:?}");
                (Event::Evidence { finding, known: false }, Told::Made)
            }
            _ => {
                let ruling = self.pick(&[
                    Ruling::Done { provider_ref: Some("ch_1".into()) },
                    Ruling::NotDone,
                    Ruling::Repeat,
                    Ruling::Repeat,
                ]);
                let seen = Seen { state: facts.state, fence: facts.fence, revision: facts.revision };
                let horizon = self.pick(&[None, Some(Duration::from_secs(20))]);
                let decision = Decision {
                    seen,
                    ruling: ruling.clone(),
                    actor: "kim".into(),
                    reason: "a walk".into(),
                    evidence: vec![],
                    horizon,
                    looked: false,
                };
                (
                    Event::Rule { seen, ruling, horizon, looked: false },
                    told(store.resolve(key, decision).await),
                )
            }
        }
    }

    /// A holder settles, the newest or one that was fenced out long ago.
    async fn settle(&mut self) -> (ClaimKey, Facts, Event) {
        let Holder { claim, token } = self.holders.swap_remove(self.random.usize(..self.holders.len()));
        let (key, fence) = (claim.key().clone(), claim.permit().fence());
        let facts = view(&self.store, &key).await.facts;
        let done = self.random.u32(0..3) == 0;
        let backoff = Backoff { base: Duration::from_micros(1), max: Duration::from_micros(1) };
        let outcome = if done {
            let id = self.pick(&["ch_1", "ch_1", "ch_2"]);
            let _ = self.store.settle(claim, Ok(receipt(id)), backoff).await.unwrap();
            Outcome::Done { provider_ref: Some(id.to_owned()) }
        } else {
            let failure = self.failure();
            let class = failure.class.clone();
            let outcome = match failure.verdict {
                Verdict::Refused { covers_earlier } => Outcome::Refused { covers_earlier, class },
                Verdict::NotSent => Outcome::NotSent { class },
                Verdict::Unknown => Outcome::Unknown { provider_ref: failure.provider_ref.clone(), class },
            };
            let _ =
                self.store.settle(claim, Err::<earmark_claim::Receipt, _>(failure), backoff).await.unwrap();
            outcome
        };
        (key, facts, Event::Settle { fence, token, outcome, again_in: Duration::ZERO })
    }

    async fn take_a_step(&mut self) {
        self.step += 1;
        let key = self.pick(&self.keys.clone());
        if self.random.u32(0..4) == 0 {
            let by =
                self.pick(&[Duration::from_secs(61), Duration::from_secs(700), Duration::from_secs(2000)]);
            age(self.db, &key, by).await;
        }
        let settles = !self.holders.is_empty() && self.random.u32(0..3) == 0;
        let (key, before, event, told) = if settles {
            let (key, facts, event) = self.settle().await;
            (key, facts, event, Told::Made)
        } else {
            let facts = view(&self.store, &key).await.facts;
            let (event, told) = self.act(&key, &facts).await;
            (key, facts, event, told)
        };
        let after = view(&self.store, &key).await.facts;
        let what = format!("step {}: {key} {event:?}\nbefore {before:?}\nafter {after:?}", self.step);
        match next(&before, &event) {
            Ok(made) => {
                assert_eq!(told, Told::Made, "{what}");
                let set = made.set;
                assert_eq!(after.state, made.to, "{what}");
                assert_eq!((after.doubt, after.contradicted), (set.doubt, set.contradicted), "{what}");
                assert_eq!(after.fence, before.fence + u64::from(set.taking), "{what}");
                assert_eq!(after.token == before.token, !set.taking, "{what}");
                assert_eq!(after.revision, before.revision + u64::from(made.new_fact), "{what}");
                assert_eq!(
                    (after.attempts, after.repeats_granted, after.looks),
                    (set.attempts, set.repeats_granted, set.looks),
                    "{what}"
                );
                assert_eq!(
                    (after.error_class, after.provider_ref),
                    (set.error_class, set.provider_ref),
                    "{what}"
                );
            }
            Err(_) => {
                assert_eq!(told, Told::Refused, "{what}");
                assert_eq!(
                    (after.state, after.token, after.revision, after.due_at),
                    (before.state, before.token, before.revision, before.due_at),
                    "{what}"
                );
            }
        }
    }
}

fn quiet(answer: Result<Option<State>, Error>) -> Told {
    match answer.unwrap() {
        Some(_) => Told::Made,
        None => Told::Refused,
    }
}

fn told(answer: Result<State, Error>) -> Told {
    match answer {
        Ok(_) => Told::Made,
        Err(Error::Refused(why)) => {
            assert!(!matches!(why, Refused::Moved { .. }), "nobody else moves it: {why}");
            Told::Refused
        }
        Err(other) => panic!("{other:?}"),
    }
}

per_layout! {
    async fn a_random_walk_is_what_the_machine_says(db: TestDb) {
        let options = earmark_migrations::Options { guard: true, ..earmark_migrations::Options::default() };
        assert!(earmark_migrations::run(db.connection(), &options).await.unwrap().guard_installed);
        let seed = std::env::var("EARMARK_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("EARMARK_TEST_SEED={seed}");
        let store = store(&db).await;
        let random = fastrand::Rng::with_seed(seed);
        let mut walk = Walk { db: &db, store, random, keys: Vec::new(), holders: Vec::new(), step: 0 };
        let mut seen = std::collections::BTreeSet::new();
        for step in 0..STEPS {
            // New claims, since many end early.
            if step % (STEPS / CLAIMS / 4) == 0 {
                walk.make(step).await;
            }
            walk.take_a_step().await;
            for key in walk.keys.clone().iter().rev().take(2) {
                seen.insert(view(&walk.store, key).await.facts.state);
            }
        }
        assert!(seen.len() >= 4, "the walk saw only {seen:?}");
    }

    async fn a_claim_that_declares_more_now_is_judged_by_the_stricter(db: TestDb) {
        let store = store(&db).await;
        let key = key("m1");
        earmark_tests::claims::in_state(&db, &store, &key, State::InDoubt, natural()).await;
        let taken = store.take_over(&key, Taking::Redrive, Some(&never())).await.unwrap();
        assert!(matches!(taken, Taken::Refused(Refused::RepeatNotSafe { .. })), "{taken:?}");
        assert!(matches!(store.take_over(&key, Taking::Redrive, Some(&natural())).await.unwrap(), Taken::Started { .. }));
    }
}
