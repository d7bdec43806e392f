//! What is due, pair after pair of tenant and consumer, so that a flood of one does not starve the rest.
//!
//! The sweep's index holds what is due some day, in the order of pair and `due_at`. A walk reads a few rows of it from the pair on after
//! the last one, takes what is due of the pairs it meets, and jumps over the rest of each. So a pass reads a bounded number of rows: not what is
//! finished, and not the rest of a flood.

use std::collections::{HashMap, HashSet};

use sea_orm::{QueryResult, Value};

use crate::error::Error;
use crate::key::ClaimKey;
use crate::state::State;
use crate::store::row::{ClaimView, key_bytes, key_of};
use crate::store::write::Db;
use crate::store::{ClaimStore, bind};

/// Rows read at once where nobody knows of how many pairs they are: many pairs with few claims cost few statements, and one with
/// many costs few rows.
const CHUNK: usize = 32;

/// Where walks over what is due begin: after the pair that was served last, so that each pair has its turn first some day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    after: Option<Pair>,
}

/// A claim that is due.
#[derive(Debug)]
#[non_exhaustive]
pub struct DueClaim {
    /// Its key.
    pub key: ClaimKey,
    /// The row when it was found, without the receipt; or why it cannot be read.
    pub view: Result<ClaimView, Error>,
}

/// What a walk found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Due {
    /// One claim of each pair, then the second of each, and so on.
    pub claims: Vec<DueClaim>,
    /// Where the next walk begins.
    pub next: Walk,
    /// How many rows were read to find them.
    pub rows_read: u64,
}

/// Tenant and consumer, as bytes: a key that was typed by hand and is no text must not stop the walk over the others.
type Pair = (Vec<u8>, Vec<u8>);

impl ClaimStore {
    /// Keys of claims that are due, as [`ClaimStore::walk_due`] finds them from the first pair on.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn due(
        &self,
        share: u32,
        most: usize,
        aside: HashSet<ClaimKey>,
    ) -> Result<Vec<ClaimKey>, Error> {
        let found = self.walk_due(Walk::default(), share, most, aside).await?;
        Ok(found.claims.into_iter().map(|due| due.key).collect())
    }

    /// Claims that are due: at most `share` of each pair of tenant and consumer, at most `most` in all, pair after pair in turn, so
    /// that a flood of one pair does not starve the rest. Those `aside` are passed over, and take no place of their pair; nor do held ones
    /// of a paused downstream, with which nothing can be done but to let them expire.
    ///
    /// # Errors
    /// As [`ClaimStore::find`].
    pub async fn walk_due(
        &self,
        from: Walk,
        share: u32,
        most: usize,
        aside: HashSet<ClaimKey>,
    ) -> Result<Due, Error> {
        let db = self.inner.db.clone();
        let search = Search {
            share: (share as usize).min(most),
            most,
            aside: Aside::new(aside),
            pairs: Vec::new(),
            paused: self.pauses().await?.into_iter().map(|pause| pause.downstream).collect(),
            rows_read: 0,
        };
        self.inner.writer.run(async move { search.run(&db, from).await }).await
    }
}

/// Claims that are passed over, and how many of them each pair has.
struct Aside {
    keys: HashSet<ClaimKey>,
    of_pair: HashMap<Pair, usize>,
}

impl Aside {
    fn new(keys: HashSet<ClaimKey>) -> Self {
        let mut of_pair = HashMap::new();
        for key in &keys {
            *of_pair.entry((key.tenant().into(), key.consumer().into())).or_default() += 1;
        }
        Self { keys, of_pair }
    }
}

struct Search {
    share: usize,
    most: usize,
    aside: Aside,
    /// What was taken, by pair; none is empty.
    pairs: Vec<(Pair, Vec<DueClaim>)>,
    /// Downstreams that nothing is sent to.
    paused: HashSet<String>,
    rows_read: u64,
}

impl Search {
    async fn run(mut self, db: &Db, from: Walk) -> Result<Due, Error> {
        // From there to the last pair, and then from the first one to there.
        self.lap(db, from.after.clone(), None).await?;
        if from.after.is_some() {
            self.lap(db, None, from.after.as_ref()).await?;
        }
        let claims = in_turn(self.pairs, self.most);
        let next = match claims.last() {
            // Whoever would have been next begins.
            Some((pair, _)) if claims.len() == self.most => Walk { after: Some(pair.clone()) },
            _ => from,
        };
        let claims = claims.into_iter().map(|(_, claim)| claim).collect();
        Ok(Due { claims, next, rows_read: self.rows_read })
    }

