//! The sweep's walk: what it reads follows what is due and how many pairs are open. Neither finished claims nor the rest of a flood count.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use earmark_claim::{ClaimKey, Due, State, Walk};
use earmark_tests::claims::{LEASE, in_state, key, never, store};
use earmark_tests::fill::{fill, text_and_number};
use earmark_tests::plan::Plan;
use earmark_tests::{Backend, TestDb, per_backend};
use sea_orm::Value;

use crate::stage::{self, FEW, due, set};

/// A pass as sweepers are set up.
const MOST: usize = 500;
const SHARE: u32 = 100;
/// Rows that one statement of the walk asks for.
const CHUNK: u64 = 32;

/// A part of a key, as the walk binds it.
fn walked(db: &TestDb, text: &str) -> Value {
    match db.backend() {
        Backend::Postgres => text.into(),
        Backend::MariaDb | Backend::Sqlite => text.as_bytes().to_vec().into(),
    }
}

fn pairs(due: &Due) -> Vec<String> {
    due.claims.iter().map(|claim| claim.key.tenant().to_owned()).collect()
}

per_backend! {
    async fn it_reads_the_index_of_open_rows_and_as_many_rows_as_it_answers(db: TestDb) {
        let _store = set(&db).await;
        for (tenant, consumer) in [("", ""), ("a", ""), ("a", "mail"), ("b", "mail"), ("t50", "mail")] {
            let values = vec![walked(&db, tenant), walked(&db, tenant), walked(&db, consumer), (CHUNK as i64).into()];
            // A bound that is looked up counts as a read on MariaDB.
            let plan = Plan::of(&db, "open_after", values).await;
            plan.uses(&["earmark_claim_due"], CHUNK + 2);
            // SQLite counts no rows: it must look the whole pair up, and not read the tenant's other claims on the way.
            let by_pair = db.backend() != Backend::Sqlite || plan.text.contains("(tenant,consumer)>(?,?)");
            assert!(by_pair, "{}", plan.text);
        }
        let values = vec![walked(&db, "a"), walked(&db, "mail"), i64::from(SHARE).into()];
        // The pauses are few: people make them.
        let plan = Plan::of(&db, "due_of_pair", values).await.beside(&["earmark_pause", "p"]);
        plan.uses(&["earmark_claim_due"], u64::from(SHARE) + 1);
    }

    async fn a_pair_that_floods_costs_its_share_and_hides_nobody(db: TestDb) {
        let store = set(&db).await;
        let due = store.walk_due(Walk::default(), SHARE, MOST, HashSet::new()).await.unwrap();
        assert_eq!(pairs(&due).iter().filter(|tenant| *tenant == "b").count() as u64, FEW, "all of the few");
        assert_eq!(due.claims.len() as u64, u64::from(SHARE) + FEW);
        assert!(due.rows_read < 2_000, "{}", due.rows_read);
        assert!(due.rows_read <= u64::from(SHARE) + FEW + 2 * CHUNK, "{}", due.rows_read);
    }

    async fn each_of_many_pairs_has_its_turn(db: TestDb) {
        const PAIRS: u64 = 10_000;
        let store = store(&db).await;
        in_state(&db, &store, &key("due-0"), State::InDoubt, never()).await;
        due(&db, "one-", PAIRS, &text_and_number(db.backend(), "p", "{n}")).await;
        db.execute("DELETE FROM earmark_claim WHERE message_id = 'due-0'").await.unwrap();
        stage::analyze(&db).await;
        let (mut walk, mut served) = (Walk::default(), BTreeSet::new());
        for pass in 1..=PAIRS / MOST as u64 {
            let due = store.walk_due(walk, SHARE, MOST, HashSet::new()).await.unwrap();
            assert!(due.rows_read <= 2 * MOST as u64 + CHUNK, "{}", due.rows_read);
            served.extend(pairs(&due));
            assert_eq!(served.len() as u64, pass * MOST as u64, "nobody has a second turn before all had one");
            walk = due.next;
        }
        // Round again: the first of all.
        let due = store.walk_due(walk, SHARE, MOST, HashSet::new()).await.unwrap();
        let first = store.walk_due(Walk::default(), SHARE, MOST, HashSet::new()).await.unwrap();
        assert_eq!(pairs(&due), pairs(&first));
    }

    async fn a_flood_of_every_pair_is_not_read_for_nothing(db: TestDb) {
        const PAIRS: u64 = 60;
        let store = store(&db).await;
        in_state(&db, &store, &key("due-0"), State::InDoubt, never()).await;
        let tenant = text_and_number(db.backend(), "p", &format!("({{n}} % {PAIRS})"));
        due(&db, "many-", PAIRS * 150, &tenant).await;
        db.execute("DELETE FROM earmark_claim WHERE message_id = 'due-0'").await.unwrap();
        let (mut walk, mut each) = (Walk::default(), BTreeMap::<_, usize>::new());
        for _ in 0..3 {
            let due = store.walk_due(walk, SHARE, MOST, HashSet::new()).await.unwrap();
            assert_eq!(due.claims.len(), MOST);
            // The share of each pair would be 6,000.
            assert!(due.rows_read < 2_000, "{}", due.rows_read);
            pairs(&due).into_iter().for_each(|pair| *each.entry(pair).or_default() += 1);
            walk = due.next;
        }
        // Whoever went short of one is among the first of the next pass.
        assert_eq!(each.len() as u64, PAIRS);
        assert!(each.values().all(|n| *n == 3 * MOST / PAIRS as usize), "{each:?}");
    }

    async fn claims_whose_holders_are_believed_cost_a_few_rows(db: TestDb) {
        let store = store(&db).await;
        in_state(&db, &store, &key("due-0"), State::InDoubt, never()).await;
        let later = format!("e.due_at + {} + {{n}}", LEASE.as_micros() * 1000);
        let id = text_and_number(db.backend(), "later-", "{n}");
        fill(&db, "due-0", 0..5_000, &[("message_id", &id), ("due_at", &later)]).await;
        let due = store.walk_due(Walk::default(), SHARE, MOST, HashSet::new()).await.unwrap();
        assert_eq!(due.claims.iter().map(|due| &due.key).collect::<Vec<_>>(), [&key("due-0")]);
        assert!(due.rows_read <= CHUNK, "{}", due.rows_read);
    }

    async fn those_aside_take_no_place(db: TestDb) {
        let store = set(&db).await;
        let all: Vec<ClaimKey> = store.due(SHARE, MOST, HashSet::new()).await.unwrap();
        let aside: HashSet<_> = all.iter().filter(|key| key.tenant() == "a").cloned().collect();
        let due = store.walk_due(Walk::default(), SHARE, MOST, aside.clone()).await.unwrap();
        assert_eq!(due.claims.len(), all.len());
        assert!(due.claims.iter().all(|claim| !aside.contains(&claim.key)));
    }
}
