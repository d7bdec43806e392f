//! Every CHECK, by rows typed by hand: what fits goes in, and each wrong value is refused by the CHECK that is about it.

use std::collections::BTreeSet;

use earmark_tests::{TestDb, per_backend};

use crate::row::{Row, STATES, TIME, Value, text, wide};

/// A row that is wrong in one way, and the CHECK that says so. Where a database has no CHECK of that name, its type
/// refuses the value.
struct Wrong {
    what: String,
    row: Row,
    check: String,
}

fn wrong(table: &str, base: Row, what: &str, changes: &[(&str, Value)], check: &str) -> Wrong {
    let spelled: Vec<_> = changes.iter().map(|(column, value)| format!("{column} = {value:?}")).collect();
    let what = format!("{table} {what}: {}", spelled.join(", ")).chars().take(160).collect();
    let row = changes.iter().fold(base, |row, (column, value)| row.with(column, value.clone()));
    Wrong { what, row, check: format!("earmark_{table}_{check}_check") }
}

/// What the state binds.
fn bound_to_state() -> Vec<Wrong> {
    let mut all = Vec::new();
    let mut add = |state: &'static str, changes: &[(&str, Value)], check: &str| {
        all.push(wrong("claim", Row::claim(state), state, changes, check));
    };
    for state in STATES {
        let closed = matches!(state, "confirmed" | "abandoned");
        let due = !closed && state != "escalated";
        add(state, &[("due_at", if due { Value::Null } else { TIME })], "due_state");
        add(state, &[("closed_at", if closed { Value::Null } else { TIME })], "closed_state");
        add(state, &[("closed_by", if closed { Value::Null } else { text("answer") })], "closed_state");
        if !closed {
            add(state, &[("closed_at", TIME), ("closed_by", text("answer"))], "closed_state");
        }
        if due {
            add(state, &[("purged_at", TIME)], "purged_state");
        }
        add(state, &[("request", Value::Null)], "request_kept");
        let contradicted = ("contradicted", Value::Bool(true));
        add(state, &[contradicted.clone(), ("doubt", Value::Bool(false))], "contradicted_state");
        if !matches!(state, "held" | "escalated") {
            // A grant, so that the doubt alone would be no fault of a retryable claim.
            let changes = [contradicted, ("doubt", Value::Bool(true)), ("repeats_granted", Value::Int(1))];
            add(state, &changes, "contradicted_state");
        }
    }
    add("held", &[("fence", Value::Int(1))], "held");
    add("held", &[("attempts", Value::Int(1))], "held");
    add("held", &[("repeats_granted", Value::Int(1))], "held");
    add("held", &[("doubt", Value::Bool(true))], "held");
    add("held", &[("window_from", TIME)], "held");
    add("held", &[("last_end_at", TIME)], "held");
    let receipt = [
        ("receipt_type", text("text/plain")),
        ("receipt_len", Value::Int(0)),
        ("receipt_digest", Value::Bytes(vec![2; 32])),
    ];
    add("held", &receipt, "held");
    add("in_flight", &[("fence", Value::Int(0))], "in_flight");
    add("in_flight", &[("attempts", Value::Int(0))], "in_flight");
    add("in_flight", &[("window_from", Value::Null)], "in_flight");
    add("retryable", &[("doubt", Value::Bool(true))], "retryable");
    add("in_doubt", &[("last_end_at", Value::Null)], "in_doubt");
    all
}

