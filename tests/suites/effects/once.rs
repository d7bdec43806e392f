//! The ordinary path.

use earmark_effects::stub::Stub;
use earmark_effects::{Earmark, Error, Outcome};
use earmark_tests::claims::{key, keyed, store};
use earmark_tests::effects::By;
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

    async fn of_many_that_come_at_once_one_is_performed(db: TestDb) {
        let stub = Stub::new("mail.welcome", keyed());
        let earmark = Earmark::builder(store(&db).await).effect(stub.clone()).build().unwrap();
        let mut runs = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let earmark = earmark.clone();
            runs.spawn(async move { earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap() });
        }
        for outcome in runs.join_all().await {
            assert!(matches!(outcome, Outcome::Confirmed(_) | Outcome::InFlight { .. }), "{outcome:?}");
        }
        assert_eq!(stub.calls().len(), 1);
    }

    async fn an_effect_of_several_kinds_is_run_by_its_kind(db: TestDb) {
        let (welcome, farewell) = (Stub::new("mail.welcome", keyed()), Stub::new("mail.farewell", keyed()));
        let builder = Earmark::builder(store(&db).await);
        let earmark = builder.effect(welcome.clone()).effect(farewell.clone()).build().unwrap();
        let of_two = earmark.run::<Stub>(&key("m1"), &json!({})).await.unwrap_err();
        assert!(of_two.to_string().contains("run_kind"), "{of_two}");
        assert!(earmark.run_kind::<Stub>("mail.farewell", &key("m1"), &json!({})).await.unwrap().is_confirmed());
        assert_eq!((welcome.calls().len(), farewell.calls().len()), (0, 1));
        for (kind, wrong) in [("mail.other", "mail.other"), ("mail.welcome", "By")] {
            let refused = earmark.run_kind::<By>(kind, &key("m2"), &json!({})).await.unwrap_err();
            assert!(matches!(&refused, Error::NotRegistered(what) if what.contains(wrong)), "{refused}");
        }
        assert!(earmark.store().find(&key("m2")).await.unwrap().is_none(), "nothing was written");
    }
}
