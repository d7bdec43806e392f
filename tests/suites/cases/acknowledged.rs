//! B17: a message is acknowledged when its claim is committed, and not before.

use std::time::Duration;

use earmark_claim::{ClaimKey, State};
use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Outcome};
use earmark_tests::claims::{LEASE, age, key, keyed, store};
use earmark_tests::effects::earmark_with;
use earmark_tests::http::{charge, run, service};
use earmark_tests::process::{Service, declared};
use earmark_tests::provider::{Provider, Reply};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

/// What a consumer tells its broker: see the table in docs/adapters.md.
#[derive(Debug, PartialEq)]
enum Told {
    Acknowledge,
    GiveBack,
}

async fn deliver(earmark: &Earmark, key: &ClaimKey) -> Told {
    match earmark.run::<Stub>(key, &json!({})).await {
        Ok(_) => Told::Acknowledge,
        Err(_) => Told::GiveBack,
    }
}

per_backend! {
    async fn what_cannot_be_claimed_is_neither_called_nor_acknowledged(db: TestDb) {
        let store = store(&db).await;
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = earmark_with(&store, &stub);
        db.execute("ALTER TABLE earmark_claim RENAME TO taken_away").await.unwrap();
        for _ in 0..2 {
            assert_eq!(deliver(&earmark, &key("m17")).await, Told::GiveBack);
        }
        assert!(stub.calls().is_empty());
        db.execute("ALTER TABLE taken_away RENAME TO earmark_claim").await.unwrap();
        for _ in 0..2 {
            assert_eq!(deliver(&earmark, &key("m17")).await, Told::Acknowledge);
        }
        assert_eq!(stub.effects().len(), 1);
    }

    async fn a_service_that_dies_before_it_acknowledges_gets_the_message_again_and_acts_once(db: TestDb) {
        let provider = Provider::deduplicating([Reply::ActThenHold]).await;
        let process = Service {
            database: db.url().to_owned(),
            provider: provider.origin(),
            messages: 1,
            keyed: true,
            grace: Duration::ZERO,
        };
        let mut child = process.start("service");
        provider.arrived(1).await;
        child.kill().await.unwrap();
        // The broker delivers again: the claim is found, and carries all that is needed.
        let store = store(&db).await;
        let second = service(&store, &provider, declared(true));
        let outcome = run(&second, &key("m0"), &charge(&provider)).await;
        assert!(matches!(outcome, Outcome::InFlight { .. }), "to be acknowledged: {outcome:?}");
        assert_eq!(provider.calls().len(), 1);
        age(&db, &key("m0"), LEASE).await;
        sweep_once(&second).await;
        assert_eq!(store.find(&key("m0")).await.unwrap().unwrap().facts.state, State::Confirmed);
        assert_eq!(provider.effects().len(), 1);
    }
}
