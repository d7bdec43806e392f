//! The report about a populated database, against an independent count by SQL.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_claim::state::{Finding, Ruling, Seen};
use earmark_claim::{
    About, Backoff, Claimed, Currency, Decision, Evidence, Failure, Money, NewClaim, Receipt, State,
};
use earmark_effects::stub::Stub;
use earmark_sweeper::report::input::{Scope, Window};
use earmark_sweeper::report::{self, Report, build};
use earmark_tests::claims::{age, key, keyed, never};
use earmark_tests::{TestDb, per_backend};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::kit::{KIND, LONG, World, new};

const CURRENCIES: [Option<&str>; 3] = [Some("EUR"), Some("JPY"), None];

fn with_amount(n: usize) -> NewClaim {
    let currency = CURRENCIES[n % 3].and_then(Currency::new);
    let amount = currency.map(|currency| Money { minor: 100 + n as i64, currency });
    NewClaim { amount, ..new(if n.is_multiple_of(2) { keyed() } else { never() }) }
}

/// A day of everything: each message ends differently.
async fn populate(world: &World<'_>) {
    let store = world.store();
    for n in 0..60 {
        let key = key(&format!("m-{n}"));
        let Claimed::Won(claim) = store.claim(&key, with_amount(n)).await.unwrap() else { panic!("{key}") };
        let outcome: Result<Receipt<Value>, Failure> = match n % 6 {
            0 | 1 => Ok(Receipt::new(None, Some(format!("ch_{n}")))),
            2 => Err(Failure::refused("card_declined")),
            3 => Err(Failure::not_sent("refused_connection")),
            4 => Err(Failure::unknown("timeout")),
            // Its holder dies.
            _ => continue,
        };
        let _ = store.settle(claim, outcome, Backoff::default()).await.unwrap();
    }
    // Some were open before the window began; the sweep then finds out what it can.
    for n in (3..60).step_by(6).chain((4..60).step_by(6)).chain((5..60).step_by(6)).filter(|n| n % 4 != 0) {
        age(world.db, &key(&format!("m-{n}")), LONG * 10).await;
    }
    world.sweep().await;
    // A person rules on two, one of them wrongly, as a statement shows; another confirmed one turns out doubled.
    let page = store
        .list(&earmark_claim::Filter { state: Some(State::Escalated), ..Default::default() }, 2)
        .await
        .unwrap();
    for view in &page.claims {
        let f = &view.facts;
        let decision = Decision {
            seen: Seen { state: f.state, fence: f.fence, revision: f.revision },
            ruling: Ruling::NotDone,
            actor: "K. Lang".into(),
            reason: "not in the console".into(),
            evidence: vec!["ticket 4711".into()],
            horizon: None,
            looked: false,
        };
        assert_eq!(store.resolve(&view.key, decision).await.unwrap(), State::Abandoned);
    }
    let done = |id: &str| Evidence {
        source: "statement:2026-11.csv:17".into(),
        finding: Finding::Done { ids: vec![id.into()] },
        detail: json!({}),
        answer: None,
    };
    store.record_evidence(&About::Key(page.claims[0].key.clone()), done("ch_late")).await.unwrap();
    store.record_evidence(&About::Key(key("m-0")), done("ch_second")).await.unwrap();
    store
        .record_evidence(
            &About::ProviderRef { downstream: "mailer".into(), id: "ch_nobody".into() },
            done("ch_nobody"),
        )
        .await
        .unwrap();
    let _ = store.claim(&key("m-1"), NewClaim::new(KIND, "stub", "other", never())).await.unwrap();
}

async fn read(world: &World<'_>, back: Duration) -> Report {
    let now = world.store().now().await.unwrap();
    // A window ends before the moment at which it is read, and SQLite's clock has milliseconds.
    while world.store().now().await.unwrap() == now {}
    let from = now.minus(back);
    let snapshot = world.store().snapshot(from).await.unwrap();
    let window = Window { from, to: snapshot.as_of };
    let scope = Scope {
        database: "test".into(),
        namespace: "test".into(),
        version: "0".into(),
        allow_non_durable: false,
    };
    build(&report::read::input(&snapshot, window, scope), &report::Options::default())
}

