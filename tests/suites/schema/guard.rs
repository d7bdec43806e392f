//! The optional guard: all ordered pairs of states, by an UPDATE typed by hand.

use earmark_claim::state::EDGES;
use earmark_migrations::{Options, run};
use earmark_tests::{TestDb, per_backend};
use sea_orm::ConnectionTrait;

use crate::row::{Row, STATES, Value, text};

fn legal(from: &str, to: &str) -> bool {
    EDGES.iter().any(|(_, f, t)| (f.as_str(), t.as_str()) == (from, to))
}

async fn with_guard(db: &TestDb) {
    let report = run(db.connection(), &Options { guard: true, ..Options::default() }).await.unwrap();
    assert!(report.guard_installed);
}

/// Tries all 49, each on a claim of its own. The row fits the target, so that no CHECK decides.
async fn refused_pairs(db: &TestDb) -> Vec<(&'static str, &'static str, String)> {
    let dialect = db.backend().dialect();
    let mut refused = Vec::new();
    for from in STATES {
        for to in STATES {
            let id = format!("{from}-{to}");
            let before = Row::claim(from).with("message_id", text(&id));
            db.execute(&before.insert(dialect)).await.unwrap();
            if let Err(error) = db.execute(&Row::claim(to).update(dialect, &id)).await {
                refused.push((from, to, error.to_string()));
            }
        }
    }
    refused
}

per_backend! {
    async fn exactly_the_legal_moves_pass_the_guard(db: TestDb) {
        with_guard(&db).await;
        let refused = refused_pairs(&db).await;
        for (from, to, error) in &refused {
            assert!(error.contains(&format!("{from} to {to}")), "the refusal of {from} to {to} names neither: {error}");
        }
        for from in STATES {
            for to in STATES {
                let passed = !refused.iter().any(|pair| (pair.0, pair.1) == (from, to));
                assert_eq!(passed, from == to || legal(from, to), "{from} to {to}");
            }
        }
    }

    async fn without_the_guard_every_move_passes(db: TestDb) {
        assert_eq!(refused_pairs(&db).await, []);
    }

    async fn an_abandoned_claim_in_doubt_goes_to_a_person_first(db: TestDb) {
        with_guard(&db).await;
        let dialect = db.backend().dialect();
        let doubtful = Row::claim("abandoned").with("doubt", Value::Bool(true));
        db.execute(&doubtful.insert(dialect)).await.unwrap();
        let refusal = db.execute(&Row::claim("retryable").update(dialect, "m")).await.unwrap_err().to_string();
        assert!(refusal.contains("abandoned to retryable"), "{refusal}");
        db.execute(&Row::claim("escalated").update(dialect, "m")).await.unwrap();
    }

    async fn fence_and_revision_only_grow(db: TestDb) {
        with_guard(&db).await;
        let dialect = db.backend().dialect();
        let row = Row::claim("in_doubt").with("fence", Value::Int(5)).with("revision", Value::Int(5));
        db.execute(&row.insert(dialect)).await.unwrap();
        for column in ["fence", "revision"] {
            let set = |value: i64| format!("UPDATE earmark_claim SET {column} = {value}");
            let refusal = db.execute(&set(4)).await.unwrap_err().to_string();
            assert!(refusal.contains(&format!("{column} must not shrink")), "{refusal}");
            db.execute(&set(5)).await.unwrap();
            db.execute(&set(6)).await.unwrap();
        }
    }

    async fn an_open_claim_cannot_be_deleted(db: TestDb) {
        with_guard(&db).await;
        let dialect = db.backend().dialect();
        for state in STATES {
            db.execute(&Row::claim(state).with("message_id", text(state)).insert(dialect)).await.unwrap();
            let outcome = db.execute(&format!("DELETE FROM earmark_claim WHERE message_id = '{state}'")).await;
            if matches!(state, "confirmed" | "abandoned") {
                outcome.unwrap();
            } else {
                let refusal = outcome.unwrap_err().to_string();
                assert!(refusal.contains(&format!("open claim ({state})")), "{refusal}");
            }
        }
    }

    async fn an_open_claim_cannot_be_purged_and_a_tombstone_does_not_come_back(db: TestDb) {
        with_guard(&db).await;
        let dialect = db.backend().dialect();
        for state in STATES {
            db.execute(&Row::claim(state).with("message_id", text(state)).insert(dialect)).await.unwrap();
            let purge = format!(
                "UPDATE earmark_claim SET purged_at = 1790000000000000, request = NULL WHERE message_id = '{state}'"
            );
            let outcome = db.execute(&purge).await;
            if matches!(state, "confirmed" | "abandoned") {
                outcome.unwrap();
                let back = "UPDATE earmark_claim SET purged_at = NULL, request = token WHERE message_id = ";
                let refusal = db.execute(&format!("{back}'{state}'")).await.unwrap_err().to_string();
                assert!(refusal.contains("a purged claim stays a tombstone"), "{refusal}");
            } else {
                let refusal = outcome.unwrap_err().to_string();
                assert!(refusal.contains(&format!("open claim ({state})")), "{refusal}");
            }
        }
    }

    async fn the_guard_is_installed_once_and_again_when_half_of_it_is_gone(db: TestDb) {
        with_guard(&db).await;
        let options = Options { guard: true, ..Options::default() };
        assert!(!run(db.connection(), &options).await.unwrap().guard_installed);
        let on = if db.backend() == earmark_tests::Backend::Postgres { " ON earmark_claim" } else { "" };
        let drop = format!("DROP TRIGGER earmark_claim_guard_delete{on}");
        db.connection().execute_unprepared(&drop).await.unwrap();
        assert!(run(db.connection(), &options).await.unwrap().guard_installed);
    }
}
