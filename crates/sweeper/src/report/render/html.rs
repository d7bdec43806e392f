//! One self-contained HTML file: no script, no link to anything, for the screen and for paper.

mod picture;
mod writer;

use earmark_claim::State;

use super::page::{Body, Card, More, Page, Run, Runs, Section, Table, state_word};
use crate::report::model::Report;
use crate::report::words::count;
use writer::Html;

/// Nothing may be loaded or run, whatever a row holds. `style-src` is for the one style sheet inside.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// An id up to this long is not broken; a longer one may be, anywhere.
const UNBROKEN: usize = 24;
const STYLE: &str = include_str!("html/style.css");

pub(super) fn html(report: &Report, page: &Page) -> String {
    let mut h = Html::document();
    head(&mut h, report);
    h.open("body", &[]);
    h.open("header", &[]);
    h.element("h1", &[], "Reconciliation report");
    h.open("dl", &[("class", "identity")]);
    for (label, value) in &page.facts {
        h.open("div", &[]);
        h.element("dt", &[], label);
        h.open("dd", &[]);
        runs(&mut h, value);
        h.close("dd");
        h.close("div");
    }
    h.close("dl");
    h.close("header");
    h.open("main", &[]);
    verdict(&mut h, report, page);
    picture::pictures(&mut h, report);
    for part in &page.sections {
        section(&mut h, part);
    }
    h.close("main");
    h.close("body");
    h.close("html");
    h.finish()
}

