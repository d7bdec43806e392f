//! Lists, gauges and reports read what is open and what was closed of late, not what was finished long ago.

use std::time::Duration;

use earmark_claim::{Filter, State};
use earmark_tests::plan::Plan;
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::Value;

use crate::stage::{ESCALATED, open, set};

/// What is open stands in these.
fn open_indexes(db: &TestDb) -> &'static [&'static str] {
    match db.backend() {
        Backend::Postgres | Backend::Sqlite => &["earmark_claim_due", "earmark_claim_escalated"],
        // There it is what has no closed_at.
        Backend::MariaDb => &["earmark_claim_tombstone"],
    }
}

/// Reads of a row by way of an index may count twice, and a sort of what was read reads it again.
fn several(rows: u64) -> u64 {
    5 * rows + 100
}

fn nothing_asked(db: &TestDb) -> Vec<Value> {
    let text = || Value::from(None::<String>);
    let key = || if db.backend() == Backend::MariaDb { Value::from(None::<Vec<u8>>) } else { text() };
    let none = || Value::from(None::<i64>);
    vec![key(), key(), key(), key(), text(), text(), text(), text(), text(), text(), none(), none()]
}

per_backend! {
    async fn a_list_of_what_is_open_reads_what_is_open(db: TestDb) {
        let store = set(&db).await;
        for state in [None, Some("escalated".to_owned())] {
            let mut values: Vec<Value> = vec![state.clone().into(), state.clone().into()];
            values.extend(nothing_asked(&db));
            values.push(50i64.into());
            let indexes = match (db.backend(), &state) {
                (Backend::Postgres, Some(_)) => &["earmark_claim_escalated"],
                _ => open_indexes(&db),
            };
            Plan::of(&db, "list_open", values).await.uses(indexes, several(open()));
        }
        let escalated = Filter { state: Some(State::Escalated), ..Filter::default() };
        assert_eq!(store.list(&escalated, 1000).await.unwrap().claims.len() as u64, ESCALATED);
    }

    async fn a_list_of_what_is_finished_reads_as_many_as_it_shows(db: TestDb) {
        let store = set(&db).await;
        let mut values: Vec<Value> = vec!["confirmed".into()];
        values.extend(nothing_asked(&db));
        values.push(50i64.into());
        let indexes: &[&str] = match db.backend() {
            Backend::Postgres | Backend::Sqlite => &["earmark_claim_closed", "earmark_claim_tombstone"],
            Backend::MariaDb => &["earmark_claim_tombstone"],
        };
        Plan::of(&db, "list_closed", values).await.uses(indexes, 2 * 51 + 1);

        let confirmed = Filter { state: Some(State::Confirmed), ..Filter::default() };
        let listed = store.list(&confirmed, 3).await.unwrap().claims;
        assert_eq!(listed[0].key.message_id(), "done-0", "the newest first");
        assert!(listed.is_sorted_by_key(|claim| std::cmp::Reverse(claim.closed_at)));
        let of_tenant = Filter { tenant: Some("t7".into()), ..confirmed };
        assert!(store.list(&of_tenant, 3).await.unwrap().claims.iter().all(|claim| claim.key.tenant() == "t7"));
    }

    async fn gauges_read_what_is_open(db: TestDb) {
        let store = set(&db).await;
        Plan::of(&db, "open_tallies", Vec::new()).await.uses(open_indexes(&db), several(open()));
        let counted: u64 = store.open_tallies().await.unwrap().iter().map(|tally| tally.claims).sum();
        assert_eq!(counted, open());
    }

    async fn a_report_reads_what_is_open_and_what_was_closed_and_told_since(db: TestDb) {
        let store = set(&db).await;
        // The claim of which the finished ones are copies was closed just now.
        let from = store.now().await.unwrap().minus(Duration::from_secs(3600));
        let values: Vec<Value> = vec![from.as_micros().into(), from.as_micros().into()];
        Plan::of(&db, "report_claims", values.clone()).await.uses(open_indexes(&db), several(open()));
        // Mismatches of the open ones are looked up one by one.
        Plan::of(&db, "report_events", values).await.uses(&["earmark_event_at"], 2 * several(open()));

        let mismatch = "INSERT INTO earmark_event \
            (tenant, consumer, message_id, seq, at, fence, revision, name, from_state, to_state) \
            SELECT tenant, consumer, message_id, 99, created_at - 4000000000000, 1, 1, 'mismatch', state, state \
            FROM earmark_claim WHERE message_id = 'few-3'";
        db.execute(mismatch).await.unwrap();
        let snapshot = store.snapshot(from).await.unwrap();
        assert_eq!(snapshot.claims.len() as u64, open() + 1);
        let old: Vec<_> = snapshot.events.iter().filter(|(_, event)| event.seq == 99).collect();
        assert_eq!(old.len(), 1, "an open claim's mismatch is told however old it is");
        assert!(snapshot.events.iter().all(|(_, event)| event.seq == 99 || event.at >= from));
    }
}
