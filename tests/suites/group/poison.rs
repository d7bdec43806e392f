//! A row that the database refuses fails alone.

use earmark_claim::{Claimed, Error, NewClaim};
use earmark_tests::claims::{count, key, never, new_claim, store};
use earmark_tests::{Backend, TestDb, per_backend};

use super::kit::{claim_all, confirm_all, keys, moved, win_all, won};

/// Rules of the host's own on our table.
async fn forbid(db: &TestDb) {
    let rules: &[&str] = match db.backend() {
        Backend::Sqlite => &[
            "CREATE TRIGGER shop_made BEFORE INSERT ON earmark_claim WHEN NEW.message_id = 'poison' \
             BEGIN SELECT RAISE(ABORT, 'shop rule'); END",
            "CREATE TRIGGER shop_done BEFORE UPDATE ON earmark_claim \
             WHEN NEW.state = 'confirmed' AND NEW.message_id = 'poison outcome' \
             BEGIN SELECT RAISE(ABORT, 'shop rule'); END",
        ],
        _ => &[
            "ALTER TABLE earmark_claim ADD CONSTRAINT shop_made CHECK (message_id <> 'poison')",
            "ALTER TABLE earmark_claim ADD CONSTRAINT shop_done CHECK (message_id <> 'poison outcome' OR state <> 'confirmed')",
        ],
    };
    for rule in rules {
        db.execute(rule).await.unwrap();
    }
}

per_backend! {
    async fn a_claim_that_breaks_a_rule_of_the_hosts_is_refused_alone(db: TestDb) {
        forbid(&db).await;
        let store = store(&db).await;
        let mut all = keys("m", 30);
        all.insert(11, key("poison"));
        for (i, answer) in claim_all(&store, &all).await.into_iter().enumerate() {
            match answer {
                Err(Error::Rejected { .. }) => assert_eq!(i, 11),
                answer => drop(won(answer)),
            }
        }
        assert_eq!(count(&db, "earmark_claim").await, 30);
    }

    async fn an_outcome_that_breaks_a_rule_of_the_hosts_is_refused_alone(db: TestDb) {
        forbid(&db).await;
        let store = store(&db).await;
        let mut all = keys("m", 30);
        all.insert(11, key("poison outcome"));
        let claims = win_all(&store, &all).await;
        for (i, settled) in confirm_all(&store, claims).await.iter().enumerate() {
            match settled {
                Err(Error::Rejected { .. }) => assert_eq!(i, 11),
                settled => assert!(moved(settled), "{i}: {settled:?}"),
            }
        }
        let confirmed = db.number("SELECT COUNT(*) FROM earmark_claim WHERE state = 'confirmed'").await;
        assert_eq!(confirmed, 30);
    }

    /// A unique index of the host's is not the claim's: neither a duplicate, nor a reason to fail the others.
    async fn a_second_unique_index_refuses_one_of_two_and_nobody_else(db: TestDb) {
        db.execute("CREATE UNIQUE INDEX shop_ref ON earmark_claim (business_ref)").await.unwrap();
        let store = store(&db).await;
        let claims = keys("m", 30).into_iter().enumerate().map(|(i, key)| {
            let order = if i == 20 { 3 } else { i };
            (key, NewClaim { business_ref: Some(format!("order-{order}")), ..new_claim(never()) })
        });
        let answers = store.claim_many(claims).await.unwrap();
        let refused: Vec<_> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| match answer {
                Ok(Claimed::Won(_)) => false,
                Err(Error::Rejected { .. }) => true,
                other => panic!("{other:?}"),
            })
            .map(|(i, _)| i)
            .collect();
        assert!(refused == [3] || refused == [20], "{refused:?}");
        assert_eq!(count(&db, "earmark_claim").await, 29);
    }
}