fn head(h: &mut Html, report: &Report) {
    let i = &report.identity;
    h.open("html", &[("lang", "en")]);
    h.open("head", &[]);
    h.void("meta", &[("charset", "utf-8")]);
    h.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    h.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    h.void("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    h.element("title", &[], &format!("Reconciliation report {} to {}", i.from.text(), i.to.text()));
    h.style(STYLE);
    // Every printed page says which report it belongs to. Our own digits only.
    h.style(&format!(
        "@page {{ @bottom-left {{ content: \"Reconciliation report, as of {}\" }} }}",
        i.as_of.text()
    ));
    h.close("head");
}

fn verdict(h: &mut Html, report: &Report, page: &Page) {
    let class = if report.verdict.need_a_person.claims > 0 { "verdict act" } else { "verdict" };
    h.open("section", &[("class", class)]);
    h.open("p", &[("class", "sentence")]);
    words(h, &page.verdict);
    h.close("p");
    h.open("dl", &[("class", "figures")]);
    for (label, values) in &page.figures {
        h.open("div", &[]);
        h.element("dt", &[], label);
        for (at, value) in values.iter().enumerate() {
            h.element("dd", &[("class", if at == 0 { "figure" } else { "n" })], value);
        }
        h.close("div");
    }
    h.close("dl");
    h.close("section");
    for warning in &page.warnings {
        h.open("p", &[("class", "warning")]);
        h.element("strong", &[], "▲ Warning. ");
        h.text(warning);
        h.close("p");
    }
}

fn section(h: &mut Html, section: &Section) {
    h.open("section", &[("id", section.id)]);
    h.element("h2", &[], &section.title);
    if !section.note.is_empty() {
        h.element("p", &[("class", "note")], section.note);
    }
    match &section.body {
        Body::Nothing(words) => h.element("p", &[("class", "nothing")], words),
        Body::Table(one) => {
            table(h, one);
            more(h, one.more);
        }
        Body::Cards(cards, rest) => {
            for (at, one) in cards.iter().enumerate() {
                card(h, at + 1, one);
            }
            more(h, *rest);
        }
        Body::Terms(terms) => {
            h.open("dl", &[("class", "terms")]);
            for (word, meaning) in terms {
                h.open("div", &[]);
                h.element("dt", &[], word);
                h.element("dd", &[], meaning);
                h.close("div");
            }
            h.close("dl");
        }
    }
    h.close("section");
}

fn table(h: &mut Html, table: &Table) {
    let class = |at: usize| if table.heads.get(at).is_some_and(|head| head.number) { "n" } else { "" };
    h.open("table", &[]);
    h.open("thead", &[]);
    h.open("tr", &[]);
    for (at, head) in table.heads.iter().enumerate() {
        h.element("th", &[("scope", "col"), ("class", class(at))], head.text);
    }
    h.close("tr");
    h.close("thead");
    h.open("tbody", &[]);
    for (at, row) in table.rows.iter().enumerate() {
        h.open("tr", &[("class", if at == 0 && table.total_first { "total" } else { "" })]);
        for (at, cell) in row.iter().enumerate() {
            h.open("td", &[("class", class(at))]);
            runs(h, cell);
            h.close("td");
        }
        h.close("tr");
    }
    h.close("tbody");
    h.close("table");
}

fn more(h: &mut Html, more: More) {
    if more.0 > 0 {
        let words = format!("… and {} more: see the JSON form of this report.", count(more.0));
        h.element("p", &[("class", "more")], &words);
    }
}

fn card(h: &mut Html, n: usize, card: &Card) {
    h.open("article", &[]);
    h.open("h3", &[]);
    h.element("span", &[("class", "nth")], &n.to_string());
    h.open("span", &[("class", "what"), ("dir", "auto")]);
    runs(h, &card.title);
    h.close("span");
    h.element("span", &[("class", "amount")], &card.amount);
    h.close("h3");
    h.open("dl", &[("class", "facts")]);
    for (label, value) in &card.facts {
        h.element("dt", &[], label);
        h.open("dd", &[]);
        runs(h, value);
        h.close("dd");
    }
    h.close("dl");
    h.open("table", &[("class", "rulings")]);
    h.open("tbody", &[]);
    for ruled in &card.rulings {
        h.open("tr", &[]);
        h.element("th", &[("scope", "row")], &ruled.ruling.replace('-', " "));
        h.open("td", &[]);
        runs(h, &vec![Run::Strong(ruled.when.clone()), Run::Ours(format!(". {}", ruled.effect))]);
        if let Some(line) = &ruled.command {
            command(h, line);
        }
        h.close("td");
        h.close("tr");
    }
    h.close("tbody");
    h.close("table");
    h.close("article");
}

fn runs(h: &mut Html, runs: &Runs) {
    for run in runs {
        match run {
            Run::Ours(text) => words(h, text),
            Run::Strong(text) => {
                h.open("strong", &[]);
                words(h, text);
                h.close("strong");
            }
            // Isolated, so that a right-to-left text does not reorder its neighbours.
            Run::Prose(text) => h.element("bdi", &[], text),
            Run::Id(text) => {
                let class = if text.chars().count() <= UNBROKEN { "id one" } else { "id" };
                h.element("bdi", &[("class", class)], text);
            }
            Run::State(state) => mark(h, shape(*state), &state_word(*state), "state"),
            Run::Contradicted => mark(h, "▲", "contradicted", "state act"),
            Run::Break => h.void("br", &[]),
        }
    }
}

/// Our own words. A moment or an amount in them stays on one line.
fn words(h: &mut Html, text: &str) {
    let mut before = "";
    for (at, word) in text.split(' ').enumerate() {
        // `EUR 620.00` stays together, too.
        let code = before.len() == 3 && before.chars().all(|c| c.is_ascii_uppercase());
        if at > 0 {
            h.text(if code && word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
                "\u{a0}"
            } else {
                " "
            });
        }
        before = word.trim_start_matches('(');
        // `(2026-11-03T07:05:01Z,` and the like.
        let moment = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 'Z');
        let bare = word.trim_matches(|c| !moment(c));
        if bare.len() == "2026-11-03T07:05:01Z".len() && bare.ends_with('Z') && bare.chars().all(moment) {
            let (ahead, after) = word.split_once(bare).unwrap_or_default();
            h.text(ahead);
            h.element("time", &[], bare);
            h.text(after);
        } else {
            h.text(word);
        }
    }
}

/// A command, broken between its arguments only; copied, it is one line.
fn command(h: &mut Html, command: &str) {
    h.open("code", &[]);
    for (at, argument) in command.split(" --").enumerate() {
        if at > 0 {
            h.text(" ");
        }
        h.open("span", &[]);
        h.text(if at > 0 { "--" } else { "" });
        h.text(argument);
        h.close("span");
    }
    h.close("code");
}

/// A shape and a word: never a colour alone.
fn mark(h: &mut Html, shape: &str, word: &str, class: &'static str) {
    h.open("span", &[("class", class)]);
    h.element("span", &[("aria-hidden", "true")], shape);
    h.text(" ");
    h.text(word);
    h.close("span");
}

fn shape(state: State) -> &'static str {
    match state {
        State::Held => "○",
        State::InFlight => "▷",
        State::Retryable => "↻",
        State::InDoubt => "◇",
        State::Escalated => "■",
        State::Confirmed => "●",
        State::Abandoned => "×",
    }
}
