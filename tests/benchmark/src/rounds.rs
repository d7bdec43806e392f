//! The rounds, in turn: pair after pair, and within one all systems of one number of tasks one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::args::{Database, Extra, Flags, Plan};
use crate::databases::Server;
use crate::load::{Report, Round};
use crate::pgbench;
use crate::results::{Figures, Results, Seen};
use crate::systems::{System, Tables};
use crate::workers::Worker;

/// Connections are opened and statements prepared in it.
const WARM_UP: Duration = Duration::from_millis(300);
/// Long enough for a peer to make its tables and perform something.
const TRIAL: Duration = Duration::from_millis(200);

/// How many processes share a load.
const PROCESSES: [usize; 3] = [1, 2, 4];
/// The load that they share.
const PROCESS_TASKS: usize = 256;

/// A run under way.
pub struct Run<'a> {
    pub flags: &'a Flags,
    pub plan: &'a Plan,
    pub servers: BTreeMap<Database, Server>,
    pub results: Results,
    /// Beside the table.
    pub duplicates: Results,
    /// Beside the table.
    pub processes: Results,
    homes: BTreeMap<(Database, System), String>,
    rounds: u32,
    /// Systems that cannot be run, which is said once.
    out: BTreeSet<(Database, System)>,
}

impl<'a> Run<'a> {
    pub fn new(flags: &'a Flags, plan: &'a Plan, servers: BTreeMap<Database, Server>) -> Self {
        Self {
            flags,
            plan,
            servers,
            results: Results::default(),
            duplicates: Results::default(),
            processes: Results::default(),
            homes: BTreeMap::new(),
            rounds: 0,
            out: BTreeSet::new(),
        }
    }

    /// All systems of the plan, on all its databases.
    pub async fn main(&mut self) -> Result<()> {
        let cases = self.cases();
        let all = cases.len() * self.plan.pairs as usize;
        let mut number = 0;
        for pair in 1..=self.plan.pairs {
            for &(database, system, tasks) in &cases {
                number += 1;
                let (on, name) = (database.name(), system.name());
                let what = format!("[{number}/{all}] pair {pair}: {on} {name} {tasks} tasks");
                if let Some(figures) = self.case(database, system, tasks, &what).await? {
                    self.results.keep(Seen { database, system, tasks, processes: 1, pair }, figures);
                }
            }
        }
        Ok(())
    }

    /// What is measured beside the table.
    pub async fn extras(&mut self) -> Result<()> {
        for pair in 1..=self.plan.pairs {
            if self.plan.extras.contains(&Extra::Duplicates) {
                self.duplicates(pair).await?;
            }
            if self.plan.extras.contains(&Extra::Processes) && self.servers.contains_key(&Database::Postgres)
            {
                self.processes(pair).await?;
            }
        }
        Ok(())
    }

    /// How fast finished messages are answered, against one read by primary key.
    async fn duplicates(&mut self, pair: u32) -> Result<()> {
        for database in self.plan.databases.clone() {
            for tasks in self.plan.duplicate_tasks.clone() {
                for system in [System::PrimaryKeyRead, System::EarmarkDuplicate] {
                    let figures = self.round(database, system, tasks, 1).await?;
                    eprintln!(
                        "pair {pair}: {} {} {tasks} tasks: {:.0}/s",
                        database.name(),
                        system.name(),
                        figures.effects_per_s
                    );
                    self.duplicates.keep(Seen { database, system, tasks, processes: 1, pair }, figures);
                }
            }
        }
        Ok(())
    }

    /// The same load by several processes.
    async fn processes(&mut self, pair: u32) -> Result<()> {
        let (database, system, tasks) = (Database::Postgres, System::Earmark, PROCESS_TASKS);
        for processes in PROCESSES {
            let figures = self.round(database, system, tasks, processes).await?;
            eprintln!(
                "pair {pair}: postgres earmark {tasks} tasks in {processes} processes: {:.0} effects/s",
                figures.effects_per_s
            );
            self.processes.keep(Seen { database, system, tasks, processes, pair }, figures);
        }
        Ok(())
    }

