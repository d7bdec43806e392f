//! Amounts: whole minor units and a currency code from end to end. No float, no conversion, no guess.

use std::collections::BTreeMap;

use iso_currency::Currency;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::untrusted::Untrusted;

/// An amount, or a sum of amounts, of one currency.
///
/// In JSON: `{"currency": "EUR", "minor_units": "124000", "amount": "1240.00"}`, both numbers as strings, since many readers
/// keep 53 bits; `amount` is null where the currency has no known minor unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Money {
    currency: Untrusted,
    minor: i128,
}

impl Money {
    /// `minor` units of the currency.
    pub fn new(currency: impl Into<String>, minor: impl Into<i128>) -> Self {
        Self { currency: Untrusted::new(currency), minor: minor.into() }
    }

    /// The code as stored.
    pub fn currency(&self) -> &Untrusted {
        &self.currency
    }

    /// Whole minor units.
    pub const fn minor(&self) -> i128 {
        self.minor
    }

    /// How many decimals the currency has; `None` where ISO 4217 does not say, or does not know the code.
    pub fn exponent(&self) -> Option<u16> {
        Currency::from_code(self.currency.raw())?.exponent()
    }

    /// Plain decimal digits, `-1240.00`; `None` for an unknown currency.
    pub fn decimal(&self) -> Option<String> {
        self.digits("")
    }

    /// For people: `EUR 1,240.00`. An unknown currency shows its minor units and says so.
    pub fn text(&self) -> String {
        let code = self.currency.exact();
        match self.digits(",") {
            Some(digits) => format!("{code} {digits}"),
            None => format!("{code} {} minor units (unknown currency)", self.minor),
        }
    }

    fn digits(&self, separator: &str) -> Option<String> {
        let exponent = usize::from(self.exponent()?);
        let digits = format!("{:0>width$}", self.minor.unsigned_abs(), width = exponent + 1);
        let (whole, fraction) = digits.split_at(digits.len() - exponent);
        let sign = if self.minor < 0 { "-" } else { "" };
        let point = if exponent == 0 { "" } else { "." };
        Some(format!("{sign}{}{point}{fraction}", grouped(whole, separator)))
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Money", 3)?;
        out.serialize_field("currency", &self.currency)?;
        out.serialize_field("minor_units", &self.minor.to_string())?;
        out.serialize_field("amount", &self.decimal())?;
        out.end()
    }
}

/// Sums per currency, and never across.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sums(BTreeMap<String, i128>);

impl Sums {
    /// Adds an amount. `i128` holds more `i64` amounts than any table has rows.
    pub fn add(&mut self, currency: &str, minor: i128) {
        let sum = self.0.entry(currency.to_owned()).or_default();
        *sum = sum.saturating_add(minor);
    }

    /// One amount a currency, by code.
    pub fn each(&self) -> impl Iterator<Item = Money> + '_ {
        self.0.iter().map(|(currency, minor)| Money::new(currency.as_str(), *minor))
    }

    /// Whether no amount was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Sums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

/// Digits in groups of three.
pub(crate) fn grouped(digits: &str, separator: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push_str(separator);
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_currency_has_its_own_decimals() {
        let cases: &[(&str, i64, Option<&str>, &str)] = &[
            ("EUR", 124_000, Some("1240.00"), "EUR 1,240.00"),
            ("EUR", 5, Some("0.05"), "EUR 0.05"),
            ("EUR", -5, Some("-0.05"), "EUR -0.05"),
            ("EUR", 0, Some("0.00"), "EUR 0.00"),
            ("USD", -255_768, Some("-2557.68"), "USD -2,557.68"),
            ("JPY", 5800, Some("5800"), "JPY 5,800"),
            ("KWD", 1255, Some("1.255"), "KWD 1.255"),
            ("CLF", 12_345, Some("1.2345"), "CLF 1.2345"),
            ("EUR", 9_007_199_254_740_993, Some("90071992547409.93"), "EUR 90,071,992,547,409.93"),
            ("EUR", i64::MIN, Some("-92233720368547758.08"), "EUR -92,233,720,368,547,758.08"),
            ("XQX", 5800, None, "XQX 5800 minor units (unknown currency)"),
            ("eur", 100, None, "eur 100 minor units (unknown currency)"),
            ("<b>", 1, None, "<b> 1 minor units (unknown currency)"),
        ];
        for (currency, minor, decimal, text) in cases {
            let money = Money::new(*currency, *minor);
            assert_eq!(money.decimal().as_deref(), *decimal, "{currency} {minor}");
            assert_eq!(money.text(), *text);
        }
    }

    #[test]
    fn sums_are_exact_and_stay_apart() {
        let mut sums = Sums::default();
        for (currency, minor) in [("EUR", 32_471), ("EUR", 18_151), ("USD", 1), ("EUR", -50_622)] {
            sums.add(currency, minor);
        }
        sums.add("JPY", i128::from(i64::MAX));
        sums.add("JPY", i128::from(i64::MAX));
        let text: Vec<_> = sums.each().map(|m| m.text()).collect();
        assert_eq!(text, ["EUR 0.00", "JPY 18,446,744,073,709,551,614", "USD 0.01"]);
    }

    #[test]
    fn json_keeps_every_digit() {
        let money = Money::new("EUR", 9_007_199_254_740_993_i64);
        assert_eq!(
            serde_json::to_string(&money).expect("plain data"),
            r#"{"currency":"EUR","minor_units":"9007199254740993","amount":"90071992547409.93"}"#
        );
    }
}
