//! What text and HTML have in common: the page before it is laid out. A number or a sentence is worded once.

use earmark_claim::State;

use crate::report::untrusted::Untrusted;

/// A page.
pub(super) struct Page {
    /// Label and value.
    pub(super) facts: Vec<(&'static str, Runs)>,
    /// The verdict.
    pub(super) verdict: String,
    /// The figures that go with it.
    pub(super) figures: Vec<(&'static str, Vec<String>)>,
    /// What the reader must know before anything else.
    pub(super) warnings: Vec<String>,
    pub(super) sections: Vec<Section>,
}

/// A section.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: String,
    /// What it shows and why it matters.
    pub(super) note: &'static str,
    pub(super) body: Body,
}

/// What a section holds.
pub(super) enum Body {
    /// Nothing, in words.
    Nothing(&'static str),
    Table(Table),
    Cards(Vec<Card>, More),
    /// Words and what they mean.
    Terms(Vec<(&'static str, &'static str)>),
}

/// How many more there are than are shown.
#[derive(Clone, Copy)]
pub(super) struct More(pub(super) usize);

/// Rows of cells.
pub(super) struct Table {
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Vec<Runs>>,
    /// The first row is the sum of the others.
    pub(super) total_first: bool,
    pub(super) more: More,
}

/// The head of a column.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) text: &'static str,
    /// Numbers: to the right, never wrapped.
    pub(super) number: bool,
}

/// One claim on which a person must rule.
pub(super) struct Card {
    pub(super) title: Runs,
    pub(super) amount: String,
    pub(super) facts: Vec<(&'static str, Runs)>,
    pub(super) rulings: Vec<Ruled>,
}

/// One ruling that may be made.
pub(super) struct Ruled {
    pub(super) ruling: &'static str,
    pub(super) when: String,
    pub(super) effect: String,
    pub(super) command: Option<String>,
}

/// A piece of text.
#[derive(Clone)]
pub(super) enum Run {
    /// Our own words.
    Ours(String),
    /// Our own words that matter.
    Strong(String),
    /// Somebody else's sentence, shown as prose.
    Prose(String),
    /// An id, shown exactly.
    Id(String),
    /// A state, as a word and a shape.
    State(State),
    /// Escalated, and its evidence conflicts.
    Contradicted,
    /// A new line.
    Break,
}

/// Pieces of text, one after the other.
pub(super) type Runs = Vec<Run>;

pub(super) fn ours(text: impl Into<String>) -> Run {
    Run::Ours(text.into())
}

pub(super) fn id(text: &Untrusted) -> Run {
    Run::Id(text.exact())
}

pub(super) fn prose(text: &Untrusted) -> Run {
    Run::Prose(text.prose())
}

pub(super) fn left(text: &'static str) -> Head {
    Head { text, number: false }
}

pub(super) fn number(text: &'static str) -> Head {
    Head { text, number: true }
}

/// One run a line.
pub(super) fn lines(runs: impl IntoIterator<Item = Run>) -> Runs {
    let mut out = Runs::new();
    for run in runs {
        if !out.is_empty() {
            out.push(Run::Break);
        }
        out.push(run);
    }
    out
}

/// A state as two words.
pub(super) fn state_word(state: State) -> String {
    crate::report::words::spaced(state.as_str())
}
