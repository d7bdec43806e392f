//! `docs/states.md` shows the machine as it is: its diagram and its table of moves are made from `EDGES`.
//! `UPDATE_DOCS=1 cargo test -p earmark-claim` writes them anew.

use std::fmt::Write;

use crate::state::{EDGES, State, Verb};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md");

/// When the move is made, in the words of the page.
const fn when(verb: Verb) -> &'static str {
    match verb {
        Verb::Begin => "the caller's transaction has committed, or the sweep finds it due",
        Verb::Take => "it is due; age and attempts (or a granted repeat) are left",
        Verb::Redrive => {
            "a repeat is known to be harmless: the effect is natural, or its key window is open at sending"
        }
        Verb::Confirm => "the provider answered our own call: done",
        Verb::Refuse => "the provider refused for good, and its answer speaks for every attempt",
        Verb::RefusedInDoubt => "the provider refused this attempt; an earlier one may have acted",
        Verb::NotSent => {
            "provably nothing happened in this attempt, and no earlier one is in doubt or a granted repeat is left"
        }
        Verb::NotSentInDoubt => "provably nothing happened in this attempt; an earlier one may have acted",
        Verb::Unknown => "it may have happened: a timeout, a broken connection, an answer that does not tell",
        Verb::LeaseOver => "the lease ended and nobody had settled",
        Verb::FoundDone => "a probe found it done",
        Verb::FoundRefused => "a probe found it refused for good, in every attempt",
        Verb::FoundNotDone => "a probe found nothing, and that is proof",
        Verb::EvidenceDone => "a webhook, a statement line, a late answer, a person: it was done",
        Verb::EvidenceRefused => "evidence of a final refusal of every attempt",
        Verb::Contradict => "two different provider ids, or evidence that an abandoned claim was done",
        Verb::Expire => "send-by has passed",
        Verb::Cancel => "its owner called it off",
        Verb::Escalate => "no rule may decide, or a person took it out of the sweep's hands",
        Verb::RuleDone => "a person ruled: it happened",
        Verb::RuleNotDone => "a person ruled: it did not happen, and is given up",
        Verb::RuleRepeat => "a person ruled: once more",
        Verb::LateAnswer => "the answer of a holder that was fenced out, or that came after another one",
        Verb::Look => "a look that decided nothing",
        Verb::Evidence => "evidence that decided nothing",
        Verb::Mismatch => "the same key came with another request",
        Verb::ReceiptKept => {
            "the receipt of a confirmed claim, before a contradiction lets another take its place"
        }
    }
}

fn diagram() -> String {
    let mut out = String::from("```mermaid\nstateDiagram-v2\n    [*] --> held\n    [*] --> in_flight\n");
    let mut pairs: Vec<(State, State, Vec<&str>)> = Vec::new();
    for &(verb, from, to) in EDGES {
        match pairs.iter_mut().find(|(f, t, _)| (*f, *t) == (from, to)) {
            Some((.., verbs)) => verbs.push(verb.as_str()),
            None => pairs.push((from, to, vec![verb.as_str()])),
        }
    }
    pairs.sort_by_key(|(from, to, _)| (*from, *to));
    for (from, to, verbs) in pairs {
        let _ = writeln!(out, "    {from} --> {to}: {}", verbs.join(", "));
    }
    out.push_str("    confirmed --> [*]\n    abandoned --> [*]\n```\n");
    out
}

fn moves() -> String {
    let mut out = String::from("| move | from → to | when |\n| --- | --- | --- |\n");
    for &verb in Verb::ALL {
        let edges: Vec<_> =
            EDGES.iter().filter(|(v, ..)| *v == verb).map(|(_, from, to)| format!("{from} → {to}")).collect();
        let edges = if edges.is_empty() { "moves nothing, is kept".to_owned() } else { edges.join("<br>") };
        let _ = writeln!(out, "| `{}` | {edges} | {} |", verb.as_str(), when(verb));
    }
    out
}

/// The page with the part between the marks of that name replaced.
fn replaced(page: &str, name: &str, made: &str) -> String {
    let (open, close) = (format!("<!-- made from the code: {name} -->\n"), format!("<!-- end of {name} -->"));
    let parts = page.split_once(&open).and_then(|(before, rest)| Some((before, rest.split_once(&close)?.1)));
    let Some((before, after)) = parts else { panic!("docs/states.md has lost its marks of {name}") };
    format!("{before}{open}{made}{close}{after}")
}

#[test]
fn the_page_of_the_states_shows_the_machine_as_it_is() {
    let page = std::fs::read_to_string(PAGE).unwrap_or_else(|e| panic!("{PAGE}: {e}"));
    let made = replaced(&replaced(&page, "diagram", &diagram()), "moves", &moves());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &made).unwrap_or_else(|e| panic!("{PAGE}: {e}"));
        return;
    }
    assert!(
        page == made,
        "docs/states.md is behind the code: UPDATE_DOCS=1 cargo test -p earmark-claim writes it"
    );
    for state in State::ALL {
        assert!(page.contains(&format!("\n### {state}\n")), "the page does not explain {state}");
    }
}