/// What each column of a claim refuses in any state.
fn columns_of_claim() -> Vec<Wrong> {
    let mut all = Vec::new();
    let mut add = |state: &'static str, changes: &[(&str, Value)], check: &str| {
        all.push(wrong("claim", Row::claim(state), state, changes, check));
    };
    let open = "retryable";
    for (column, bytes, empty) in [
        ("tenant", 128, false),
        ("consumer", 128, true),
        ("message_id", 512, true),
        ("kind", 128, true),
        ("form", 32, true),
        ("downstream", 64, true),
        ("summary", 256, false),
        ("business_ref", 128, false),
        ("error_class", 128, false),
        ("provider_ref", 255, false),
        ("idempotency_key", 512, true),
        ("reference", 16, true),
        ("request_type", 128, false),
        ("credential", 128, false),
        ("traceparent", 64, false),
        ("supersedes", 16, true),
    ] {
        add(open, &[(column, wide(bytes + 1))], column);
        if empty {
            add(open, &[(column, text(""))], column);
        }
    }
    add("confirmed", &[("receipt_type", wide(129))], "receipt_type");
    for (column, value) in [
        ("state", "Held"),
        ("state", "held "),
        ("state", ""),
        ("repeat_safety", "Keyed"),
        ("repeat_safety", "keyed "),
    ] {
        add("held", &[(column, text(value))], column);
    }
    for value in ["Claimed", "answer ", "", "nobody"] {
        add("confirmed", &[("closed_by", text(value))], "closed_by");
    }
    for (column, state) in TIMES {
        for value in NO_TIMES {
            add(state, &[(column, Value::Int(value))], column);
        }
    }
    for column in ["doubt", "probe_proof"] {
        add("confirmed", &[(column, Value::Int(2)), ("probe_lag", Value::Int(1))], column);
    }
    add("escalated", &[("contradicted", Value::Int(2))], "contradicted");
    for (column, value) in [
        ("fence", -1),
        ("revision", 0),
        ("attempts", -1),
        ("repeats_granted", -1),
        ("looks", -1),
        ("key_window", 0),
        ("landing_horizon", -1),
        ("probe_lag", -1),
        ("looks_max", -1),
        ("call_timeout", 0),
        ("attempts_max", 0),
        ("age_max", 0),
    ] {
        add(open, &[(column, Value::Int(value))], column);
    }
    add("confirmed", &[("receipt_len", Value::Int(-1))], "receipt_len");
    for length in [15, 17] {
        add(open, &[("token", Value::Bytes(vec![7; length]))], "token");
    }
    for length in [31, 33] {
        add(open, &[("fingerprint", Value::Bytes(vec![7; length]))], "fingerprint");
        add("confirmed", &[("receipt_digest", Value::Bytes(vec![7; length]))], "receipt_digest");
    }
    add(open, &[("request", Value::Zeros(1 << 24))], "request");
    add("confirmed", &[("receipt", Value::Zeros(1 << 24))], "receipt");
    let amount = ("amount_minor", Value::Int(100));
    add(open, &[amount.clone(), ("currency", text("EURO"))], "currency");
    add(open, &[amount.clone(), ("currency", text("EU"))], "currency");
    add(open, &[amount], "amount");
    add(open, &[("currency", text("EUR"))], "amount");
    add(open, &[("key_window", Value::Null)], "window_declared");
    add(open, &[("repeat_safety", text("natural"))], "window_declared");
    add(open, &[("repeat_safety", text("never"))], "window_declared");
    add(open, &[("probe_proof", Value::Bool(true))], "probe");
    for column in ["receipt_type", "receipt_len", "receipt_digest"] {
        add("confirmed", &[(column, Value::Null)], "receipt_parts");
    }
    let parts =
        [("receipt_type", Value::Null), ("receipt_len", Value::Null), ("receipt_digest", Value::Null)];
    add("confirmed", &parts, "receipt_parts");
    all
}

/// The times of a claim, each with a state in which it may stand.
const TIMES: [(&str, &str); 9] = [
    ("due_at", "retryable"),
    ("not_before", "retryable"),
    ("send_by", "retryable"),
    ("created_at", "retryable"),
    ("window_from", "retryable"),
    ("last_end_at", "retryable"),
    ("ruled_at", "retryable"),
    ("closed_at", "confirmed"),
    ("purged_at", "confirmed"),
];

/// Seconds, milliseconds, the last number that is too small, the first that is too large, and before the epoch.
const NO_TIMES: [i64; 5] =
    [1_790_000_000, 1_790_000_000_000, 999_999_999_999_999, 10_000_000_000_000_000, -1_790_000_000_000_000];

