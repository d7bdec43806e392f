//! A row that was written in a batch is, column by column, the row that would have been written alone.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_claim::{
    Answer, Backoff, ClaimKey, ClaimStore, Claimed, Currency, KeyChoice, Money, NewClaim, Receipt, Timestamp,
    VerbatimRule, When,
};
use earmark_tests::claims::{key, keyed, natural, never, new_claim, store};
use earmark_tests::effects::probed;
use earmark_tests::{Backend, TestDb, per_backend, per_layout};
use sea_orm::{ConnectionTrait, Statement};

/// Far ahead and far back, so that no clock comes near.
const AHEAD: i64 = 4_000_000_000_000_000;
const BACK: i64 = 1_100_000_000_000_000;

/// A claim, and how it ends if it is won.
struct Case {
    key: ClaimKey,
    new: NewClaim,
    receipt: Receipt,
}

fn receipts() -> Vec<Receipt> {
    let answer = |kind: &str, bytes: Vec<u8>| Some(Answer::new(kind, bytes));
    vec![
        Receipt::new(None, None),
        Receipt::new(None, Some("ch_1".into())),
        Receipt::new(answer("application/json", br#"{"id":"ch_1"}"#.to_vec()), None),
        Receipt::new(answer("", Vec::new()), Some("".into())),
        Receipt::new(answer("text/plain; charset=\"ü\"", (0..=255).collect()), Some("ü\\\"'💶 ".into())),
        // Cut to what is kept; its length is of the whole.
        Receipt::new(answer("a/b", vec![7; 200_000]), Some("x".repeat(400))),
        Receipt::new(answer(&"t".repeat(300), vec![0; 3]), Some("nul\0 and \u{7} bell".into())),
        Receipt::new(answer("null", b"null".to_vec()), Some("null".into())),
        Receipt::new(answer("5", b"5".to_vec()), Some("12345678901234567890".into())),
    ]
}

fn cases(store: &ClaimStore) -> Vec<Case> {
    let base = || new_claim(never());
    let money = |minor, code| Some(Money { minor, currency: Currency::new(code).unwrap() });
    let at = |t| Some(When::At(Timestamp::from_micros(t)));
    let after = |secs| Some(When::In(Duration::from_secs(secs)));
    let news = vec![
        base(),
        new_claim(keyed()),
        new_claim(natural()),
        new_claim(probed(never())),
        new_claim(earmark_claim::Declared { landing_horizon: None, ..natural() }),
        new_claim(earmark_claim::Declared { attempts_max: 1_000_000, ..keyed() }),
        NewClaim { kind: "pay \"x\" \\n \\u0041".into(), ..base() },
        NewClaim { downstream: "bank \\ \"1\" ".into(), form: "http/1".into(), ..base() },
        NewClaim { request: Vec::new(), request_type: "x/\"ü\"\\".into(), ..base() },
        NewClaim { request: (0..=255).collect(), credential: Some("key \\\"1\"".into()), ..base() },
        NewClaim { request: vec![0; 1024 * 1024], ..base() },
        NewClaim {
            summary: Some("a \"quoted\" \\ line, 'ü' 💶 \\u0041 {}[]".into()),
            business_ref: Some("null".into()),
            ..base()
        },
        NewClaim { summary: Some(String::new()), business_ref: Some(" 007 ".into()), ..base() },
        NewClaim { amount: money(i64::MAX, "EUR"), ..base() },
        NewClaim { amount: money(i64::MIN, "JPY"), ..base() },
        NewClaim { amount: money(0, "XXX"), ..base() },
        NewClaim { amount: money(9_007_199_254_740_993, "USD"), ..base() },
        NewClaim { not_before: after(60), send_by: after(120), ..base() },
        NewClaim { not_before: at(AHEAD), send_by: at(AHEAD + 1), ..base() },
        NewClaim { not_before: at(BACK), ..base() },
        NewClaim { not_before: at(AHEAD), send_by: after(30), ..base() },
        NewClaim { send_by: after(3600), ..base() },
        NewClaim { send_by: at(AHEAD), ..base() },
        NewClaim {
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
            supersedes: Some(store.reference(&key("before"))),
            ..base()
        },
        NewClaim {
            key_choice: KeyChoice::Verbatim(VerbatimRule { len_min: 1, len_max: 255, also: String::new() }),
            ..base()
        },
    ];
    let mut cases: Vec<Case> = news
        .into_iter()
        .enumerate()
        .map(|(i, new)| Case { key: key(&format!("m{i}")), new, receipt: Receipt::new(None, None) })
        .collect();
    // Keys are bytes, whatever they look like.
    let long = "ü".repeat(256);
    let names = [
        "a \"quoted\" one",
        "back\\slash",
        "\\u0041",
        "'; --",
        "%s",
        "{}",
        "[\"x\"]",
        "null",
        "true",
        "12",
        "1e3",
        " lead",
        "trail",
        "trail ",
        "trail  ",
        "ü",
        "u\u{308}",
        "💶💶",
        "A",
        "a",
        "\\",
        "\"",
        "\\\"",
        long.as_str(),
    ];
    for name in names {
        cases.push(Case { key: key(name), new: base(), receipt: Receipt::new(None, None) });
    }
    for (tenant, consumer) in
        [("", "mail"), ("shöp \"1\"", "mail"), ("shop\\", "ma\\il \" 💶"), (" ", "mail ")]
    {
        let key = ClaimKey::in_tenant(tenant, consumer, "same").unwrap();
        cases.push(Case { key, new: base(), receipt: Receipt::new(None, None) });
    }
    for (case, receipt) in cases.iter_mut().zip(receipts().into_iter().cycle()) {
        case.receipt = receipt;
    }
    cases
}

/// Each row: every column but its token, its place in the table and its times, which are told apart below.
async fn dump(db: &TestDb, store: &ClaimStore, keys: &[ClaimKey]) -> BTreeMap<ClaimKey, String> {
    let backend = db.connection().get_database_backend();
    let any = Statement::from_string(backend, "SELECT * FROM earmark_claim LIMIT 1");
    let columns = db.connection().query_one_raw(any).await.unwrap().expect("a row").column_names();
    let skipped = [
        "id",
        "token",
        "created_at",
        "due_at",
        "not_before",
        "send_by",
        "window_from",
        "last_end_at",
        "closed_at",
    ];
    let columns: Vec<_> = columns.into_iter().filter(|c| !skipped.contains(&c.as_str())).collect();
    assert!(columns.len() > 35, "{columns:?}");
    // Bytes and types, where the database has types of values.
    let shown = |c: &String| match db.backend() {
        Backend::Sqlite => format!("typeof({c}) || ':' || hex({c})"),
        Backend::Postgres => format!("coalesce(encode(textsend({c}::text), 'hex'), 'null')"),
        Backend::MariaDb => format!("COALESCE(HEX({c}), 'null')"),
    };
    let mut rows = BTreeMap::new();
    for key in keys {
        let view = store.find(key).await.unwrap().expect("a row");
        let list = columns.iter().map(shown).collect::<Vec<_>>();
        let list = match db.backend() {
            Backend::MariaDb => format!("CONCAT_WS('|', {})", list.join(", ")),
            _ => list.join(" || '|' || "),
        };
        let marks = match db.backend() {
            Backend::Postgres => "tenant = $1 AND consumer = $2 AND message_id = $3",
            _ => "tenant = ? AND consumer = ? AND message_id = ?",
        };
        let sql = format!("SELECT {list} AS shown FROM earmark_claim WHERE {marks}");
        let values = [key.tenant(), key.consumer(), key.message_id()].map(sea_orm::Value::from);
        let row = db
            .connection()
            .query_one_raw(Statement::from_sql_and_values(backend, sql, values))
            .await
            .unwrap();
        let text: String = row.expect("a row").try_get_by_index(0).unwrap();
        let facts = &view.facts;
        let made = facts.created_at.as_micros();
        // A moment is the same in both; what counts from the statement on lies as far from its clock.
        let time = |t: Option<Timestamp>| {
            t.map(|t| {
                let given = (t.as_micros() - AHEAD).abs() < 1_000_000_000 || t.as_micros() == BACK;
                if given { t.as_micros() } else { t.as_micros() - made }
            })
        };
        let ended = facts.last_end_at.map(|t| t.as_micros() >= made);
        let closed = view.closed_at.map(|t| Some(t) == facts.last_end_at);
        let times = [facts.due_at, facts.not_before, facts.send_by, facts.window_from].map(time);
        let text: Vec<_> = columns.iter().map(String::as_str).zip(text.split('|')).collect();
        rows.insert(key.clone(), format!("{times:?} {ended:?} {closed:?} {text:?}"));
    }
    rows
}

async fn every_column(db: &TestDb) {
    let store = store(db).await;
    let keys: Vec<_> = cases(&store).into_iter().map(|case| case.key).collect();
    let mut held = 0;
    let mut ends = Vec::new();
    for case in cases(&store) {
        match store.claim(&case.key, case.new).await.unwrap() {
            Claimed::Won(claim) => ends.push((claim, case.receipt)),
            Claimed::Held { .. } => held += 1,
            other => panic!("{other:?}"),
        }
    }
    let made_alone = dump(db, &store, &keys).await;
    for (claim, receipt) in ends {
        let settled = store.settle(claim, Ok(receipt), Backoff::default()).await.unwrap();
        assert!(matches!(settled, earmark_claim::Settled::Moved(earmark_claim::State::Confirmed)));
    }
    let settled_alone = dump(db, &store, &keys).await;
    assert_eq!(db.execute("DELETE FROM earmark_claim").await.unwrap(), keys.len() as u64);

    let (news, receipts): (Vec<_>, Vec<_>) =
        cases(&store).into_iter().map(|case| ((case.key, case.new), case.receipt)).unzip();
    let (mut ends, mut held_too) = (Vec::new(), 0);
    for (answer, receipt) in store.claim_many(news).await.unwrap().into_iter().zip(receipts) {
        match answer.unwrap() {
            Claimed::Won(claim) => ends.push((claim, Ok(receipt))),
            Claimed::Held { .. } => held_too += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((held, held_too), (4, 4));
    let made_together = dump(db, &store, &keys).await;
    for (key, row) in &made_alone {
        assert_eq!(row, &made_together[key], "{key}");
    }
    for settled in store.settle_many(ends, Backoff::default()).await {
        assert!(matches!(settled.unwrap(), earmark_claim::Settled::Moved(earmark_claim::State::Confirmed)));
    }
    let settled_together = dump(db, &store, &keys).await;
    for (key, row) in &settled_alone {
        assert_eq!(row, &settled_together[key], "{key}");
    }
    // Nothing of it went by way of events.
    assert_eq!(db.number("SELECT COUNT(*) FROM earmark_event").await, 0);
}

per_layout! {
    async fn every_column_of_a_row_that_a_batch_wrote_is_as_of_one_written_alone(db: TestDb) {
        every_column(&db).await;
    }
}

per_backend! {
    /// The least that a host may have set: what a batch carries as JSON depends on no default.
    async fn whatever_the_character_set_of_the_database_is(db: TestDb) {
        if db.backend() != Backend::MariaDb {
            return;
        }
        let name = db.url().rsplit('/').next().unwrap();
        db.execute(&format!("ALTER DATABASE {name} CHARACTER SET latin1 COLLATE latin1_swedish_ci")).await.unwrap();
        every_column(&db).await;
    }
}
