//! A store, a scripted effect and a sweeper on one database.

use std::time::Duration;

use earmark_claim::{
    Backoff, ClaimKey, ClaimStore, ClaimView, Claimed, Declared, Failure, NewClaim, Receipt, State,
};
use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Limits};
use earmark_sweeper::{Pass, Sweeper, SweeperOptions};
use earmark_tests::TestDb;
use earmark_tests::claims::{LEASE, age, store};
use serde_json::{Value, json};

/// Longer than any backoff or lease of these tests.
pub const LONG: Duration = Duration::from_secs(1000);

/// The kind that the scripted effect has.
pub const KIND: &str = "mail.welcome";

/// One database, with a sweeper that knows the effect.
pub struct World<'a> {
    pub db: &'a TestDb,
    pub stub: Stub,
    pub earmark: Earmark,
    pub sweeper: Sweeper,
}

impl<'a> World<'a> {
    /// With an effect that cannot be asked.
    pub async fn new(db: &'a TestDb, stub: Stub) -> Self {
        let earmark = Earmark::builder(store(db).await).effect(stub.clone()).build().unwrap();
        Self::of(db, stub, earmark)
    }

    /// With an effect whose provider can be asked.
    pub async fn probed(db: &'a TestDb, stub: Stub) -> Self {
        let earmark = Earmark::builder(store(db).await).probed(stub.clone(), stub.clone()).build().unwrap();
        Self::of(db, stub, earmark)
    }

    /// With an effect that cannot be asked, and a downstream with limits of its own; a pause is obeyed at once.
    pub async fn limited(db: &'a TestDb, stub: Stub, limits: Limits) -> Self {
        let builder = Earmark::builder(store(db).await).effect(stub.clone()).downstream("stub", limits);
        let earmark = builder.pauses_every(Duration::ZERO).build().unwrap();
        Self::of(db, stub, earmark)
    }

    fn of(db: &'a TestDb, stub: Stub, earmark: Earmark) -> Self {
        let sweeper = Sweeper::new(&earmark, SweeperOptions::default()).unwrap();
        Self { db, stub, earmark, sweeper }
    }

    pub fn store(&self) -> &ClaimStore {
        self.earmark.store()
    }

    /// The message is handled by the service; whatever comes of it.
    pub async fn serve(&self, key: &ClaimKey) {
        let _ = self.earmark.run::<Stub>(key, &json!({})).await.unwrap();
    }

    /// The claim is made and its holder dies.
    pub async fn crash(&self, key: &ClaimKey, new: NewClaim) {
        let claimed = self.store().claim(key, new).await.unwrap();
        assert!(matches!(claimed, Claimed::Won(_)), "{claimed:?}");
    }

    /// The claim is made, and its attempt fails so.
    pub async fn fail(&self, key: &ClaimKey, new: NewClaim, failure: Failure) {
        let Claimed::Won(claim) = self.store().claim(key, new).await.unwrap() else {
            panic!("{key} is not new")
        };
        let outcome: Result<Receipt<Value>, _> = Err(failure);
        let _ = self.store().settle(claim, outcome, Backoff::default()).await.unwrap();
    }

    pub async fn sweep(&self) -> Pass {
        self.sweeper.run_once().await.unwrap()
    }

    /// Time passes, and a pass is made.
    pub async fn sweep_after(&self, key: &ClaimKey, by: Duration) -> Pass {
        age(self.db, key, by).await;
        self.sweep().await
    }

    pub async fn view(&self, key: &ClaimKey) -> ClaimView {
        self.store().find(key).await.unwrap().unwrap()
    }

    pub async fn state(&self, key: &ClaimKey) -> State {
        self.view(key).await.facts.state
    }

    /// Why it went to a person.
    pub async fn cause(&self, key: &ClaimKey) -> String {
        assert_eq!(self.state(key).await, State::Escalated, "{key}");
        let events = self.store().history(key).await.unwrap();
        let last = events.iter().rfind(|event| event.name == "escalate").expect("an escalation");
        let detail: Value = serde_json::from_str(&last.detail).unwrap();
        detail["cause"].as_str().unwrap().to_owned()
    }
}

/// A claim of the scripted effect, as the service makes it.
pub fn new(declared: Declared) -> NewClaim {
    NewClaim::new(KIND, "stub", "{}", declared)
}

/// A pass that did nothing but this.
pub fn only(change: impl FnOnce(&mut Pass)) -> Pass {
    let mut pass = Pass { due: 1, ..Pass::default() };
    change(&mut pass);
    pass
}

/// A little longer than a lease.
pub fn past_lease() -> Duration {
    LEASE + Duration::from_secs(1)
}
