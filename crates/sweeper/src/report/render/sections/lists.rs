//! Lists of what does not fit, and of what people did.

use super::{amounts, listed, title};
use crate::report::model::{About, Name, Report};
use crate::report::render::page::{Run, Runs, Section, id, left, lines, number, ours, prose};
use crate::report::untrusted::Untrusted;
use crate::report::words::{Moment, count};

pub(super) fn perhaps_twice(report: &Report) -> Section {
    let heads = vec![left("claim"), left("what"), number("amount"), left("why perhaps twice"), left("times")];
    let body = listed(&report.perhaps_twice, "None.", heads, |p| {
        let why = format!("{} attempts may have acted: {}", count(p.attempts), p.why);
        let closed = p.closed.map(|t| ours(format!("confirmed {}", t.text())));
        let closed_by = p.closed_by.map(|by| ours(format!("by {by}")));
        let window = p.window_end.map(|t| ours(format!("key window ended {}", t.text())));
        let ended = p.last_end.map(|t| ours(format!("newest attempt ended {}", t.text())));
        vec![
            name(&p.name, p.provider_ref.as_ref()),
            what(&p.about),
            money(Some(&p.about)),
            vec![ours(why)],
            lines([window, ended, closed, closed_by].into_iter().flatten()),
        ]
    });
    Section {
        id: "perhaps-twice",
        title: title("Confirmed, perhaps twice", report.perhaps_twice.len()),
        note: "They happened; a second effect cannot be excluded. Look for two lines on the provider's statement.",
        body,
    }
}

pub(super) fn done_unsent(report: &Report) -> Section {
    let heads = vec![left("claim"), left("what"), number("amount"), left("evidence")];
    let body = listed(&report.done_unsent, "None.", heads, |d| {
        let by = d.actor.as_ref().map_or_else(|| ours("by the machine"), id);
        vec![
            name(&d.name, d.provider_ref.as_ref()),
            d.about.as_ref().map_or_else(Runs::new, what),
            money(d.about.as_ref()),
            lines([ours(d.at.text()), by]),
        ]
    });
    Section {
        id: "done-unsent",
        title: title("Done, though nothing was sent by us", report.done_unsent.len()),
        note: "Evidence says that it happened, but no attempt of ours is on file: somebody acted beside Earmark, or the \
               evidence belongs to another claim.",
        body,
    }
}

pub(super) fn no_handler(report: &Report) -> Section {
    let heads = vec![
        left("consumer"),
        left("kind"),
        left("form"),
        left("state"),
        number("claims"),
        number("amount"),
        left("due since"),
    ];
    let body = listed(&report.no_handler, "None: whatever is due was handled in time.", heads, |n| {
        vec![
            vec![id(&n.consumer)],
            vec![id(&n.kind)],
            vec![id(&n.form)],
            vec![Run::State(n.state)],
            vec![ours(count(n.tally.claims))],
            amounts(&n.tally),
            vec![ours(n.due_since.text())],
        ]
    });
    Section {
        id: "no-handler",
        title: title("No handler", report.no_handler.len()),
        note: "Due for long, and nobody has handled them: is a sweeper running, and does one know this kind?",
        body,
    }
}

pub(super) fn mismatches(report: &Report) -> Section {
    let heads =
        vec![left("claim"), left("state"), number("times"), left("first and last"), left("fingerprints")];
    let body = listed(&report.mismatches, "None.", heads, |m| {
        let on_file = m.on_file.clone().map_or_else(|| ours("on file: not read"), Run::Id);
        let other = m.other.as_ref().map_or_else(|| ours("other: not on file"), id);
        vec![
            name(&m.name, None),
            vec![Run::State(m.state)],
            vec![ours(count(m.count))],
            lines([ours(m.first.text()), ours(m.last.text())]),
            lines([ours("on file"), on_file, ours("asked for"), other]),
        ]
    });
    Section {
        id: "mismatches",
        title: title("Mismatches", report.mismatches.len()),
        note: "The same key came with another request. Nothing was called and nothing moved; the producer uses one id for two \
               things.",
        body,
    }
}

pub(super) fn orphans(report: &Report) -> Section {
    let heads =
        vec![left("came in"), left("source"), left("finding"), left("what it names"), left("adopted")];
    let body = listed(&report.orphans, "None.", heads, |o| {
        let labelled = |label: &str, text: &Option<Untrusted>| {
            text.as_ref().map(|text| [ours(format!("{label} ")), id(text)])
        };
        let key = o.key.clone().map(|key| [ours("key "), Run::Id(key)]);
        let parts = [
            labelled("provider's id", &o.provider_ref),
            labelled("reference", &o.reference),
            labelled("idempotency key", &o.idempotency_key),
            key,
            Some([ours("orphan "), id(&o.id)]),
        ];
        let mut names = Runs::new();
        for part in parts.into_iter().flatten() {
            if !names.is_empty() {
                names.push(Run::Break);
            }
            names.extend(part);
        }
        vec![
            vec![ours(o.at.text())],
            vec![id(&o.source)],
            vec![id(&o.finding)],
            names,
            vec![ours(o.adopted.map_or("no".into(), Moment::text))],
        ]
    });
    Section {
        id: "orphans",
        title: title("Orphans", report.orphans.len()),
        note: "Evidence of which no claim is known. Each is shown in one report only: where did the effect come from?",
        body,
    }
}

pub(super) fn decisions(report: &Report) -> Section {
    let heads =
        vec![left("when"), left("who"), left("claim"), number("amount"), left("what"), left("reason")];
    let body = listed(&report.decisions, "Nobody decided anything in the window.", heads, |d| {
        let mut what = vec![id(&d.what), Run::Break, Run::State(d.before), ours(" → "), Run::State(d.after)];
        if d.contradicted_since {
            what.extend([Run::Break, Run::Strong("contradicted since".into())]);
        }
        vec![
            vec![ours(d.at.text())],
            vec![d.who.as_ref().map_or_else(|| Run::Strong("not on file".into()), id)],
            name(&d.name, None),
            vec![ours(d.amount.as_ref().map_or("–".into(), |m| m.text()))],
            what,
            vec![d.reason.as_ref().map_or_else(|| ours("none on file"), prose)],
        ]
    });
    Section {
        id: "decisions",
        title: title("Decisions of people", report.decisions.len()),
        note: "What people decided in the window, on which claim, and why.",
        body,
    }
}

fn name(name: &Name, provider_ref: Option<&Untrusted>) -> Runs {
    let reference = name.reference.as_ref().map_or_else(|| ours("not read"), id);
    let key = Run::Id(name.shown.clone());
    let mut runs = lines([reference, key]);
    if let Some(provider_ref) = provider_ref {
        runs.extend([Run::Break, ours("provider's id "), id(provider_ref)]);
    }
    runs
}

fn what(about: &About) -> Runs {
    match &about.summary {
        Some(summary) => lines([prose(summary), id(&about.kind)]),
        None => vec![id(&about.kind)],
    }
}

fn money(about: Option<&About>) -> Runs {
    let amount = about.and_then(|about| about.amount.as_ref());
    vec![ours(amount.map_or("–".into(), |m| m.text()))]
}
