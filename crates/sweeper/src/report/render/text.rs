//! For terminals, mail and pipes: 100 columns, no colour, nothing that needs a cursor.

mod layout;
mod table;

use super::page::{Body, Card, More, Page, Run, Runs, Section, state_word};
use crate::report::words::count;
use layout::{WIDTH, wrapped};

pub(super) fn text(page: &Page) -> String {
    let mut out = Out(String::new());
    out.line("RECONCILIATION REPORT");
    out.line(&"=".repeat(WIDTH));
    for (label, value) in &page.facts {
        out.field("", 12, label, &plain(value));
    }
    out.blank();
    for line in wrapped(&page.verdict, WIDTH - 4) {
        out.line(&format!("  {line}"));
    }
    for warning in &page.warnings {
        out.blank();
        out.field("", 10, "WARNING", warning);
    }
    for section in &page.sections {
        out.section(section);
    }
    out.0
}

struct Out(String);

impl Out {
    fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }

    fn section(&mut self, section: &Section) {
        self.blank();
        let title = section.title.to_uppercase();
        self.line(&title);
        self.line(&"-".repeat(title.chars().count()));
        for line in wrapped(section.note, WIDTH) {
            self.line(&line);
        }
        match &section.body {
            Body::Nothing(words) => self.line(&format!("  {words}")),
            Body::Table(table) => {
                self.blank();
                for line in table::lines(table) {
                    self.line(&line);
                }
                self.more(table.more);
            }
            Body::Cards(cards, more) => {
                for (at, card) in cards.iter().enumerate() {
                    self.card(at + 1, card);
                }
                self.more(*more);
            }
            Body::Terms(terms) => {
                for (word, meaning) in terms {
                    self.field("  ", 38, word, meaning);
                }
            }
        }
    }

    fn more(&mut self, more: More) {
        if more.0 > 0 {
            self.line(&format!("  … and {} more: see the JSON form of this report.", count(more.0)));
        }
    }

    fn card(&mut self, n: usize, card: &Card) {
        self.blank();
        self.field("", 4, &format!("{n}."), &format!("{} | {}", card.amount, plain(&card.title)));
        for (label, value) in &card.facts {
            self.field("    ", 17, label, &plain(value));
        }
        for ruled in &card.rulings {
            self.field(
                "    ",
                17,
                &format!("ruling {}", ruled.ruling),
                &format!("{}\n{}", ruled.when, ruled.effect),
            );
            if let Some(command) = &ruled.command {
                for line in layout::shell_wrapped(command, WIDTH - 10) {
                    self.line(&format!("        {line}"));
                }
            }
        }
    }

    /// A label, and its value beside it, wrapped.
    fn field(&mut self, indent: &str, label_width: usize, label: &str, value: &str) {
        let room = WIDTH - indent.len() - label_width;
        for (at, line) in value.split('\n').flat_map(|line| wrapped(line, room)).enumerate() {
            let label = if at == 0 { label } else { "" };
            self.line(&format!("{indent}{label:<label_width$}{line}"));
        }
    }
}

/// Runs as text; a break is a new line.
fn plain(runs: &Runs) -> String {
    let mut out = String::new();
    for run in runs {
        match run {
            Run::Ours(text) | Run::Strong(text) | Run::Prose(text) | Run::Id(text) => out.push_str(text),
            Run::State(state) => out.push_str(&state_word(*state)),
            Run::Contradicted => out.push_str("CONTRADICTED"),
            Run::Break => out.push('\n'),
        }
    }
    out
}
