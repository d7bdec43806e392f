//! What was seen, and the medians of it.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::args::Database;
use crate::load::{Quantiles, Report};
use crate::systems::System;

/// One round of one system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub database: Database,
    pub tasks: usize,
    pub system: System,
    /// Which share the tasks.
    pub processes: usize,
    pub pair: u32,
}

/// What one round came to.
#[derive(Clone, Debug)]
pub struct Figures {
    pub effects_per_s: f64,
    pub claim: Option<Quantiles>,
    pub settle: Option<Quantiles>,
    pub commits_per_effect: Option<f64>,
    pub client_us_per_effect: Option<f64>,
}

impl Figures {
    /// Of all the processes that worked at once. Latencies are told of one process only: quantiles do not add up.
    pub fn of(system: System, reports: &[Report], commits: u64) -> Result<Self> {
        let done: u64 = reports.iter().map(|r| r.done).sum();
        let measured: u64 = reports.iter().map(|r| r.measured).sum();
        anyhow::ensure!(
            measured > 0,
            "nothing ended while it was measured: a longer round is needed (--seconds)"
        );
        let cpu = reports.iter().map(|r| r.cpu_us).sum::<Option<u64>>();
        let one = (reports.len() == 1).then(|| reports.first()).flatten();
        // The rounds that begin with finished claims have made them too.
        let makes_effects = !matches!(system, System::EarmarkDuplicate | System::PrimaryKeyRead);
        Ok(Self {
            effects_per_s: reports.iter().map(|r| r.measured as f64 / r.seconds).sum(),
            claim: one.and_then(|r| r.claim),
            settle: one.and_then(|r| r.settle),
            commits_per_effect: makes_effects.then_some(commits as f64 / done as f64),
            client_us_per_effect: cpu.map(|us| us as f64 / measured as f64),
        })
    }
}

/// The base of the table: the pattern by hand.
pub fn by_hand(seen: Seen) -> Seen {
    Seen { system: System::HandWritten, ..seen }
}

/// The base of the duplicates: one read.
pub fn one_read(seen: Seen) -> Seen {
    Seen { system: System::PrimaryKeyRead, ..seen }
}

/// The base of the processes: one.
pub fn one_process(seen: Seen) -> Seen {
    Seen { processes: 1, ..seen }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Results {
    seen: BTreeMap<Seen, Figures>,
    /// What could not be run, and why.
    pub failures: Vec<String>,
}

/// The medians of one system at one number of tasks.
#[derive(Clone, Debug)]
pub struct Line {
    pub system: System,
    pub tasks: usize,
    pub processes: usize,
    pub median: Figures,
    pub min: f64,
    pub max: f64,
    /// Throughput against the base of the same pair, its median.
    pub ratio: Option<f64>,
}

/// One object of the JSON list.
#[derive(Debug, Serialize)]
pub struct Object {
    pub database: &'static str,
    pub system: &'static str,
    pub tasks: usize,
    /// Only where there were several.
    #[serde(skip_serializing_if = "is_one")]
    pub processes: usize,
    pub effects_per_s: f64,
    pub claim_p50_ms: Option<f64>,
    pub claim_p99_ms: Option<f64>,
    pub settle_p50_ms: Option<f64>,
    pub settle_p99_ms: Option<f64>,
    pub commits_per_effect: Option<f64>,
    pub client_us_per_effect: Option<f64>,
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

impl Line {
    /// As it stands in the JSON list.
    pub fn object(&self, database: Database) -> Object {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        let m = &self.median;
        Object {
            database: database.name(),
            system: self.system.name(),
            tasks: self.tasks,
            processes: self.processes,
            effects_per_s: round(m.effects_per_s),
            claim_p50_ms: m.claim.map(|q| round(q.p50_ms)),
            claim_p99_ms: m.claim.map(|q| round(q.p99_ms)),
            settle_p50_ms: m.settle.map(|q| round(q.p50_ms)),
            settle_p99_ms: m.settle.map(|q| round(q.p99_ms)),
            commits_per_effect: m.commits_per_effect.map(round),
            client_us_per_effect: m.client_us_per_effect.map(round),
        }
    }
}

impl Results {
    pub fn keep(&mut self, seen: Seen, figures: Figures) {
        self.seen.insert(seen, figures);
    }

    /// The lines of one database, each against the round of the same pair that `base` names.
    pub fn lines(&self, database: Database, base: impl Fn(Seen) -> Seen) -> Vec<Line> {
        let mut groups: BTreeMap<Seen, Vec<(Seen, &Figures)>> = BTreeMap::new();
        for (seen, figures) in self.seen.iter().filter(|(s, _)| s.database == database) {
            groups.entry(Seen { pair: 0, ..*seen }).or_default().push((*seen, figures));
        }
        let line = |(group, all): (Seen, Vec<(Seen, &Figures)>)| {
            let ratios = all.iter().filter_map(|(seen, figures)| {
                let base = self.seen.get(&base(*seen))?;
                Some(figures.effects_per_s / base.effects_per_s)
            });
            let speeds = all.iter().map(|(_, figures)| figures.effects_per_s);
            Line {
                system: group.system,
                tasks: group.tasks,
                processes: group.processes,
                ratio: if base(group) == group { None } else { median(ratios.collect()) },
                min: speeds.clone().fold(f64::INFINITY, f64::min),
                max: speeds.fold(0.0, f64::max),
                median: median_of(all.iter().map(|(_, figures)| *figures)),
            }
        };
        groups.into_iter().map(line).collect()
    }

    /// The median, over the pairs, of one system's throughput against another's at other tasks.
    pub fn ratio(&self, database: Database, one: (System, usize), other: (System, usize)) -> Option<f64> {
        let speed = |(system, tasks): (System, usize), pair| {
            self.seen.get(&Seen { database, tasks, system, processes: 1, pair }).map(|f| f.effects_per_s)
        };
        let pairs = self.seen.keys().map(|s| s.pair).max()?;
        median((1..=pairs).filter_map(|pair| Some(speed(one, pair)? / speed(other, pair)?)).collect())
    }
}

fn median_of<'a>(all: impl Iterator<Item = &'a Figures> + Clone) -> Figures {
    let of = |read: fn(&Figures) -> Option<f64>| median(all.clone().filter_map(read).collect());
    let quantiles = |p50: Option<f64>, p99: Option<f64>| {
        p50.zip(p99).map(|(p50_ms, p99_ms)| Quantiles { p50_ms, p99_ms })
    };
    Figures {
        effects_per_s: of(|f| Some(f.effects_per_s)).unwrap_or_default(),
        claim: quantiles(of(|f| f.claim.map(|q| q.p50_ms)), of(|f| f.claim.map(|q| q.p99_ms))),
        settle: quantiles(of(|f| f.settle.map(|q| q.p50_ms)), of(|f| f.settle.map(|q| q.p99_ms))),
        commits_per_effect: of(|f| f.commits_per_effect),
        client_us_per_effect: of(|f| f.client_us_per_effect),
    }
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => None,
        n if n % 2 == 1 => all.get(middle).copied(),
        _ => Some((all.get(middle - 1)? + all.get(middle)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    }
}
