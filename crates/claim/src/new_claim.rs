//! What is frozen when a claim is committed.

use std::time::Duration;

use crate::declared::Declared;
use crate::key::{Fingerprint, Reference, VerbatimRule};
use crate::time::Timestamp;

/// Most bytes of a frozen request: 1 MiB. A request is a row of the hot table; put larger bodies elsewhere and freeze a
/// reference to them.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// The farthest that a claim may be made ahead of time: ten years.
const AHEAD_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// The range of every time column: 2001 to 2286. Seconds and milliseconds typed by mistake fall outside.
const TIME_MIN: i64 = 1_000_000_000_000_000;
const TIME_MAX: i64 = 10_000_000_000_000_000;

/// Everything that a claim carries, so that the effect can be performed by another process, weeks later, in the same words.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// The stored name of the operation (`mail.welcome`): for people, metrics and policy. At most 128 bytes.
    pub kind: String,
    /// How the stored request is read: `http/1` (declarative, anyone can perform it) or `opaque` (needs the service's code).
    pub form: String,
    /// The provider or system called: a short stored name (`stripe`). At most 64 bytes.
    pub downstream: String,
    /// The request bytes, sent the same at every attempt. At most [`REQUEST_BYTES_MAX`].
    pub request: Vec<u8>,
    /// Their content type.
    pub request_type: String,
    /// What makes two requests the same.
    pub fingerprint: Fingerprint,
    /// The name of the credential, never a secret.
    pub credential: Option<String>,
    /// What the effect declares.
    pub declared: Declared,
    /// Which idempotency key the provider sees.
    pub key_choice: KeyChoice,
    /// One line for a person. At most 256 bytes.
    pub summary: Option<String>,
    /// The caller's own reference, such as an order number. At most 128 bytes.
    pub business_ref: Option<String>,
    /// The amount, for payments.
    pub amount: Option<Money>,
    /// Not to be sent before; the claim is then held.
    pub not_before: Option<When>,
    /// Must be sent by, if at all.
    pub send_by: Option<When>,
    /// W3C `traceparent` of the request that made the claim.
    pub traceparent: Option<String>,
    /// The claim that this one replaces, after a person decided so.
    pub supersedes: Option<Reference>,
}

/// Which idempotency key the provider sees.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum KeyChoice {
    /// Derived from namespace, tenant, consumer and message id.
    #[default]
    Derived,
    /// The message id as it is, checked against the provider's rule. All consumers and environments on one provider account
    /// then share it.
    Verbatim(VerbatimRule),
}

/// An amount: integer minor units (cents, yen) and an ISO 4217 code. Never a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Money {
    /// Minor units, as ISO 4217 counts them for the currency.
    pub minor: i64,
    /// Three upper-case letters.
    pub currency: Currency,
}

/// A currency code of three upper-case letters. Whether ISO 4217 lists it is checked where amounts are shown, not here: a code
/// that is new must not stop a payment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// From its code; `None` unless it is three upper-case ASCII letters.
    pub fn new(code: &str) -> Option<Self> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_uppercase).then_some(Self(bytes))
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XXX")
    }
}

impl std::fmt::Debug for Currency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A moment by the database's clock, or that long after the claim is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At that moment.
    At(Timestamp),
    /// That long after the statement that writes the claim.
    In(Duration),
}

impl NewClaim {
    /// A claim of the `opaque` form, with everything optional left out.
    pub fn new(
        kind: impl Into<String>,
        downstream: impl Into<String>,
        request: impl Into<Vec<u8>>,
        declared: Declared,
    ) -> Self {
        let (kind, request) = (kind.into(), request.into());
        Self {
            fingerprint: Fingerprint::of(&kind, &request),
            kind,
            form: "opaque".into(),
            downstream: downstream.into(),
            request,
            request_type: "application/json".into(),
            credential: None,
            declared,
            key_choice: KeyChoice::Derived,
            summary: None,
            business_ref: None,
            amount: None,
            not_before: None,
            send_by: None,
            traceparent: None,
            supersedes: None,
        }
    }

    /// Everything that is wrong with it, each with its fix. Widths are checked here and not left to the database: MySQL cuts
    /// silently when its `sql_mode` is empty.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.declared.faults();
        let mut width = |name: &str, value: Option<&str>, max: usize, required: bool| {
            let value = value.unwrap_or_default();
            if required && value.is_empty() {
                faults.push(format!("{name} is empty"));
            }
            if value.len() > max {
                faults.push(format!("{name} has {} bytes, more than {max}", value.len()));
            }
            if value.chars().any(char::is_control) {
                faults.push(format!("{name} holds a control character"));
            }
        };
        width("kind", Some(&self.kind), 128, true);
        width("form", Some(&self.form), 32, true);
        width("downstream", Some(&self.downstream), 64, true);
        width("request_type", Some(&self.request_type), 128, true);
        width("credential", self.credential.as_deref(), 128, false);
        width("summary", self.summary.as_deref(), 256, false);
        width("business_ref", self.business_ref.as_deref(), 128, false);
        width("traceparent", self.traceparent.as_deref(), 64, false);
        if self.traceparent.as_ref().is_some_and(|t| !t.is_ascii()) {
            faults.push("traceparent is not ASCII: pass it on as it came, or leave it out".into());
        }
        for (name, value) in [("form", &self.form), ("downstream", &self.downstream), ("kind", &self.kind)] {
            if !value.is_ascii() {
                faults.push(format!("{name} is a stored name: use ASCII"));
            }
        }
        if self.request.len() > REQUEST_BYTES_MAX {
            faults
                .push(format!("the request has {} bytes, more than {REQUEST_BYTES_MAX}", self.request.len()));
        }
        for (name, when) in [("not_before", self.not_before), ("send_by", self.send_by)] {
            let fits = match when {
                None => true,
                Some(When::In(d)) => d <= AHEAD_MAX,
                Some(When::At(t)) => (TIME_MIN..TIME_MAX).contains(&t.as_micros()),
            };
            if !fits {
                faults.push(format!(
                    "{name} is more than ten years ahead, or no moment in microseconds since the epoch"
                ));
            }
        }
        if matches!(self.send_by, Some(When::In(d)) if d.is_zero()) {
            faults.push("send_by is zero: it could never be sent".into());
        }
        faults
    }
}
