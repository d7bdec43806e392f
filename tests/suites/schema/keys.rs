//! Keys are bytes: whatever a collation would take for the same is another message.

use earmark_tests::{TestDb, per_backend};

use crate::row::{Row, text};

/// Pairs that some collation takes for equal.
const PAIRS: [(&str, &str); 7] = [
    ("aB1", "Ab1"),
    // MySQL pads.
    ("x", "x "),
    // One character, or two that look like it.
    ("caf\u{e9}", "cafe\u{301}"),
    ("stra\u{df}e", "strasse"),
    // Equal to each other in old collations, which have no weight for them.
    ("\u{1f600}", "\u{1f4a9}"),
    ("1", "\u{ff11}"),
    // Nothing, and a character without width.
    ("z", "z\u{200b}"),
];

per_backend! {
    async fn two_spellings_are_two_messages(db: TestDb) {
        let dialect = db.backend().dialect();
        for column in ["tenant", "consumer", "message_id"] {
            for (one, other) in PAIRS {
                for key in [one, other] {
                    // The other two columns are the same for both, and apart from all other pairs.
                    let row = ["tenant", "consumer", "message_id"]
                        .iter()
                        .fold(Row::claim("held"), |row, name| row.with(name, text(&format!("{column}-{one}"))))
                        .with(column, text(key));
                    db.execute(&row.insert(dialect)).await.unwrap_or_else(|error| panic!("{column} {key:?}: {error}"));
                    assert!(db.execute(&row.insert(dialect)).await.is_err(), "{column} {key:?} went in twice");
                }
                for key in [one, other] {
                    let count = format!("SELECT count(*) FROM earmark_claim WHERE {column} = '{key}'");
                    assert_eq!(db.number(&count).await, 1, "{column} {key:?} finds not just its own");
                }
            }
        }
    }

    async fn the_ids_that_people_search_by_are_bytes_too(db: TestDb) {
        let dialect = db.backend().dialect();
        for (number, (one, other)) in PAIRS.into_iter().enumerate() {
            for (side, id) in [("a", one), ("b", other)] {
                let row = Row::claim("confirmed").with("message_id", text(&format!("{number}{side}")));
                db.execute(&row.with("provider_ref", text(id)).insert(dialect)).await.unwrap();
            }
            for id in [one, other] {
                let count = format!("SELECT count(*) FROM earmark_claim WHERE provider_ref = '{id}'");
                assert_eq!(db.number(&count).await, 1, "{id:?}");
            }
        }
    }
}
