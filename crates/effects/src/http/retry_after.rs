//! `Retry-After` (RFC 9110 §10.2.3): seconds, or a moment.

use std::time::{Duration, SystemTime};

use super::seen::Seen;

/// Longest wait that is obeyed. A day: no provider's quota known to us is counted over more, most key windows end
/// then, and an absurd value must not park a claim until nobody remembers it.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the answer asks to wait; `None` where it does not ask, or not readably.
pub(super) fn of(seen: &Seen) -> Option<Duration> {
    let asked = seen.header("retry-after")?;
    // The provider's clock, where it tells its own: then the two clocks need not agree.
    let now = seen.header("date").and_then(moment).unwrap_or(seen.at);
    parse(asked, now)
}

fn parse(asked: &str, now: SystemTime) -> Option<Duration> {
    let wait = match asked.strip_prefix('-') {
        // A negative number of seconds, and a moment that has passed, ask for no wait.
        Some(rest) if is_number(rest) => Duration::ZERO,
        _ if is_number(asked) => seconds(asked),
        _ => moment(asked)?.duration_since(now).unwrap_or(Duration::ZERO),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// Whole seconds by the RFC; some send fractions, which are rounded up.
fn seconds(text: &str) -> Duration {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let more = u64::from(fraction.bytes().any(|b| b != b'0'));
    // What does not fit into 64 bits is absurd, and clamped like everything absurd.
    let whole = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u64::MAX) };
    Duration::from_secs(whole.saturating_add(more))
}

fn is_number(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && text.bytes().filter(|b| *b == b'.').count() <= 1
}

fn moment(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SENT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn of_headers(headers: &[(&str, &str)]) -> Option<u64> {
        of(&Seen::new(503, headers, "")).map(|d| d.as_secs())
    }

    #[test]
    fn both_forms_are_read_and_absurd_ones_clamped() {
        let day = RETRY_AFTER_MAX.as_secs();
        for (asked, wait) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("1.5", Some(2)),
            ("2.0", Some(2)),
            ("-1", Some(0)),
            ("3600", Some(3600)),
            ("86401", Some(day)),
            ("99999999999999999999999999", Some(day)),
            ("-99999999999999999999999999", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(day)),
            ("soon", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("12s", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(of_headers(&[("Retry-After", asked), ("Date", SENT)]), wait, "{asked:?}");
        }
    }

    #[test]
    fn without_a_date_a_moment_is_taken_from_our_own_clock() {
        // The epoch, in an answer made by hand.
        assert_eq!(of_headers(&[("Retry-After", "Thu, 01 Jan 1970 00:01:00 GMT")]), Some(60));
        assert_eq!(
            of_headers(&[("Retry-After", "Thu, 01 Jan 1970 00:01:00 GMT"), ("Date", "rubbish")]),
            Some(60)
        );
        assert_eq!(of_headers(&[]), None);
    }

    proptest! {
        #[test]
        fn nothing_panics_or_waits_for_longer_than_a_day(asked in "[-+0-9.eE ,:A-Za-z]{0,40}", date in ".{0,40}") {
            let wait = of(&Seen::new(429, &[("retry-after", &asked), ("date", &date)], ""));
            prop_assert!(wait.is_none_or(|w| w <= RETRY_AFTER_MAX));
        }
    }
}