/// What the other tables refuse.
fn other_tables() -> Vec<Wrong> {
    let mut all = Vec::new();
    let mut add = |table: &str, base: fn() -> Row, column: &str, values: &[Value]| {
        for value in values {
            all.push(wrong(table, base(), "", &[(column, value.clone())], column));
        }
    };
    let times = NO_TIMES.map(Value::Int);
    let zeros = [Value::Zeros(1 << 24)];

    add("event", Row::event, "tenant", &[wide(129)]);
    add("event", Row::event, "consumer", &[wide(129), text("")]);
    add("event", Row::event, "message_id", &[wide(513), text("")]);
    add("event", Row::event, "seq", &[Value::Int(0)]);
    add("event", Row::event, "at", &times);
    add("event", Row::event, "fence", &[Value::Int(-1)]);
    add("event", Row::event, "revision", &[Value::Int(0)]);
    add("event", Row::event, "name", &[wide(33), text("")]);
    add("event", Row::event, "actor", &[wide(129)]);
    add("event", Row::event, "from_state", &[text("Held"), text("held "), text("")]);
    add("event", Row::event, "to_state", &[text("Held"), text("held "), text("")]);
    add("event", Row::event, "provider_ref", &[wide(256)]);
    add("event", Row::event, "bytes", &zeros);
    add("event", Row::event, "bytes_type", &[wide(129)]);

    let upper = text("0123456789ABCDEF0123456789ABCDEF");
    add("orphan", Row::orphan, "id", &[text("0123"), text(""), upper]);
    add("orphan", Row::orphan, "at", &times);
    add("orphan", Row::orphan, "source", &[wide(129), text("")]);
    add("orphan", Row::orphan, "tenant", &[wide(129)]);
    add("orphan", Row::orphan, "consumer", &[wide(129), text("")]);
    add("orphan", Row::orphan, "message_id", &[wide(513), text("")]);
    add("orphan", Row::orphan, "reference", &[wide(17), text("")]);
    add("orphan", Row::orphan, "idempotency_key", &[wide(513), text("")]);
    add("orphan", Row::orphan, "provider_ref", &[wide(256)]);
    add("orphan", Row::orphan, "finding", &[wide(33), text("")]);
    add("orphan", Row::orphan, "bytes", &zeros);
    add("orphan", Row::orphan, "bytes_type", &[wide(129)]);
    add("orphan", Row::orphan, "adopted_at", &times);

    add("sweeper", Row::sweeper, "name", &[wide(129), text("")]);
    add("sweeper", Row::sweeper, "started_at", &times);
    add("sweeper", Row::sweeper, "last_success_at", &times);
    add("sweeper", Row::sweeper, "passes", &[Value::Int(-1)]);
    add("sweeper", Row::sweeper, "version", &[wide(65), text("")]);
    add("pause", Row::pause, "downstream", &[wide(65), text("")]);
    add("pause", Row::pause, "seq", &[Value::Int(0)]);
    for time in ["at", "resumed_at"] {
        add("pause", Row::pause, time, &times);
    }
    for person in ["actor", "resumed_by"] {
        add("pause", Row::pause, person, &[wide(129), text("")]);
    }
    for why in ["reason", "resume_reason"] {
        add("pause", Row::pause, why, &[wide(4097), text("")]);
    }

    all.push(wrong("pause", Row::pause(), "half over", &[("resumed_by", Value::Null)], "over"));
    all.push(wrong("pause", Row::pause(), "half over", &[("resumed_at", Value::Null)], "over"));

    let mut add = |table: &str, row: fn() -> Row, column: &'static str, values: &[Value]| {
        for value in values {
            all.push(wrong(table, row(), "row", &[(column, value.clone())], column));
        }
    };
    add("meta", Row::meta, "name", &[wide(65), text("")]);
    add("meta", Row::meta, "value", &[wide(257)]);
    add("meta", Row::meta, "written_at", &times);
    all
}

