//! Until when, from when, and whether perhaps twice.

use super::*;
use crate::report::clocks::{perhaps_twice, repeat};
use crate::report::model::RepeatVerdict;

const MARGIN: Duration = Duration::from_secs(1);

#[test]
fn perhaps_twice_needs_doubt_attempts_and_no_cover() {
    let keyed = RepeatSafety::Keyed { window: hours(24) };
    let inside = Some(ago(60));
    let outside = Some(ago(0));
    // The window of a claim first attempted 25 hours ago ended one hour ago.
    let cases = [
        // state, doubt, attempts, repeat, newest end → perhaps twice
        (State::Confirmed, true, 2, RepeatSafety::Never, inside, true),
        (State::Confirmed, true, 2, RepeatSafety::Never, None, true),
        (State::Confirmed, true, 2, keyed, outside, true),
        (State::Confirmed, true, 2, keyed, None, true),
        (State::Confirmed, true, 2, keyed, inside, false),
        (State::Confirmed, true, 2, RepeatSafety::Natural, outside, false),
        (State::Confirmed, true, 1, RepeatSafety::Never, inside, false),
        (State::Confirmed, false, 2, RepeatSafety::Never, inside, false),
        (State::Confirmed, false, 2, keyed, outside, false),
        (State::Abandoned, true, 2, RepeatSafety::Never, inside, false),
        (State::Escalated, true, 2, RepeatSafety::Never, inside, false),
    ];
    for case @ (state, doubt, attempts, repeat, last_end_at, expected) in cases {
        let window_from = Some(ago(25 * 60));
        let c = ClaimRow { state, doubt, attempts, repeat, last_end_at, window_from, ..row("m") };
        assert_eq!(perhaps_twice(&c), expected, "{case:?}");
    }
    let no_start = ClaimRow { window_from: None, attempts: 2, ..confirmed("m", ClosedBy::Answer, 1) };
    assert!(perhaps_twice(&ClaimRow { doubt: true, ..no_start }), "a window without a start covers nothing");
}

#[test]
fn a_repeat_is_judged_by_what_is_declared_and_by_the_clock() {
    let c = row("m");
    // First attempt 60 min ago, window 24 h, horizon 5 min, margin 1 s.
    let judged = repeat(&c, AS_OF, MARGIN);
    assert_eq!(judged.verdict, RepeatVerdict::SafeUntil);
    let until = ago(60).plus(hours(24)).minus(Duration::from_secs(301));
    assert_eq!(judged.until.unwrap().0, until);
    assert_eq!(judged.words, "repeat safe until 2026-11-04T05:05:01Z (22 h 54 min left)");
    // On the moment itself it is too late.
    assert_eq!(repeat(&c, until, MARGIN).verdict, RepeatVerdict::WindowOver);
    let last = Timestamp::from_micros(until.as_micros() - 1);
    assert_eq!(repeat(&c, last, MARGIN).verdict, RepeatVerdict::SafeUntil);
    // The call itself needs room where it lasts longer than a request may take to land.
    let slow = ClaimRow { call_timeout: Duration::from_secs(600), ..c.clone() };
    assert_eq!(
        repeat(&slow, AS_OF, MARGIN).until.unwrap().0,
        ago(60).plus(hours(24)).minus(Duration::from_secs(601))
    );

    let of = |c: ClaimRow| repeat(&c, AS_OF, MARGIN).words;
    assert_eq!(of(ClaimRow { repeat: RepeatSafety::Natural, ..c.clone() }), "a repeat is always harmless");
    assert_eq!(of(ClaimRow { repeat: RepeatSafety::Never, ..c.clone() }), "a repeat may be a second effect");
    assert!(of(ClaimRow { window_from: None, ..c.clone() }).contains("not on file"));
    let first = ClaimRow { doubt: false, repeat: RepeatSafety::Never, ..c.clone() };
    assert_eq!(repeat(&first, AS_OF, MARGIN).verdict, RepeatVerdict::NothingHappened);
    // In doubt without the mark: the newest attempt may have acted.
    let in_doubt = ClaimRow { state: State::InDoubt, ..first };
    assert_eq!(repeat(&in_doubt, AS_OF, MARGIN).verdict, RepeatVerdict::SecondEffect);
}

#[test]
fn not_done_and_repeat_wait_until_nothing_can_land() {
    let offers = |c: ClaimRow| built(vec![c], vec![]).needs_a_person[0].rulings.clone();
    let fresh = ClaimRow { last_end_at: Some(ago(3)), probe_lag: Some(Duration::from_secs(600)), ..row("m") };
    let all = offers(fresh.clone());
    assert_eq!(all.iter().map(|o| o.ruling).collect::<Vec<_>>(), ["done", "not-done", "repeat"]);
    assert_eq!(all[0].when, "at any time");
    assert_eq!(all[0].from, None);
    for offer in &all[1..] {
        assert_eq!(offer.from.unwrap().0, ago(3).plus(Duration::from_secs(300)));
        assert_eq!(offer.from_if_looked.unwrap().0, ago(3).plus(Duration::from_secs(900)));
        assert!(offer.when.starts_with("from 2026-11-03T06:12:03Z; with --looked"), "{}", offer.when);
    }
    assert_eq!(
        all[2].command.as_deref().unwrap(),
        "earmark resolve 7F3K00000000000A --ruling repeat --state escalated --fence 1 --revision 3 \
         --by 'NAME' --reason 'WHY'"
    );
    let undeclared = offers(ClaimRow { landing_horizon: None, ..fresh.clone() });
    assert!(undeclared[1].when.contains("at least 30 s"), "{}", undeclared[1].when);
    assert!(undeclared[1].command.as_deref().unwrap().contains(" --horizon "));
    let never_sent = offers(ClaimRow { last_end_at: None, doubt: false, ..fresh.clone() });
    assert_eq!(never_sent[1].when, "at any time");
    let too_late = offers(ClaimRow { send_by: Some(ago(1)), ..fresh });
    assert_eq!(too_late[2].command, None);
    assert!(too_late[2].when.starts_with("not allowed"), "{}", too_late[2].when);
    assert!(too_late[1].command.is_some());
}