    /// Walks the pairs after one, and not beyond another.
    async fn lap(&mut self, db: &Db, after: Option<Pair>, upto: Option<&Pair>) -> Result<(), Error> {
        let (dialect, sql) = (db.pools.dialect, db.pools.dialect.sql());
        // The first pair may have the empty tenant; consumers are never empty, so ("", "") stands before every pair.
        let mut at = after.unwrap_or_default();
        // Where one pair floods, so may the next.
        let mut floods = false;
        while self.pairs.len() < self.most {
            let asked = if floods { self.level().max(1) } else { CHUNK };
            let [tenant, consumer] = bound(db, &at);
            let values = vec![tenant.clone(), tenant, consumer, (asked as i64).into()];
            let rows = db.read("due", bind::statement(dialect, sql.open_after, values)).await?;
            self.rows_read += rows.len() as u64;
            let all_read = rows.len() < asked;
            for of_pair in by_pair(&rows)? {
                let last = of_pair.end == rows.len();
                let pair = of_pair.pair;
                if upto.is_some_and(|upto| pair > *upto) || self.pairs.len() == self.most {
                    return Ok(());
                }
                let level = self.level();
                let mut claims = Vec::new();
                let rest_may_be_due = self.take(&rows[of_pair.start..of_pair.end], level, &mut claims);
                floods = rest_may_be_due && of_pair.start == 0 && last;
                if rest_may_be_due && last && !all_read && claims.len() < level {
                    claims = self.all_of(db, &pair, level).await?;
                }
                if !claims.is_empty() {
                    self.pairs.push((pair.clone(), claims));
                }
                at = pair;
            }
            if all_read {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What is due of one pair.
    async fn all_of(&mut self, db: &Db, pair: &Pair, level: usize) -> Result<Vec<DueClaim>, Error> {
        let [tenant, consumer] = bound(db, pair);
        let passed_over = self.aside.of_pair.get(pair).copied().unwrap_or_default();
        let limit = i64::try_from(level.saturating_add(passed_over)).unwrap_or(i64::MAX);
        let values = vec![tenant, consumer, limit.into()];
        let dialect = db.pools.dialect;
        let rows = db.read("due", bind::statement(dialect, dialect.sql().due_of_pair, values)).await?;
        self.rows_read += rows.len() as u64;
        let mut claims = Vec::new();
        self.take(&rows, level, &mut claims);
        Ok(claims)
    }

    /// How many of one more pair can still find a place among `most`: with those that were taken in turn up to this number from each pair,
    /// all places are filled.
    fn level(&self) -> usize {
        let filled =
            |level: usize| self.pairs.iter().map(|(_, claims)| claims.len().min(level)).sum::<usize>();
        if filled(self.share) < self.most {
            return self.share;
        }
        let (mut low, mut high) = (0, self.share);
        while low < high {
            let middle = (low + high) / 2;
            if filled(middle) < self.most { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Takes what is due out of rows of one pair, most overdue first. Whether what follows them may be due, too.
    fn take(&self, rows: &[QueryResult], level: usize, claims: &mut Vec<DueClaim>) -> bool {
        for row in rows {
            if !is_due(row) {
                return false;
            }
            // A key that no constructor of ours would have made was typed by hand: it is passed over, and a snapshot names it.
            let Ok(key) = key_of(row) else { continue };
            if claims.len() < level && !self.aside.keys.contains(&key) {
                let view = ClaimView::read(row);
                if !view.as_ref().is_ok_and(|view| self.must_wait(view)) {
                    claims.push(DueClaim { key, view });
                }
            }
        }
        true
    }

    /// Held, and its downstream is paused: nothing can be done with it but to let it expire.
    fn must_wait(&self, view: &ClaimView) -> bool {
        let facts = &view.facts;
        facts.state == State::Held && !facts.send_by_passed() && self.paused.contains(&view.downstream)
    }
}

/// A row whose times cannot be read is handed on as due, so that it is seen.
fn is_due(row: &QueryResult) -> bool {
    let time = |column| row.try_get_by::<i64, _>(column);
    match (time("due_at"), time("now_at")) {
        (Ok(due_at), Ok(now)) => due_at <= now,
        _ => true,
    }
}

/// Rows of one pair among others.
struct OfPair {
    pair: Pair,
    start: usize,
    end: usize,
}

fn by_pair(rows: &[QueryResult]) -> Result<Vec<OfPair>, Error> {
    let mut found: Vec<OfPair> = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let part = |column| {
            key_bytes(row, column)
                .map_err(|e| Error::Malformed { key: "of a due row".into(), what: e.to_string() })
        };
        let pair = (part("tenant")?, part("consumer")?);
        match found.last_mut() {
            Some(last) if last.pair == pair => last.end = n + 1,
            _ => found.push(OfPair { pair, start: n, end: n + 1 }),
        }
    }
    Ok(found)
}

fn bound(db: &Db, pair: &Pair) -> [Value; 2] {
    [&pair.0, &pair.1].map(|part| db.pools.dialect.walked_key(part.clone()))
}

/// One of each, then the second of each, and so on; each with its pair.
fn in_turn<P: Clone, T>(pairs: Vec<(P, Vec<T>)>, most: usize) -> Vec<(P, T)> {
    let mut rest: Vec<_> = pairs.into_iter().map(|(pair, items)| (pair, items.into_iter())).collect();
    let mut out = Vec::new();
    while out.len() < most && !rest.is_empty() {
        rest.retain_mut(|(pair, items)| match items.next() {
            Some(item) if out.len() < most => {
                out.push((pair.clone(), item));
                true
            }
            _ => false,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn every_pair_gets_its_turn_before_a_flood_gets_its_second() {
        let found = in_turn(vec![('a', vec![1, 2, 3]), ('b', vec![10]), ('c', vec![20, 21])], 5);
        assert_eq!(found, [('a', 1), ('b', 10), ('c', 20), ('a', 2), ('c', 21)]);
        assert!(in_turn(Vec::<((), Vec<u8>)>::new(), 5).is_empty());
    }
}
