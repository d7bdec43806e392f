//! What the statements must look like to stay on one shard of a distributed database and behind a transaction-mode
//! pooler: each hot one names the whole key wherever it touches one of our tables, and none keeps state in a session.

mod reader;

use Class::{Cold, Hot, Walk};
use reader::Group;

use super::{Sql, mysql, postgres, sqlite};

/// The key that routes a row.
const KEY: [&str; 3] = ["tenant", "consumer", "message_id"];

/// How a statement may be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// About claims whose keys are known: to their shards alone.
    Hot,
    /// The sweep's walk over what is due and the purge's over what is old: to every shard, and cheap on each.
    Walk,
    /// Reports, look-ups by a second handle, the small tables: to every shard, or of no key.
    Cold,
}

/// Every statement with its class. Taken apart without `..`, so that a new one does not compile until somebody has said what it is.
fn classified(sql: &Sql) -> Vec<(&'static str, Class, &'static str)> {
    macro_rules! table {
        ($($class:ident: $($name:ident),+;)+) => {{
            let Sql { $($($name),+),+ } = sql;
            vec![$($((stringify!($name), $class, *$name)),+),+]
        }};
    }
    table! {
        Hot: claim, claim_batch, confirm_batch, apply, event, keep_receipt, row, rows, lock, lock_or_skip, row_in_caller, held, request, extend, history, fact_known,
            purge_events, purge_rows, tombstone_rows;
        Walk: open_after, due_of_pair, purge_pick, tombstone_pick;
        Cold: by_reference, by_provider_ref, orphan, list_open, list_closed, open_tallies, report_claims, report_events, report_orphans,
            sweepers, heartbeat, pauses, pause, resume, newest_pause, now, meta,
            purge_plan, tombstone_plan, purge_kept, forget_sweepers;
    }
}

fn everywhere() -> impl Iterator<Item = (&'static str, &'static str, Class, &'static str)> {
    let all = [("postgres", postgres::SQL), ("mysql", mysql::SQL), ("sqlite", sqlite::SQL)];
    all.into_iter().flat_map(|(dialect, sql)| {
        classified(&sql).into_iter().map(move |(name, class, text)| (dialect, name, class, text))
    })
}