async fn texts(db: &TestDb, sql: &str) -> BTreeSet<String> {
    let statement = Statement::from_string(db.connection().get_database_backend(), sql);
    let rows = db.connection().query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

per_backend! {
    async fn its_numbers_are_those_of_the_rows(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, keyed())).await;
        populate(&world).await;
        let back = LONG;
        let report = read(&world, back).await;
        let count = async |condition: &str| {
            db.number(&format!("SELECT COUNT(*) FROM earmark_claim WHERE {condition}")).await
        };
        const OPEN: &str = "state NOT IN ('confirmed', 'abandoned')";

        let codes: Vec<_> = report.faults.iter().map(|fault| fault.code).collect();
        assert_eq!(codes, Vec::<&str>::new(), "{:?}", report.faults);
        let roll = &report.roll_forward;
        assert!(roll.balanced, "{roll:?}");
        let (opening, new) = (roll.all.opening.claims, roll.all.new.claims);
        assert!(opening > 0 && roll.all.closed.claims > 0);
        assert_eq!(opening + new, 60);
        let begun = format!("created_at >= {}", report.identity.from.0.as_micros());
        assert_eq!(new, count(&begun).await);
        assert_eq!(roll.all.reopened.claims, 2, "an abandoned claim, and a confirmed one");
        assert_eq!(roll.all.closing.claims, count(OPEN).await);
        for flow in &roll.by_currency {
            let (currency, sum) = match &flow.currency {
                Some(code) => (format!("currency = '{}'", code.raw()), true),
                None => ("currency IS NULL".to_owned(), false),
            };
            assert_eq!(flow.closing.claims, count(&format!("{OPEN} AND {currency}")).await, "{currency}");
            if sum {
                let cast = if db.backend() == earmark_tests::Backend::MariaDb { "SIGNED" } else { "BIGINT" };
                let minor = db
                    .number(&format!("SELECT CAST(COALESCE(SUM(amount_minor), 0) AS {cast}) FROM earmark_claim WHERE {OPEN} AND {currency}"))
                    .await;
                assert_eq!(flow.closing.amount.as_ref().unwrap().minor(), i128::from(minor), "{currency}");
            }
        }

        let worklist: BTreeSet<_> =
            report.needs_a_person.iter().map(|item| item.name.reference.as_ref().unwrap().raw().to_owned()).collect();
        assert_eq!(worklist, texts(&db, "SELECT reference FROM earmark_claim WHERE state = 'escalated'").await);
        assert_eq!(report.verdict.need_a_person.claims as i64, count("state = 'escalated'").await);
        assert_eq!(worklist.len(), report.needs_a_person.len());
        let contradicted = report.needs_a_person.iter().filter(|item| item.contradicted).count();
        assert_eq!(contradicted as i64, count("contradicted").await);
        assert_eq!(contradicted, 2);

        let waiting: u64 = report.waiting.iter().map(|line| line.tally.claims).sum();
        assert_eq!(waiting as i64, count(&format!("{OPEN} AND state <> 'escalated'")).await);
        let confirmed: u64 = report.outcomes.iter().map(|o| o.confirmed.total()).sum();
        assert_eq!(confirmed as i64, count("state = 'confirmed'").await);
        assert_eq!(report.orphans.len() as i64, db.number("SELECT COUNT(*) FROM earmark_orphan").await);
        assert_eq!(report.mismatches.len(), 1);
        assert_eq!(report.decisions.len(), 2);
        assert_eq!(report.decisions.iter().filter(|d| d.contradicted_since).count(), 1);
        let aged: u64 = report.ageing.iter().map(|row| row.total.claims).sum();
        assert_eq!(aged as i64, count(OPEN).await);
    }

    async fn the_same_rows_give_the_same_bytes(db: TestDb) {
        let world = World::new(&db, Stub::new(KIND, keyed())).await;
        populate(&world).await;
        let from = world.store().now().await.unwrap().minus(LONG);
        let mut forms = Vec::new();
        for _ in 0..2 {
            let mut snapshot = world.store().snapshot(from).await.unwrap();
            snapshot.as_of = from.plus(LONG * 2);
            let window = Window { from, to: from.plus(LONG) };
            let built = build(&report::read::input(&snapshot, window, Scope::default()), &report::Options::default());
            forms.push((report::render::text(&built), report::render::json(&built).unwrap(), report::render::html(&built)));
        }
        assert_eq!(forms[0], forms[1]);
    }
}
