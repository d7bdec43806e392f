//! How an attempt ended, when not by a receipt: the one question is whether it may have happened.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::receipt::Answer;

/// What an effect reports instead of a receipt.
///
/// `?` on any error inside an effect gives [`Verdict::Unknown`]: doubt is the default. "Not sent" and "refused"
/// are said by hand, with the provider's promise cited where they are said.
///
/// ```
/// use earmark_claim::Failure;
/// fn answer(status: u16) -> Result<(), Failure> {
///     match status {
///         200 => Ok(()),
///         // The provider documents 402 as a final decline.
///         402 => Err(Failure::refused("card_declined")),
///         // Its limiter runs before anything is executed.
///         429 => Err(Failure::not_sent("rate_limited")),
///         other => Err(Failure::unknown("status").because(format!("status {other}"))),
///     }
/// }
/// # let _ = answer(200);
/// ```
///
/// It does not implement [`Error`] on purpose: the blanket conversion above would overlap with the identity.
#[must_use = "an attempt that failed must be settled"]
pub struct Failure {
    /// Whether it may have happened.
    pub verdict: Verdict,
    /// A short stable word for causes and metrics.
    pub class: ErrorClass,
    /// For a person: what was seen. Hostile input where it comes from a provider.
    pub message: String,
    /// How long the provider asked to wait. Obeyed when it is longer than our own backoff.
    pub retry_after: Option<Duration>,
    /// The provider's id, where an answer without an outcome named one (202).
    pub provider_ref: Option<String>,
    /// The answer itself, kept as evidence.
    pub answer: Option<Box<Answer>>,
}

/// Whether it may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It will not happen: the provider refused for good.
    Refused {
        /// The provider stores this very answer under the key and replays it, so that it speaks for every attempt
        /// made while the key's window is open. Off unless the provider's own documentation says so.
        covers_earlier: bool,
    },
    /// Provably nothing happened in this attempt.
    NotSent,
    /// It may have happened.
    Unknown,
}

impl Failure {
    /// It will not happen: the provider's documented, final refusal.
    pub fn refused(class: impl Into<ErrorClass>) -> Self {
        Self::new(Verdict::Refused { covers_earlier: false }, class)
    }

    /// Provably nothing happened in this attempt.
    pub fn not_sent(class: impl Into<ErrorClass>) -> Self {
        Self::new(Verdict::NotSent, class)
    }

    /// It may have happened.
    pub fn unknown(class: impl Into<ErrorClass>) -> Self {
        Self::new(Verdict::Unknown, class)
    }

    /// A failure of any verdict.
    pub fn new(verdict: Verdict, class: impl Into<ErrorClass>) -> Self {
        Self {
            verdict,
            class: class.into(),
            message: String::new(),
            retry_after: None,
            provider_ref: None,
            answer: None,
        }
    }

    /// What was seen, for a person.
    pub fn because(mut self, message: impl fmt::Display) -> Self {
        self.message = message.to_string();
        self
    }

    /// How long the provider asked to wait.
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The provider's id.
    pub fn with_provider_ref(mut self, id: Option<String>) -> Self {
        self.provider_ref = id;
        self
    }

    /// The answer, kept as evidence.
    pub fn with_answer(mut self, answer: Answer) -> Self {
        self.answer = Some(Box::new(answer));
        self
    }

    /// Marks a refusal as stored and replayed under the key: see [`Verdict::Refused`]. No effect on the rest.
    pub fn covering_earlier(mut self, covers: bool) -> Self {
        if let Verdict::Refused { covers_earlier } = &mut self.verdict {
            *covers_earlier = covers;
        }
        self
    }
}

/// Any error means: it may have happened.
impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::unknown("error").because(chain(&error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.verdict, self.class, self.message)
    }
}

/// An error and its sources in one line, without the text that many drivers repeat from their source.
pub fn chain(error: &dyn Error) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        next = source.source();
    }
    out
}

/// Says "not sent" early, for what fails before anything can leave: rendering, looking up a template, signing.
///
/// ```
/// use earmark_claim::{BeforeSend, Failure};
/// fn render(body: &str) -> Result<u32, std::num::ParseIntError> { body.parse() }
/// fn perform(body: &str) -> Result<(), Failure> {
///     let _request = render(body).before_send()?; // not sent, and not unknown
///     Ok(())
/// }
/// # let _ = perform("1");
/// ```
pub trait BeforeSend<T> {
    /// The error as a failure that provably sent nothing.
    ///
    /// # Errors
    /// [`Verdict::NotSent`] for any error.
    fn before_send(self) -> Result<T, Failure>;
}

impl<T, E: Error> BeforeSend<T> for Result<T, E> {
    fn before_send(self) -> Result<T, Failure> {
        self.map_err(|e| Failure::not_sent("before_send").because(chain(&e)))
    }
}

/// A short stable word: lower-case letters, digits, `_` and `.`, at most 64 bytes. Used as a metric label and to
/// group causes, so it must never hold an id, an amount or a provider's text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorClass(String);

impl ErrorClass {
    /// Our side is set up wrong (a bad API key, a wrong host): tried again after a pause, ends with a person.
    pub const OPERATOR: &'static str = "operator";
    /// Classes with this prefix are faults that no retry mends: they go to a person at once.
    pub const FAULT_PREFIX: &'static str = "fault.";
    /// The frozen request goes to an origin that its credential does not allow.
    pub const ORIGIN_NOT_ALLOWED: &'static str = "fault.origin_not_allowed";
    /// The stored request cannot be read by the code that should perform it.
    pub const REQUEST_UNREADABLE: &'static str = "fault.request_unreadable";
    /// The lease ended and nobody had settled.
    pub const LEASE_OVER: &'static str = "lease_over";
    /// The permit's last look came too late: nothing was handed over.
    pub const TOO_LATE: &'static str = "too_late";
    /// The call did not end within its timeout.
    pub const TIMEOUT: &'static str = "timeout";
    /// The effect's code panicked.
    pub const PANIC: &'static str = "panic";

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no retry mends it.
    pub fn no_retry_mends(&self) -> bool {
        self.0.starts_with(Self::FAULT_PREFIX)
    }
}

impl<S: AsRef<str>> From<S> for ErrorClass {
    /// Anything outside the alphabet becomes `_`, what is too long is cut: a class is a label, never data.
    fn from(word: S) -> Self {
        let clean = |c: char| match c {
            'a'..='z' | '0'..='9' | '_' | '.' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '_',
        };
        Self(word.as_ref().chars().take(64).map(clean).collect())
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_mark_can_never_say_that_it_did_not_happen() {
        fn effect() -> Result<(), Failure> {
            "x".parse::<u32>()?;
            Ok(())
        }
        assert_eq!(effect().expect_err("fails").verdict, Verdict::Unknown);
    }

    #[test]
    fn a_class_is_a_label_whatever_it_is_made_of() {
        assert_eq!(ErrorClass::from("HTTP 503!").as_str(), "http_503_");
        assert_eq!(ErrorClass::from("x".repeat(999)).as_str().len(), 64);
        assert!(ErrorClass::from(ErrorClass::ORIGIN_NOT_ALLOWED).no_retry_mends());
        assert!(!ErrorClass::from(ErrorClass::OPERATOR).no_retry_mends());
    }
}
