//! What stands where, and what is counted once.

use super::*;

fn ids(report: &Report) -> Vec<&str> {
    report.needs_a_person.iter().map(|item| item.name.message_id.raw()).collect()
}

#[test]
fn the_worklist_is_sorted_by_deadline_and_not_by_age() {
    let started =
        |id: &str, minutes| ClaimRow { window_from: Some(ago(minutes)), created_at: ago(minutes), ..row(id) };
    let report = built(
        vec![
            ClaimRow { repeat: RepeatSafety::Never, ..started("oldest, no deadline", 9000) },
            started("window over", 3000),
            started("window ends last", 60),
            started("window ends first", 1200),
            ClaimRow {
                send_by: Some(AS_OF.plus(Duration::from_secs(60))),
                ..started("send-by in a minute", 10)
            },
            ClaimRow { contradicted: true, ..started("contradicted", 1) },
        ],
        vec![],
    );
    assert_eq!(
        ids(&report),
        [
            "contradicted",
            "send-by in a minute",
            "window ends first",
            "window ends last",
            "oldest, no deadline",
            "window over",
        ]
    );
    assert_eq!(report.verdict.next_deadline, report.needs_a_person[1].deadline.map(|d| d.at));
    assert_eq!(report.verdict.oldest_age_secs, Some(9000 * 60));
}

#[test]
fn the_order_does_not_depend_on_the_order_of_the_rows() {
    let mut rows: Vec<_> = (0..9).map(|n| row(&format!("m-{n}"))).collect();
    let forth = built(rows.clone(), vec![]);
    rows.reverse();
    assert_eq!(ids(&forth), ids(&built(rows, vec![])));
}

#[test]
fn a_storm_is_one_cause() {
    let mut rows: Vec<_> =
        (0..1000).map(|n| ClaimRow { amount: amount("EUR", 250), ..row(&format!("m-{n}")) }).collect();
    rows.push(ClaimRow { error_class: Some("operator".into()), ..row("other") });
    rows.push(waiting("machine", State::InDoubt, AS_OF));
    let report = built(rows, vec![]);
    assert_eq!(report.causes.len(), 2);
    assert_eq!(report.causes[0].tally.text(), "EUR 2,500.00");
    assert_eq!((report.causes[0].tally.claims, report.causes[1].tally.claims), (1000, 1));
}

#[test]
fn every_claim_is_counted_once_in_every_sum() {
    let rows = vec![
        ClaimRow { amount: amount("EUR", 62_000), ..row("a") },
        waiting("b", State::InDoubt, AS_OF),
        waiting("c", State::Retryable, ago(90)),
        waiting("d", State::InFlight, ago(1)),
        waiting("e", State::InFlight, AS_OF.plus(hours(1))),
        waiting("f", State::Held, AS_OF.plus(hours(1))),
        confirmed("g", ClosedBy::Answer, 5),
        ClaimRow { fence: 2, ..confirmed("h", ClosedBy::Answer, 5) },
        ClaimRow { state: State::Abandoned, ..confirmed("i", ClosedBy::Refused, 5) },
        confirmed("closed before the window", ClosedBy::Answer, 25 * 60),
    ];
    let report = built(rows, vec![]);
    assert_eq!(report.verdict.of, 9);
    assert_eq!(report.outcomes.iter().map(|o| o.all.claims).sum::<u64>(), 9);
    assert_eq!(report.outcomes[0].confirmed.first_attempt, 1);
    assert_eq!(report.outcomes[0].confirmed.after_retries, 1);
    let waiting: u64 = report.waiting.iter().map(|w| w.tally.claims).sum();
    let aged: u64 = report.ageing.iter().map(|row| row.total.claims).sum();
    assert_eq!((waiting, aged), (5, 6));
    assert_eq!(report.roll_forward.all.closing.claims, 6);
    // In doubt: escalated with doubt, in doubt, and in flight past its lease; not the one that is believed.
    assert_eq!(report.verdict.in_doubt.claims, 3);
    assert_eq!(report.no_handler.iter().map(|n| n.tally.claims).sum::<u64>(), 1, "due 90 minutes ago");
    assert_eq!(
        report.verdict.sentence,
        "1 of 9 claims needs a person; in doubt: EUR 620.00 and 2 without an amount; it is 1 h old; \
         the next deadline is 2026-11-04T05:05:01Z."
    );
}

#[test]
fn a_quiet_day_says_so() {
    let report = built(vec![confirmed("m", ClosedBy::Answer, 5)], vec![]);
    assert_eq!(report.verdict.sentence, "No claim of 1 needs a person; nothing is in doubt.");
    assert!(report.faults.is_empty());
    let empty = built(vec![], vec![]);
    assert_eq!(empty.verdict.sentence, "No claim of 0 needs a person; nothing is in doubt.");
}

