//! What is asked about one claim is one lookup, however many there are.

use earmark_claim::ClaimKey;
use earmark_tests::plan::Plan;
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::Value;

use crate::stage::{part, parts, set};

/// The index over the claim's key.
fn key_index(db: &TestDb) -> &'static str {
    match db.backend() {
        Backend::Postgres => "earmark_claim_pkey",
        Backend::MariaDb => "earmark_claim_key",
        Backend::Sqlite => "sqlite_autoindex_earmark_claim_1",
    }
}

fn finished(n: u64) -> ClaimKey {
    ClaimKey::in_tenant(format!("t{}", n % 100).as_str(), "mail", format!("done-{n}").as_str()).unwrap()
}

/// Keys as one statement about many binds them.
fn together(db: &TestDb, keys: &[ClaimKey]) -> Vec<Value> {
    let part = |part: fn(&ClaimKey) -> &str| keys.iter().map(|key| part(key).to_owned()).collect::<Vec<_>>();
    let parts = [part(ClaimKey::tenant), part(ClaimKey::consumer), part(ClaimKey::message_id)];
    match db.backend() {
        Backend::Postgres => parts.map(Value::from).into(),
        Backend::MariaDb | Backend::Sqlite => {
            let keys: Vec<_> = keys.iter().map(|k| [k.tenant(), k.consumer(), k.message_id()]).collect();
            vec![serde_json::to_string(&keys).unwrap().into()]
        }
    }
}

per_backend! {
    async fn a_duplicate_of_a_finished_claim_is_one_indexed_read(db: TestDb) {
        let _store = set(&db).await;
        for name in ["row", "row_in_caller", "lock", "lock_or_skip", "request"] {
            for key in [finished(3), finished(19_999)] {
                let plan = Plan::of(&db, name, parts(&db, &key)).await;
                plan.uses(&[key_index(&db)], 1);
                assert_eq!(plan.indexes.len(), 1, "{}", plan.text);
            }
        }
    }

    async fn duplicates_that_are_looked_up_together_are_one_read_each(db: TestDb) {
        let _store = set(&db).await;
        let keys: Vec<ClaimKey> = [3, 17, 4_000, 12_345, 19_999].map(finished).into();
        let plan = Plan::of(&db, "rows", together(&db, &keys)).await;
        // The list of keys is read, too.
        plan.uses(&[key_index(&db)], 3 * keys.len() as u64 + 2);
    }

    async fn an_outcome_is_written_by_key(db: TestDb) {
        let _store = set(&db).await;
        let (yes, no, zero, none) = (Value::from(true), Value::from(false), Value::from(0i64), Value::from(None::<i64>));
        let bytes = || Value::from(vec![7u8; 16]);
        let mut values: Vec<Value> = vec![
            "confirmed".into(), no.clone(), no.clone(), 1i64.into(), bytes(), 1i64.into(), 1i64.into(), zero.clone(),
            1i64.into(), zero.clone(), 1i64.into(), zero.clone(), zero, no.clone(), 2i64.into(), 2i64.into(),
            "answer".into(), None::<String>.into(), part(&db, "ch_1"), none.clone(),
            no.clone(), bytes(), no.clone(), "text/plain".into(), no.clone(), 3i64.into(), no, bytes(),
        ];
        values.extend(parts(&db, &finished(3)));
        values.extend(["in_flight".into(), 1i64.into(), bytes(), none, yes, i64::MAX.into()]);
        Plan::of(&db, "apply", values).await.uses(&[key_index(&db)], 1);
    }

    async fn a_handle_is_one_lookup_and_a_history_is_read_by_key(db: TestDb) {
        let _store = set(&db).await;
        // What is found is sorted, which MariaDB counts as reading it again.
        Plan::of(&db, "by_reference", vec!["R77".into()]).await.uses(&["earmark_claim_reference"], 4);
        Plan::of(&db, "by_provider_ref", vec![part(&db, "R77")]).await.uses(&["earmark_claim_provider_ref"], 4);
        let history = Plan::of(&db, "history", parts(&db, &finished(17))).await;
        let index = match db.backend() {
            Backend::Postgres => "earmark_event_pkey",
            Backend::MariaDb => "PRIMARY",
            Backend::Sqlite => "sqlite_autoindex_earmark_event_1",
        };
        history.uses(&[index], 2);
    }
}
