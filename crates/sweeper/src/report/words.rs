//! Numbers, spans and moments as people read them.

use std::time::Duration;

use earmark_claim::Timestamp;
use serde::{Serialize, Serializer};

use super::money::grouped;

/// A moment in UTC. In JSON: RFC 3339 with microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment(pub Timestamp);

const SECOND: i64 = 1_000_000;

impl Moment {
    /// RFC 3339 to the second, the fraction dropped: for what is past, and for "until".
    pub fn text(self) -> String {
        let whole = self.0.as_micros().div_euclid(SECOND).saturating_mul(SECOND);
        Timestamp::from_micros(whole).to_string().replace(".000000Z", "Z")
    }

    /// RFC 3339 to the next full second: for "from", so that nobody comes too early.
    pub fn text_up(self) -> String {
        Self(Timestamp::from_micros(self.0.as_micros().saturating_add(SECOND - 1))).text()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// `6 h 12 min`: the two greatest units, the rest dropped.
pub(crate) fn span(d: Duration) -> String {
    let secs = d.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    let two = |a: u64, unit: &str, b: u64, lesser: &str| {
        if b == 0 { format!("{} {unit}", count(a)) } else { format!("{} {unit} {b} {lesser}", count(a)) }
    };
    match (days, hours, minutes) {
        (0, 0, 0) if secs == 0 && !d.is_zero() => format!("{} ms", d.as_millis()),
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, m) => two(m, "min", secs % 60, "s"),
        (0, h, m) => two(h, "h", m, "min"),
        (d, h, _) => two(d, "d", h, "h"),
    }
}

/// `41,207`.
pub(crate) fn count(n: impl std::fmt::Display) -> String {
    let text = n.to_string();
    match text.strip_prefix('-') {
        Some(digits) => format!("-{}", grouped(digits, ",")),
        None => grouped(&text, ","),
    }
}

/// `1 claim`, `2 claims`.
pub(crate) fn many(n: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { more })
}

/// A state as two words instead of one: `in doubt`.
pub(crate) fn spaced(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_name_two_units() {
        for (secs, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (61, "1 min 1 s"),
            (22_320, "6 h 12 min"),
            (86_400, "1 d"),
            (90_000, "1 d 1 h"),
            (86_400 * 1200, "1,200 d"),
        ] {
            assert_eq!(span(Duration::from_secs(secs)), text);
        }
        assert_eq!(span(Duration::from_micros(2500)), "2 ms");
    }

    #[test]
    fn a_from_is_never_shown_too_early_and_an_until_never_too_late() {
        let moment = Moment(Timestamp::from_micros(1_764_530_521_000_250));
        assert_eq!(moment.text(), "2025-11-30T19:22:01Z");
        assert_eq!(moment.text_up(), "2025-11-30T19:22:02Z");
        let full = Moment(Timestamp::from_micros(1_764_530_521_000_000));
        assert_eq!(full.text_up(), full.text());
    }

    #[test]
    fn counts_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (41_207, "41,207"), (-1000, "-1,000"), (-999, "-999")] {
            assert_eq!(count(n), text);
        }
    }
}