#[test]
fn mismatches_of_open_claims_stay_until_they_close() {
    let (open, closed) = (row("open"), confirmed("closed", ClosedBy::Answer, 5));
    let mismatch = |c: &ClaimRow, minutes, other: &str| EventRow {
        detail: EventDetail { fingerprint: Some(other.into()), ..EventDetail::default() },
        ..event(c, Verb::Mismatch, ago(minutes), c.state, c.state)
    };
    let events = vec![
        mismatch(&open, 3000, "aa"),
        mismatch(&open, 10, "aa"),
        mismatch(&open, 9, "bb"),
        mismatch(&closed, 3000, "aa"),
        mismatch(&closed, 8, "aa"),
        mismatch(&row("not read"), 8, "aa"),
    ];
    let report = built(vec![open, closed], events);
    let lines: Vec<_> = report
        .mismatches
        .iter()
        .map(|m| (m.name.message_id.raw(), m.other.as_ref().unwrap().raw(), m.count))
        .collect();
    assert_eq!(lines, [("closed", "aa", 1), ("not read", "aa", 1), ("open", "aa", 2), ("open", "bb", 1)]);
    assert_eq!(report.mismatches[0].on_file.as_deref(), Some("ab".repeat(32).as_str()));
    assert_eq!(report.mismatches[1].on_file, None);
}

#[test]
fn decisions_are_those_of_people() {
    let c = row("m");
    let person = |e: EventRow| EventRow { actor: Some("k. lang".into()), ..e };
    let events = vec![
        event(&c, Verb::Escalate, ago(9), State::InDoubt, State::Escalated),
        person(event(&c, Verb::Escalate, ago(8), State::InDoubt, State::Escalated)),
        person(event(&c, Verb::RuleNotDone, ago(7), State::Escalated, State::Abandoned)),
        person(event(&c, Verb::Evidence, ago(6), State::Abandoned, State::Abandoned)),
        EventRow {
            detail: EventDetail { closed_at: Some(ago(7)), ..EventDetail::default() },
            ..event(&c, Verb::Contradict, ago(5), State::Abandoned, State::Escalated)
        },
        event(&c, Verb::RuleDone, ago(4), State::Escalated, State::Confirmed),
        person(event(&c, Verb::RuleDone, ago(3000), State::Escalated, State::Confirmed)),
    ];
    let report = built(vec![c], events);
    let lines: Vec<_> = report
        .decisions
        .iter()
        .map(|d| (d.what.raw(), d.who.as_ref().map(|w| w.raw()), d.contradicted_since))
        .collect();
    assert_eq!(
        lines,
        [
            ("escalate", Some("k. lang"), true),
            ("rule_not_done", Some("k. lang"), true),
            ("rule_done", None, false)
        ]
    );
    assert!(report.faults.iter().any(|f| f.code == "decision_unsigned"));
}

#[test]
fn evidence_for_what_we_never_sent_is_a_notice_and_other_evidence_is_none() {
    let (held, tried) = (confirmed("held", ClosedBy::Evidence, 5), confirmed("tried", ClosedBy::Evidence, 5));
    let done = |c: &ClaimRow, from| event(c, Verb::EvidenceDone, ago(5), from, State::Confirmed);
    let events = vec![done(&held, State::Held), done(&tried, State::InDoubt)];
    let report = built(vec![held, tried], events);
    let ids: Vec<_> = report.done_unsent.iter().map(|d| d.name.message_id.raw()).collect();
    assert_eq!(ids, ["held"]);
}

#[test]
fn an_orphan_is_shown_in_one_report_only() {
    let orphan = adversarial::data().orphans.remove(0);
    let at = |at| super::super::input::OrphanRow { at, ..orphan.clone() };
    let day = hours(24);
    let rows = vec![at(ago(0).minus(day).minus(day)), at(ago(24 * 60)), at(ago(1))];
    let shown = |window: Window| {
        let input = Input { orphans: rows.clone(), window, ..input(vec![], vec![]) };
        crate::report::build(&input, &Options::default()).orphans.len()
    };
    let today = Window { from: ago(24 * 60), to: AS_OF };
    let yesterday = Window { from: today.from.minus(day), to: today.from };
    assert_eq!((shown(yesterday), shown(today)), (1, 2));
}

#[test]
fn what_is_buried_below_is_said_at_the_top() {
    let text = crate::report::render::text(&crate::report::build(&adversarial::data(), &Options::default()));
    let top = text.split("ROLL-FORWARD").next().unwrap();
    for words in ["allow_non_durable", "currency XQX", "nobody has handled", "may have happened twice"] {
        assert!(top.replace('\n', " ").contains(words) || top.contains(words), "{words}:\n{top}");
    }
}
