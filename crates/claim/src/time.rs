//! Time: microseconds since the Unix epoch by the database's clock, and nothing else.
//!
//! No code of this crate reads the host's wall clock. Inside one process, deadlines use
//! [`std::time::Instant`].

use std::fmt;
use std::time::Duration;

/// A moment by the database's clock: microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// `self + d`, cut at the greatest representable moment.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(self.0.saturating_add(micros(d)))
    }

    /// `self - d`, cut at the least representable moment.
    #[must_use]
    pub fn minus(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(micros(d)))
    }

    /// How long after `earlier` this moment is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0)).map_or(Duration::ZERO, Duration::from_micros)
    }

    /// Days since the epoch, and microseconds into that day.
    const fn split(self) -> (i64, i64) {
        const DAY: i64 = 86_400_000_000;
        (self.0.div_euclid(DAY), self.0.rem_euclid(DAY))
    }
}

/// A duration as the store keeps it: whole microseconds, cut at `i64::MAX`.
pub(crate) fn micros(d: Duration) -> i64 {
    i64::try_from(d.as_micros()).unwrap_or(i64::MAX)
}

/// RFC 3339 in UTC with microseconds: `2026-11-30T19:22:01.000250Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = self.split();
        let (y, m, d) = civil(days);
        let secs = rest / 1_000_000;
        let (hh, mm, ss) = (secs / 3600, secs / 60 % 60, secs % 60);
        write!(f, "{y:04}-{m:02}-{d:02}T{hh:02}:{mm:02}:{ss:02}.{:06}Z", rest % 1_000_000)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Days since the epoch to a proleptic Gregorian date (the well-known era arithmetic of H. Hinnant's
/// `civil_from_days`), so that this crate needs no calendar library for one format.
const fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (d, m) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    (yoe + era * 400 + if m <= 2 { 1 } else { 0 }, m, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_827_696_789_012, "2000-02-29T12:34:56.789012Z"),
            (1_764_530_521_000_250, "2025-11-30T19:22:01.000250Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_never_wraps() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(Timestamp::from_micros(0).since(end), Duration::ZERO);
    }
}
