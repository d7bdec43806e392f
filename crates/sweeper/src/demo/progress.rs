//! What is seen while it runs: a line a phase on standard error, and a bar where there is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BAR_CELLS: usize = 32;
/// Often enough to be alive.
const REDRAWN_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Progress {
    terminal: bool,
    colour: bool,
    begun: Instant,
    phase: &'static str,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, colour: terminal && colours(), begun: Instant::now(), phase: "", drawn: None }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A line of its own.
    pub(super) fn say(&mut self, text: &str) {
        self.wipe();
        eprintln!("{text}");
    }

    /// A phase begins.
    pub(super) fn phase(&mut self, name: &'static str, text: &str) {
        self.wipe();
        self.phase = name;
        let (bold, off) = if self.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        eprintln!("{:>5.1} s  {bold}{name}{off}: {text}", self.begun.elapsed().as_secs_f32());
    }

    /// How far it is.
    pub(super) fn bar(&mut self, done: usize, total: usize) {
        if !self.terminal || self.drawn.is_some_and(|at| at.elapsed() < REDRAWN_EVERY) {
            return;
        }
        let filled = (done * BAR_CELLS).checked_div(total).unwrap_or(BAR_CELLS).min(BAR_CELLS);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR_CELLS - filled));
        eprint!("\r         {bar} {done} of {total}\x1b[K");
        let _ = std::io::stderr().flush();
        self.drawn = Some(Instant::now());
    }

    fn wipe(&mut self) {
        if self.drawn.take().is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

/// <https://no-color.org>: set and not empty means none.
pub(super) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
