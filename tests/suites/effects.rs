//! Effects under claims, from the message to the settle, on every database.

use earmark_effects::stub::{Step, Stub};
use earmark_effects::{Earmark, Outcome};
use earmark_tests::claims::{key, keyed, store};
use earmark_tests::{TestDb, per_backend};
use serde_json::json;

per_backend! {
    async fn a_message_is_performed_once_however_often_it_comes(db: TestDb) {
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = Earmark::builder(store(&db).await).effect(stub.clone()).build().unwrap();
        for _ in 0..3 {
            let outcome = earmark.run::<Stub>(&key("m1"), &json!({"to": "a"})).await.unwrap();
            let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
            assert!(receipt.provider_ref.unwrap().starts_with("stub_"));
        }
        assert_eq!(stub.effects().len(), 1);
        assert_eq!(stub.calls().len(), 1);
    }

    async fn a_panic_in_the_effect_is_a_doubt_and_other_work_goes_on(db: TestDb) {
        let stub = Stub::new("mail.welcome", keyed()).script([Step::Panic, Step::Done]);
        let earmark = Earmark::builder(store(&db).await).effect(stub.clone()).build().unwrap();
        let outcome = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap();
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
        assert!(earmark.run::<Stub>(&key("m2"), &json!({})).await.unwrap().is_confirmed());
    }
}
