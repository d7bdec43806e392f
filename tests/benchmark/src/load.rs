//! The load of one round, the same for every system: tasks that perform one effect after the other, for a while.
//!
//! A worker is a process of its own, so that its processor time is its own. It is told its round as JSON in its first argument and
//! the database in `EARMARK_BENCH_URL`; it says `ready` when it is connected, begins at a line on its standard input, and answers
//! with a [`Report`] in one line.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Threads of the runtime of every system.
pub const RUNTIME_THREADS: usize = 2;
/// Where a worker finds its database: not an argument, which every user of the machine could read.
pub const URL_VARIABLE: &str = "EARMARK_BENCH_URL";
/// What a worker says when it may begin.
pub const READY: &str = "ready";

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Which system.
    pub system: String,
    /// On which database.
    pub database: String,
    /// The consumer of its claims: new for each round, so that its rows can be counted.
    pub name: String,
    /// How many effects are under way at once.
    pub tasks: usize,
    /// Before anything is measured, at least: connections are opened and statements prepared, and each task has ended about one effect.
    pub warm_up_ms: u64,
    /// How long is measured, at least: see [`TURNS`].
    pub measure_ms: u64,
}

/// What a worker has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Effects performed, the warm-up and the last ones included: so many rows must be found.
    pub effects: u64,
    /// Everything that was asked for, the warm-up and the last ones included.
    pub done: u64,
    /// What ended while it was measured.
    pub measured: u64,
    /// How long was measured.
    pub seconds: f64,
    /// Until the effect was reached.
    pub claim: Option<Quantiles>,
    /// From the effect's end to the caller's answer.
    pub settle: Option<Quantiles>,
    /// Processor time of the process while it was measured; `None` where the system does not tell.
    pub cpu_us: Option<u64>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    pub p50_ms: f64,
    /// Of a hundred, the last but one.
    pub p99_ms: f64,
}

/// How long one effect took.
pub struct Timing {
    /// Until the effect was reached.
    pub claim: Duration,
    /// From its end to the caller's answer; `None` where nothing is recorded.
    pub settle: Option<Duration>,
}

/// A system under load.
pub trait Load: Send + Sync + 'static {
    /// Performs one effect under that id, for that task.
    fn one(&self, task: usize, id: String) -> impl Future<Output = Result<Timing>> + Send;

    /// How many effects were performed, when so many things were done.
    fn effects(&self, done: u64) -> u64 {
        done
    }

    /// Ends it: everything is recorded.
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Where effects write down when they were reached: one place for each task.
pub struct Slots {
    epoch: Instant,
    reached: Vec<AtomicU64>,
    count: AtomicU64,
}

impl Slots {
    /// So many.
    pub fn new(tasks: usize) -> Self {
        let reached = std::iter::repeat_with(AtomicU64::default).take(tasks).collect();
        Self { epoch: Instant::now(), reached, count: AtomicU64::new(0) }
    }