/// The names that this database's script gives.
fn names(db: &TestDb) -> BTreeSet<String> {
    let scripts = earmark_migrations::sql(db.backend().dialect()).iter();
    let words = scripts.flat_map(|migration| migration.sql.split_whitespace());
    words.filter(|word| word.starts_with("earmark_") && word.ends_with("_check")).map(str::to_owned).collect()
}

/// Inserts all of them. Lists those that went in or were refused for another reason, and takes the CHECKs that did
/// refuse one out of `left`.
async fn not_refused(db: &TestDb, wrongs: &[Wrong], left: &mut BTreeSet<String>) -> Vec<String> {
    let names = names(db);
    let mut faults = Vec::new();
    for Wrong { what, row, check } in wrongs {
        match db.execute(&row.insert(db.backend().dialect())).await.map_err(|error| error.to_string()) {
            Ok(_) => faults.push(format!("went in: {what}")),
            Err(error) if error.contains(check.as_str()) => {
                left.remove(check);
            }
            Err(error) if names.contains(check) && !by_type(&error) => {
                faults.push(format!("not by {check} but {error}: {what}"));
            }
            Err(_) => {}
        }
    }
    faults
}

/// On MySQL a column's width and character set come before its CHECK.
fn by_type(error: &str) -> bool {
    error.contains("Data too long for column") || error.contains("Incorrect string value")
}

per_backend! {
    async fn a_row_that_fits_its_state_goes_in(db: TestDb) {
        let dialect = db.backend().dialect();
        let mut rows: Vec<Row> = STATES.map(Row::claim).to_vec();
        // A tombstone.
        let tombstone = Row::claim("confirmed").with("purged_at", TIME).with("request", Value::Null);
        rows.push(tombstone.with("receipt", Value::Null));
        rows.push(Row::claim("escalated").with("contradicted", Value::Bool(true)));
        // A person ruled a repeat; the doubt stays.
        let ruled = Row::claim("retryable").with("doubt", Value::Bool(true)).with("repeats_granted", Value::Int(1));
        rows.push(ruled.with("ruled_at", TIME));
        // At the widths, in bytes.
        let widest = Row::claim("in_flight").with("tenant", wide(128)).with("consumer", wide(128));
        rows.push(widest.with("summary", wide(256)).with("request", Value::Zeros((1 << 24) - 1)));
        for (number, row) in rows.into_iter().enumerate() {
            let row = row.with("message_id", text(&format!("m{number}")));
            db.execute(&row.insert(dialect)).await.unwrap();
        }
        for row in [Row::event(), Row::orphan(), Row::sweeper(), Row::pause(), Row::meta()] {
            db.execute(&row.insert(dialect)).await.unwrap();
        }
    }

    async fn each_wrong_row_is_refused_and_each_check_refuses_one(db: TestDb) {
        let mut left = names(&db);
        assert!(left.len() > 60, "the script gives its names no longer as this test reads them");
        for wrongs in [bound_to_state(), columns_of_claim(), other_tables()] {
            let faults = not_refused(&db, &wrongs, &mut left).await;
            assert!(faults.is_empty(), "{faults:#?}");
        }
        assert!(left.is_empty(), "no row of this test is refused by {left:?}");
    }

    async fn a_text_is_no_number(db: TestDb) {
        // No CHECK would refuse them: SQLite orders any text above any number.
        for column in ["amount_minor", "fence", "revision", "attempts", "key_window", "landing_horizon", "age_max"] {
            let row = Row::claim("retryable").with("currency", text("EUR")).with("amount_minor", Value::Int(1));
            let outcome = db.execute(&row.with(column, text("many")).insert(db.backend().dialect())).await;
            assert!(outcome.is_err(), "{column} took a text");
        }
    }

    async fn a_text_is_no_time(db: TestDb) {
        for (column, state) in TIMES {
            for value in ["now", "2026-11-30 12:00:00", "2026-11-30T12:00:00Z"] {
                let row = Row::claim(state).with(column, text(value));
                let outcome = db.execute(&row.insert(db.backend().dialect())).await;
                assert!(outcome.is_err(), "{column} took {value}");
            }
        }
    }
}
