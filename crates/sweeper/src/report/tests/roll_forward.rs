//! The roll-forward against lives that are counted by walking them.

use super::*;

/// One claim's life as it truly was: when it was open.
struct Life {
    row: ClaimRow,
    events: Vec<EventRow>,
    /// Opened, and closed if it was.
    open: Vec<(Timestamp, Option<Timestamp>)>,
}

/// Lives over ten days before the report; every one ends as it stands in the database.
fn live(rng: &mut fastrand::Rng, n: usize) -> Life {
    let currency = ["EUR", "JPY", "XQX"][rng.usize(..3)];
    let mut row = ClaimRow {
        tenant: if rng.bool() { "t".into() } else { "".into() },
        amount: if rng.u8(..4) == 0 { None } else { amount(currency, rng.i64(-1000..1_000_000)) },
        ..row(&format!("m-{n}"))
    };
    let mut moments: Vec<u64> = (0..rng.usize(1..7)).map(|_| rng.u64(1..14_400)).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut moments = moments.into_iter().rev().map(ago);
    let created = moments.next().unwrap();
    (row.created_at, row.window_from, row.state) = (created, Some(created), State::InFlight);
    row.due_at = Some(created);
    let (mut events, mut open) = (Vec::new(), vec![(created, None)]);
    let mut quiet_close = false;
    for at in moments {
        if row.closed_at.is_none() {
            let (state, by) = [
                (State::Confirmed, ClosedBy::Answer),
                (State::Confirmed, ClosedBy::Evidence),
                (State::Abandoned, ClosedBy::Refused),
            ][rng.usize(..3)];
            // The ordinary confirmation writes no event; a contradiction after it may have kept its moment or not.
            quiet_close = open.len() == 1 && by == ClosedBy::Answer;
            if !quiet_close {
                events.push(event(&row, Verb::EvidenceDone, at, row.state, state));
            }
            (row.state, row.closed_at, row.closed_by) = (state, Some(at), Some(by));
            row.last_end_at = Some(at);
            open.last_mut().unwrap().1 = Some(at);
        } else {
            let undone = if quiet_close && rng.bool() { None } else { row.closed_at };
            events.push(EventRow {
                detail: EventDetail { closed_at: undone, ..EventDetail::default() },
                ..event(&row, Verb::Contradict, at, row.state, State::Escalated)
            });
            (row.state, row.closed_at, row.closed_by) = (State::Escalated, None, None);
            open.push((at, None));
            if undone.is_none() {
                // Only the newest attempt's end tells when it was closed: nothing may overwrite that.
                break;
            }
        }
    }
    Life { row, events, open }
}

impl Life {
    fn open_at(&self, t: Timestamp) -> bool {
        self.open.iter().any(|(from, to)| *from < t && to.is_none_or(|to| to >= t))
    }

    fn closed_in(&self, window: Window) -> usize {
        self.open.iter().filter(|(_, to)| to.is_some_and(|to| window.holds(to))).count()
    }

    fn reopened_in(&self, window: Window) -> usize {
        self.open[1..].iter().filter(|(from, _)| window.holds(*from)).count()
    }

    fn minor(&self, currency: &str) -> Option<i128> {
        self.row.amount.as_ref().filter(|a| a.currency == currency).map(|a| i128::from(a.minor))
    }

    /// What the contract of the input asks for.
    fn is_read(&self, window: Window) -> bool {
        let since = |t: Timestamp| t >= window.from;
        !self.row.state.is_terminal() || since(self.row.created_at) || self.row.closed_at.is_some_and(since)
    }
}

#[test]
fn it_agrees_with_lives_that_are_walked() {
    for seed in 0..150 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let lives: Vec<Life> = (0..rng.usize(0..60)).map(|n| live(&mut rng, n)).collect();
        let (a, b) = (rng.u64(0..14_400), rng.u64(0..14_400));
        let to = if rng.bool() { AS_OF } else { ago(a.min(b)) };
        let window = Window { from: ago(a.max(b)), to };
        let read = lives.iter().filter(|life| life.is_read(window));
        let events = lives.iter().flat_map(|life| &life.events).filter(|e| e.at >= window.from);
        let input =
            Input { window, ..input(read.map(|life| life.row.clone()).collect(), events.cloned().collect()) };
        let roll = crate::report::build(&input, &Options::default()).roll_forward;

        let all = |f: &dyn Fn(&Life) -> usize| lives.iter().map(f).sum::<usize>() as i64;
        let walked = (
            all(&|life| usize::from(life.open_at(window.from))),
            all(&|life| usize::from(window.holds(life.row.created_at))),
            all(&|life| life.reopened_in(window)),
            all(&|life| life.closed_in(window)),
            all(&|life| usize::from(life.open_at(window.to))),
        );
        let flow = &roll.all;
        let told = (
            flow.opening.claims,
            flow.new.claims,
            flow.reopened.claims,
            flow.closed.claims,
            flow.closing.claims,
        );
        assert_eq!(told, walked, "seed {seed}");
        assert!(roll.balanced, "seed {seed}");
        for line in &roll.by_currency {
            let Some(currency) = &line.currency else { continue };
            let open = lives.iter().filter(|life| life.open_at(window.to));
            let minor: i128 = open.filter_map(|life| life.minor(currency.raw())).sum();
            assert_eq!(line.closing.amount.as_ref().unwrap().minor(), minor, "seed {seed}");
        }
        if let Some(since) = &roll.since {
            let open_now = lives.iter().filter(|life| !life.row.state.is_terminal()).count() as u64;
            assert_eq!(since.open_now, open_now, "seed {seed}");
            let flow = roll.all.closing.claims as u64 + since.created + since.reopened;
            assert_eq!(flow, since.closed + since.open_now, "seed {seed}");
        }
    }
}

#[test]
fn rows_that_contradict_each_other_show_as_a_difference() {
    // An open state with a closing time: typed by hand.
    let typed = ClaimRow { closed_at: Some(ago(10)), ..row("typed by hand") };
    let report = built(vec![typed, row("fine")], vec![]);
    assert!(!report.roll_forward.balanced);
    assert_eq!(report.roll_forward.all.check.claims, -1);
    assert_eq!(report.faults[0].code, "roll_forward");
    assert!(report.verdict.sentence.ends_with("the numbers do not balance."));
}

#[test]
fn a_claim_read_twice_is_counted_once_and_reported() {
    let report = built(vec![row("m"), row("m")], vec![]);
    assert_eq!(report.roll_forward.all.closing.claims, 1);
    assert_eq!(report.faults[0].code, "claim_twice");
}

#[test]
fn a_hundred_thousand_rows_are_no_matter() {
    let rows: Vec<_> = (0..100_000)
        .map(|n| ClaimRow {
            amount: amount("EUR", i64::MAX),
            ..confirmed(&format!("m-{n}"), ClosedBy::Answer, n % 3000)
        })
        .collect();
    let started = std::time::Instant::now();
    let report = built(rows, vec![]);
    // Far more than it takes in a debug build; a quadratic one takes minutes.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(report.roll_forward.balanced);
}

#[test]
fn a_window_that_is_not_over_is_cut_at_the_moment_of_reading() {
    let later = Window { from: ago(60), to: AS_OF.plus(hours(5)) };
    let input = Input { window: later, ..input(vec![row("m")], vec![]) };
    let report = crate::report::build(&input, &Options::default());
    assert!(report.identity.cut);
    assert_eq!(report.identity.to.0, AS_OF);
    assert_eq!(report.roll_forward.all.closing.claims, 1);
    assert!(report.roll_forward.since.is_none());
}
