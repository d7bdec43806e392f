//! Hash partitions: the PostgreSQL text with claims and events cut into parts.

use sea_orm::{ConnectionTrait, Statement};

use crate::{Dialect, Error, error::While};

/// The tables that grow. Both are cut by the claim's key, so that a claim and its events are in parts of the same number.
const TABLES: [&str; 2] = ["earmark_claim", "earmark_event"];

/// Fewer are no partitions; with more, planning costs more than the parts save.
const COUNT: std::ops::RangeInclusive<u32> = 2..=256;

/// The text of a PostgreSQL migration with `earmark_claim` and `earmark_event` in so many hash partitions by the claim's key, named
/// `earmark_claim_p0` and so on. A text that makes neither table comes back as it is.
///
/// # Errors
/// [`Error::Partitions`] for fewer than 2 or more than 256.
pub fn partitioned(sql: &str, count: u32) -> Result<String, Error> {
    check(Dialect::Postgres, count)?;
    let mut text = sql.to_owned();
    for table in TABLES {
        let Some(start) = text.find(&format!("CREATE TABLE {table} (")) else { continue };
        // The parenthesis that closes the columns stands alone at the beginning of its line; behind it, the storage parameters,
        // which only the parts may have.
        let Some(close) = text[start..].find("\n)").map(|at| start + at) else { continue };
        let Some(end) = text[close..].find(';').map(|at| close + at) else { continue };
        let storage = text[close + "\n)".len()..end].to_owned();
        let mut cut = "\n) PARTITION BY HASH (tenant, consumer, message_id);".to_owned();
        for part in 0..count {
            cut.push_str(&format!(
                "\nCREATE TABLE {table}_p{part} PARTITION OF {table} FOR VALUES WITH (MODULUS {count}, REMAINDER {part}){storage};"
            ));
        }
        text.replace_range(close..=end, &cut);
    }
    Ok(text)
}

/// Whether a database of that kind may have so many.
pub(crate) fn check(dialect: Dialect, count: u32) -> Result<(), Error> {
    let why = match dialect {
        Dialect::MySql | Dialect::Sqlite => "only the tables for PostgreSQL can be partitioned",
        Dialect::Postgres if !COUNT.contains(&count) => "use 2 to 256",
        Dialect::Postgres => return Ok(()),
    };
    Err(Error::Partitions { wanted: count, why })
}

/// How many partitions the claims are in; 0: none.
pub(crate) async fn count(db: &impl ConnectionTrait, dialect: Dialect) -> Result<u32, Error> {
    if dialect != Dialect::Postgres {
        return Ok(0);
    }
    let sql = "SELECT count(i.inhrelid) AS parts FROM pg_partitioned_table p \
               JOIN pg_inherits i ON i.inhparent = p.partrelid WHERE p.partrelid = to_regclass('earmark_claim')";
    let doing = "counting partitions";
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql)).await;
    let parts: Option<i64> =
        rows.while_(doing)?.first().map(|row| row.try_get("", "parts")).transpose().while_(doing)?;
    Ok(parts.and_then(|parts| u32::try_from(parts).ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql;

    #[test]
    fn both_tables_are_cut_and_nothing_else_is_changed() {
        let whole = sql(Dialect::Postgres)[0].sql;
        let text = partitioned(whole, 3).unwrap();
        for table in TABLES {
            assert_eq!(text.matches(&format!("CREATE TABLE {table}_p")).count(), 3);
            assert!(text.contains(&format!(
                "CREATE TABLE {table}_p2 PARTITION OF {table} FOR VALUES WITH (MODULUS 3, REMAINDER 2)"
            )));
        }
        assert_eq!(text.matches("PARTITION BY HASH (tenant, consumer, message_id);").count(), 2);
        // Taken out again, what was put in leaves what it was.
        let mut undone = String::new();
        for line in text.split_inclusive('\n') {
            match line.split_once(" PARTITION ") {
                Some((")", _)) => undone.push(')'),
                // The storage parameters stand behind the last part as they stood behind the table.
                Some((_, rest)) if rest.contains("REMAINDER 2)") => {
                    undone.push_str(rest.split_once("REMAINDER 2)").unwrap().1);
                }
                Some(_) => {}
                None => undone.push_str(line),
            }
        }
        assert!(undone == whole, "something else was changed");
    }

    #[test]
    fn a_number_that_makes_no_sense_is_refused() {
        for count in [0, 1, 257] {
            assert!(matches!(partitioned("", count), Err(Error::Partitions { .. })), "{count}");
        }
        assert!(check(Dialect::MySql, 4).is_err() && check(Dialect::Sqlite, 4).is_err());
    }
}
