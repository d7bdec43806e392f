//! What a person must decide, and why so many of it.

use super::{LIST_SHOWN_MAX, amounts, listed, more, title};
use crate::report::model::{DeadlineClock, Item, Report};
use crate::report::render::page::{
    Body, Card, Ruled, Run, Runs, Section, id, left, lines, number, ours, prose,
};
use crate::report::words::{count, span};

pub(super) fn causes(report: &Report) -> Section {
    let heads = vec![
        left("downstream"),
        left("kind"),
        left("last failure"),
        number("claims"),
        number("amount"),
        left("oldest and newest"),
    ];
    let body = listed(&report.causes, "Nothing was handed to a person.", heads, |cause| {
        let mut claims = vec![ours(count(cause.tally.claims))];
        if cause.contradicted > 0 {
            claims.push(Run::Break);
            claims.push(ours(format!("{} contradicted", count(cause.contradicted))));
        }
        vec![
            vec![id(&cause.downstream)],
            vec![id(&cause.kind)],
            vec![cause.error_class.as_ref().map_or_else(|| ours("none on file"), id)],
            claims,
            amounts(&cause.tally),
            lines([ours(cause.oldest.text()), ours(cause.newest.text())]),
        ]
    });
    Section {
        id: "causes",
        title: title("Causes", report.causes.len()),
        note: "Why claims were handed to a person: one line for what failed in one way at one provider. Mend the cause \
               first; then decide its claims.",
        body,
    }
}

pub(super) fn needs_a_person(report: &Report) -> Section {
    let items = &report.needs_a_person;
    let body = if items.is_empty() {
        Body::Nothing("No claim needs a person.")
    } else {
        Body::Cards(items.iter().take(LIST_SHOWN_MAX).map(card).collect(), more(items))
    };
    Section {
        id: "needs-a-person",
        title: title("Needs a person", items.len()),
        note: "No rule may decide these. Conflicting evidence first, then by deadline, not by age. A command names the \
               claim as it stood here, and is refused if the claim has moved since.",
        body,
    }
}

fn card(item: &Item) -> Card {
    let about = &item.about;
    let title = match &about.summary {
        Some(summary) => vec![prose(summary)],
        None => vec![id(&about.kind)],
    };
    let status = if item.contradicted { Run::Contradicted } else { Run::State(item.state) };
    let mut facts: Vec<(&'static str, Runs)> = vec![
        ("reference", vec![item.name.reference.as_ref().map_or_else(|| ours("–"), id)]),
        ("status", vec![status, ours(format!(". {}", item.situation))]),
        ("deadline", vec![deadline(item)]),
        ("a repeat", vec![ours(item.repeat.words.clone())]),
        ("age", vec![ours(format!("{}, since {}", age(item), item.age_from.text()))]),
        ("newest attempt", newest_attempt(item)),
        ("provider's id", provider_ids(item)),
        ("effect", vec![id(&about.kind), ours(" at "), id(&about.downstream)]),
    ];
    if let Some(business_ref) = &about.business_ref {
        facts.push(("your reference", vec![id(business_ref)]));
    }
    facts.push(("key", vec![Run::Id(item.name.shown.clone())]));
    facts.push(("idempotency key", vec![id(&item.idempotency_key)]));
    let rulings = item.rulings.iter().map(|offer| Ruled {
        ruling: offer.ruling,
        when: offer.when.clone(),
        effect: offer.effect.clone(),
        command: offer.command.clone(),
    });
    Card {
        title,
        amount: about.amount.as_ref().map_or("no amount".into(), |m| m.text()),
        facts,
        rulings: rulings.collect(),
    }
}

fn age(item: &Item) -> String {
    span(std::time::Duration::from_secs(item.age_secs))
}

fn deadline(item: &Item) -> Run {
    match item.deadline {
        None => ours("none running"),
        Some(d) => {
            let clock = match d.clock {
                DeadlineClock::RepeatSafe => "until then a repeat is harmless",
                DeadlineClock::SendBy => "after it this must not be sent any more",
            };
            Run::Strong(format!("{} ({clock})", d.at.text()))
        }
    }
}

fn newest_attempt(item: &Item) -> Runs {
    let failure = item.error_class.as_ref().map(|class| [ours(", last failure "), id(class)]);
    let ended = match item.last_end {
        Some(end) => format!("ended {}", end.text()),
        None => "none has ended".into(),
    };
    std::iter::once(ours(ended)).chain(failure.into_iter().flatten()).collect()
}

fn provider_ids(item: &Item) -> Runs {
    match (&item.provider_ref, &item.conflicting_ref) {
        (None, None) => vec![ours("none on file")],
        (Some(one), None) => vec![id(one)],
        (None, Some(other)) => vec![id(other), ours(" (brought by evidence, not on file)")],
        (Some(one), Some(other)) => lines([id(one), id(other)]),
    }
}