    /// The no-op effect: writes down when it was reached, and counts itself.
    pub fn reach(&self, slot: usize) {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.reached[slot].store(nanos, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// What was measured around it.
    pub fn timing(&self, slot: usize, begun: Instant, ended: Instant) -> Timing {
        let reached = self.epoch + Duration::from_nanos(self.reached[slot].load(Ordering::Relaxed));
        Timing {
            claim: reached.saturating_duration_since(begun),
            settle: Some(ended.saturating_duration_since(reached)),
        }
    }

    /// How often an effect was reached.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// The round that this process was started for.
pub fn round(argument: Option<String>) -> Result<Round> {
    serde_json::from_str(&argument.context("a worker is started by the benchmark, with its round")?)
        .context("the round is not readable")
}

/// The database that this process was started for.
pub fn url() -> Result<String> {
    std::env::var(URL_VARIABLE).with_context(|| format!("{URL_VARIABLE} is not set"))
}

/// Runs a worker from its start to its answer.
pub fn serve<L: Load>(round: &Round, open: impl Future<Output = Result<L>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let load = Arc::new(runtime.block_on(open)?);
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        bail!("the benchmark has gone away");
    }
    let report = runtime.block_on(drive(load, round))?;
    writeln!(out, "{}", serde_json::to_string(&report)?)?;
    out.flush()?;
    Ok(())
}

/// How many effects a task ends, on average, while it is measured. Many tasks in one queue go in step, so that a short look at a slow
/// system sees all of a turn or nothing of it.
const TURNS: u64 = 4;
/// By so much a slow system may prolong its round.
const PROLONGED: Duration = Duration::from_secs(30);
/// Between two looks at what has ended.
const LOOK: Duration = Duration::from_millis(5);

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

#[derive(Default)]
struct Seen {
    done: u64,
    claims: Vec<u64>,
    settles: Vec<u64>,
}

async fn drive<L: Load>(load: Arc<L>, round: &Round) -> Result<Report> {
    let (phase, ended) = (Arc::new(AtomicU8::new(WARM_UP)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..round.tasks)
        .map(|task| {
            let (load, phase, ended) = (load.clone(), phase.clone(), ended.clone());
            tokio::spawn(async move {
                let seen = one_after_the_other(&*load, task, &phase, &ended).await;
                // One that fails ends the round: its figures would be those of fewer tasks.
                if seen.is_err() {
                    phase.store(STOP, Ordering::Relaxed);
                }
                seen
            })
        })
        .collect();
    let turn = round.tasks as u64;
    let wait = async |least_ms: u64, effects: u64| {
        let (begun, least) = (Instant::now(), Duration::from_millis(least_ms));
        tokio::time::sleep(least).await;
        while ended.load(Ordering::Relaxed) < effects
            && phase.load(Ordering::Relaxed) != STOP
            && begun.elapsed() < least + PROLONGED
        {
            tokio::time::sleep(LOOK).await;
        }
    };
    wait(round.warm_up_ms, turn).await;
    let (cpu, begun) = (cpu_us(), Instant::now());
    let _ = phase.compare_exchange(WARM_UP, MEASURE, Ordering::Relaxed, Ordering::Relaxed);
    wait(round.measure_ms, ended.load(Ordering::Relaxed) + TURNS * turn).await;
    let (lasted, cpu_after) = (begun.elapsed(), cpu_us());
    phase.store(STOP, Ordering::Relaxed);

    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await.context("a task of the load has died")??;
        all.done += seen.done;
        all.claims.extend(seen.claims);
        all.settles.extend(seen.settles);
    }
    load.close().await?;
    Ok(Report {
        effects: load.effects(all.done),
        done: all.done,
        measured: u64::try_from(all.claims.len())?,
        seconds: lasted.as_secs_f64(),
        claim: quantiles(&mut all.claims),
        settle: quantiles(&mut all.settles),
        cpu_us: cpu.zip(cpu_after).map(|(before, after)| after.saturating_sub(before)),
    })
}

async fn one_after_the_other<L: Load>(
    load: &L,
    task: usize,
    phase: &AtomicU8,
    ended: &AtomicU64,
) -> Result<Seen> {
    let mut seen = Seen::default();
    while phase.load(Ordering::Relaxed) != STOP {
        let timing = load.one(task, new_id()).await?;
        seen.done += 1;
        ended.fetch_add(1, Ordering::Relaxed);
        if phase.load(Ordering::Relaxed) == MEASURE {
            seen.claims.push(nanos(timing.claim));
            seen.settles.extend(timing.settle.map(nanos));
        }
    }
    Ok(seen)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A random id in the form of a UUID, as producers make them.
pub fn new_id() -> String {
    let hex = format!("{:032x}", fastrand::u128(..));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn quantiles(nanos: &mut [u64]) -> Option<Quantiles> {
    if nanos.is_empty() {
        return None;
    }
    nanos.sort_unstable();
    let last = nanos.len() - 1;
    let at = |percent: usize| nanos[last * percent / 100] as f64 / 1e6;
    Some(Quantiles { p50_ms: at(50), p99_ms: at(99) })
}

/// User and system time of this process so far, in steps of 10 ms (Linux counts a hundred ticks a second for everybody).
fn cpu_us() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in the second field may hold spaces; it ends with the last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * 10_000)
}