#[test]
fn every_hot_statement_names_the_whole_key_wherever_it_touches_a_table() {
    let mut faults = Vec::new();
    for (dialect, name, class, text) in everywhere() {
        let found = Group::read(text).unrouted(&KEY);
        match class {
            Hot => faults.extend(found.into_iter().map(|fault| format!("{dialect} {name}: {fault}"))),
            // Else the check sees nothing, or the statement is hot.
            Walk => assert!(!found.is_empty(), "{dialect} {name} names the whole key: it is hot"),
            Cold => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_claim_is_decided_by_its_key_and_by_nothing_else() {
    for sql in [postgres::SQL, sqlite::SQL] {
        assert!(sql.claim.contains("ON CONFLICT (tenant, consumer, message_id) DO NOTHING"), "{}", sql.claim);
    }
    // There a duplicate is an error, and the row under the key decides what it was.
    let words = reader::words(mysql::SQL.claim);
    for word in ["ignore", "replace", "duplicate"] {
        assert!(!words.contains(&word.to_owned()), "{word} answers a duplicate as if it were an insert");
    }
}

/// No lock, temporary table, variable or subscription that lives in a session, no row named by where it happens to lie, no
/// number that one server hands out.
#[test]
fn no_statement_keeps_state_in_a_session() {
    const NEVER: [&str; 24] = [
        "pg_advisory_lock",
        "pg_advisory_xact_lock",
        "pg_try_advisory_lock",
        "pg_try_advisory_xact_lock",
        "get_lock",
        "release_lock",
        "listen",
        "unlisten",
        "notify",
        "pg_notify",
        "temp",
        "temporary",
        "session",
        "global",
        "prepare",
        "deallocate",
        "declare",
        "cursor",
        "nextval",
        "currval",
        "last_insert_id",
        "ctid",
        "xmin",
        "rowid",
    ];
    for (dialect, name, _, text) in everywhere() {
        let words = reader::words(text);
        for never in NEVER {
            assert!(!words.iter().any(|word| word == never), "{dialect} {name}: {never}");
        }
        assert!(!text.contains('@'), "{dialect} {name}: a variable of the session");
        let first = words.first().map(String::as_str);
        assert!(
            matches!(first, Some("select" | "insert" | "update" | "delete" | "with")),
            "{dialect} {name} begins with {first:?}: one statement that reads or writes rows"
        );
        assert!(!text.contains(';'), "{dialect} {name}: more than one statement");
    }
}

#[test]
fn the_check_sees_what_is_missing() {
    let faults = |text: &str| Group::read(text).unrouted(&KEY);
    let routed = [
        "SELECT request FROM earmark_claim WHERE tenant = $1 AND consumer = $2 AND message_id = $3 FOR UPDATE SKIP LOCKED",
        "SELECT 1 FROM earmark_claim c WHERE c.tenant = ? AND ? = c.consumer AND c.message_id = ? AND state = 'x'",
        "UPDATE earmark_claim AS c SET state = b.state FROM unnest($1::text[], $2::text[], $3::text[]) AS b (tenant, consumer, message_id)
            WHERE c.tenant = b.tenant AND c.consumer = b.consumer AND c.message_id = b.message_id",
        "UPDATE earmark_claim c JOIN JSON_TABLE(?, '$[*]' COLUMNS (t VARBINARY(128) PATH '$.t')) b
            ON c.tenant = b.t AND c.consumer = b.u AND c.message_id = b.v SET c.state = b.s WHERE c.fence = b.f",
        "SELECT state FROM earmark_claim WHERE (tenant, consumer, message_id) IN (SELECT t, u, v FROM json_each(?1))",
        "INSERT INTO earmark_claim (tenant, consumer, message_id, kind) SELECT t, u, v, w FROM unnest($1::text[]) b (t)
            ON CONFLICT (tenant, consumer, message_id) DO NOTHING RETURNING tenant",
        "WITH done AS (UPDATE earmark_claim SET fence = 1 WHERE tenant = $1 AND consumer = $2 AND message_id = $3 RETURNING 1)
            SELECT count(*) FROM done",
    ];
    for text in routed {
        assert!(faults(text).is_empty(), "{text}: {:?}", faults(text));
    }
    let astray = [
        // A part of the key is missing.
        "SELECT request FROM earmark_claim WHERE tenant = $1 AND consumer = $2",
        "UPDATE earmark_claim SET fence = 1, tenant = $1 WHERE consumer = $2 AND message_id = $3",
        // It is there, and does not bind.
        "SELECT 1 FROM earmark_claim WHERE tenant = $1 AND consumer = $2 AND message_id = $3 OR fence = 1",
        "SELECT 1 FROM earmark_claim WHERE tenant >= $1 AND consumer = $2 AND message_id = $3",
        "SELECT 1 FROM earmark_claim WHERE tenant = tenant AND consumer = $2 AND message_id = $3",
        "SELECT 1 FROM earmark_claim WHERE tenant = CAST($1 AS TEXT) AND consumer = $2 AND message_id IS NOT NULL",
        "SELECT 1 FROM earmark_claim WHERE lower(tenant) = $1 AND consumer = $2 AND message_id = $3",
        // It binds another table.
        "SELECT 1 FROM earmark_claim c, earmark_event e WHERE c.tenant = $1 AND c.consumer = $2 AND c.message_id = $3",
        "SELECT 1 FROM earmark_claim c WHERE c.tenant = $1 AND c.consumer = $2 AND c.message_id = $3
            AND EXISTS (SELECT 1 FROM earmark_event e WHERE e.tenant = c.tenant AND e.consumer = c.consumer)",
        "SELECT (SELECT MAX(seq) FROM earmark_event) FROM earmark_claim c
            WHERE c.tenant = $1 AND c.consumer = $2 AND c.message_id = $3",
        // An insert that leaves a part out, or is decided by another constraint.
        "INSERT INTO earmark_event (tenant, consumer, seq) VALUES ($1, $2, $3)",
        "INSERT INTO earmark_claim (tenant, consumer, message_id) VALUES ($1, $2, $3) ON CONFLICT (reference) DO NOTHING",
        "INSERT INTO earmark_claim (tenant, consumer, message_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        "DELETE FROM earmark_event WHERE message_id = $1",
    ];
    for text in astray {
        assert!(!faults(text).is_empty(), "nothing is found in: {text}");
    }
}