    /// In the order of one pair.
    fn cases(&self) -> Vec<(Database, System, usize)> {
        let mut cases = Vec::new();
        // The ceiling is the same for any number of tasks: measured beside the one that it is compared with.
        let beside = self.plan.tasks.iter().copied().filter(|n| *n <= 256).max();
        for database in &self.plan.databases {
            for tasks in &self.plan.tasks {
                for system in self.plan.systems.iter().filter(|s| s.runs_on(*database)) {
                    match system {
                        System::PgbenchBatched if beside.is_none_or(|n| n != *tasks) => {}
                        System::PgbenchBatched => cases.push((*database, *system, pgbench::CLIENTS)),
                        _ => cases.push((*database, *system, *tasks)),
                    }
                }
            }
        }
        cases
    }

    /// One round, told on standard error. A peer that fails is left out from then on; anything else ends the run.
    async fn case(
        &mut self,
        database: Database,
        system: System,
        tasks: usize,
        what: &str,
    ) -> Result<Option<Figures>> {
        if self.out.contains(&(database, system)) {
            return Ok(None);
        }
        match self.round(database, system, tasks, 1).await {
            Ok(figures) => {
                eprintln!("{what}: {:.0} effects/s", figures.effects_per_s);
                Ok(Some(figures))
            }
            Err(error) if system.is_peer() || system == System::PgbenchBatched => {
                let why = format!("{error:#}").replace('\n', " ");
                eprintln!("{what}: FAILED, and left out from now on: {why}");
                self.results.failures.push(format!(
                    "{} on {} at {tasks} tasks: {why}",
                    system.name(),
                    database.name()
                ));
                self.out.insert((database, system));
                Ok(None)
            }
            Err(error) => Err(error.context(what.to_owned())),
        }
    }

    /// One round by that many processes, which share the tasks.
    async fn round(
        &mut self,
        database: Database,
        system: System,
        tasks: usize,
        processes: usize,
    ) -> Result<Figures> {
        let url = self.home(database, system).await?;
        let server = self.servers.get(&database).context("a database that is not open")?;
        server.checkpoint().await?;
        let before = server.commits(system).await?;
        let name = self.next_name();
        let reports = if system == System::PgbenchBatched {
            let seconds = self.plan.seconds.ceil().max(1.0);
            vec![pgbench::round(&url, &name, &self.flags.folder, seconds).await?]
        } else {
            let round = self.told(database, system, &name, tasks / processes, WARM_UP);
            self.work(system, &round, &url, processes).await?
        };
        let server = self.servers.get(&database).context("a database that is not open")?;
        let after = server.commits(system).await?;
        let rows = server.count(system, &name).await?;
        let effects: u64 = reports.iter().map(|r| r.effects).sum();
        ensure!(
            rows == effects,
            "{}: {effects} effects were performed, but {rows} are confirmed in the database",
            system.name()
        );
        Figures::of(system, &reports, after.saturating_sub(before))
    }

    async fn work(&self, system: System, round: &Round, url: &str, processes: usize) -> Result<Vec<Report>> {
        let wrap = self.flags.wrap.as_deref();
        let mut workers = Vec::new();
        for _ in 0..processes {
            workers.push(Worker::start(system, round, url, wrap).await?);
        }
        for worker in &mut workers {
            worker.begin().await?;
        }
        let mut reports = Vec::new();
        for worker in workers {
            reports.push(worker.report(round).await?);
        }
        Ok(reports)
    }

    fn told(&self, database: Database, system: System, name: &str, tasks: usize, warm_up: Duration) -> Round {
        Round {
            system: system.name().to_owned(),
            database: database.name().to_owned(),
            name: name.to_owned(),
            tasks: tasks.max(1),
            warm_up_ms: warm_up.as_millis() as u64,
            measure_ms: (self.plan.seconds * 1000.0) as u64,
        }
    }

    fn next_name(&mut self) -> String {
        self.rounds += 1;
        format!("round-{}", self.rounds)
    }

    /// The database of that system, made when it is first needed.
    async fn home(&mut self, database: Database, system: System) -> Result<String> {
        if let Some(url) = self.homes.get(&(database, system)) {
            return Ok(url.clone());
        }
        let server = self.servers.get_mut(&database).context("a database that is not open")?;
        let url = server.make_home(system).await?;
        if system.tables() == Tables::OfItsOwn {
            // It makes its tables when it first starts, which is not to be measured.
            let name = self.next_name();
            let mut trial = self.told(database, system, &name, 1, Duration::ZERO);
            trial.measure_ms = TRIAL.as_millis() as u64;
            self.work(system, &trial, &url, 1).await?;
        }
        self.homes.insert((database, system), url.clone());
        Ok(url)
    }
}
