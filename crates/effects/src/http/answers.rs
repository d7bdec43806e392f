//! The closed table that says what a provider's answers mean.

use earmark_claim::{ErrorClass, Failure, Receipt};
use serde::{Deserialize, Serialize};

use super::faults::Faults;
use super::on::On;
use super::seen::Seen;
use super::{pointer, table};

/// Most rules of one table: more is a programme, and belongs into an effect of its own.
pub(super) const RULES_MAX: usize = 64;

/// What a provider's answers mean: rules, of which the first that fits decides; after them the general, pessimistic
/// table ([`general_table`](super::general_table)) does.
///
/// Write a rule only where the provider's own documentation says so, and cite it there.
///
/// ```
/// use earmark_effects::http::{Answers, On};
/// let answers = Answers::new()
///     .provider_id("/id")
///     // Declines are stored under the key and replayed.
///     .refused_and_stored(On::status(402).json("/error/code", "card_declined"), "card_declined")
///     .refused(On::status(400), "invalid_request")
///     // The limiter runs before anything is executed.
///     .not_sent(On::status(429), "rate_limited");
/// answers.check()?;
/// # Ok::<(), earmark_effects::http::Faults>(())
/// ```
///
/// Where the body did not arrive whole, or is JSON that cannot be read (half a character in an escape), a rule with a condition on the body may or may not fit. If that would change
/// the outcome, it is *unknown* (`body_unread`); else it changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Answers {
    /// Where an answer names the provider's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) on: On,
    pub(super) then: Then,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Then {
    Done {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    Accepted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    Refused {
        class: String,
        covers_earlier: bool,
    },
    NotSent {
        class: String,
    },
    Unknown {
        class: String,
    },
}

impl Answers {
    /// No rules: the general table decides everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where an answer that it happened, or that it was accepted, names the provider's id: a JSON pointer. The id
    /// goes on file, serves the probe as `{provider_ref}`, and tells two effects apart.
    pub fn provider_id(mut self, at: &str) -> Self {
        self.id = Some(at.to_owned());
        self
    }

    /// It happened. For a 202 that is enough, for a 200 only under conditions, for a 409 that means "already created".
    pub fn done(self, on: On) -> Self {
        self.rule(on, Then::Done { id: None })
    }

    /// It happened, and this answer names the provider's id elsewhere than the rest: at this JSON pointer.
    pub fn done_with_id(self, on: On, at: &str) -> Self {
        self.rule(on, Then::Done { id: Some(at.to_owned()) })
    }

    /// It was accepted and is not decided: in doubt, with the provider's id, to be looked at by the probe.
    pub fn accepted(self, on: On) -> Self {
        self.rule(on, Then::Accepted { id: None })
    }

    /// It was accepted, and this answer names the provider's id elsewhere than the rest: at this JSON pointer.
    pub fn accepted_with_id(self, on: On, at: &str) -> Self {
        self.rule(on, Then::Accepted { id: Some(at.to_owned()) })
    }

    /// It will not happen. `class`: a short stable word for causes and metrics, such as `card_declined`.
    ///
    /// It speaks for this attempt only: see [`Answers::refused_and_stored`].
    pub fn refused(self, on: On, class: &str) -> Self {
        self.rule(on, Then::Refused { class: class.to_owned(), covers_earlier: false })
    }

    /// It will not happen, and the provider stores this very answer under the key and replays it: so it speaks for
    /// the earlier attempts, too, while the key's window is open. Only where the provider's documentation says so.
    pub fn refused_and_stored(self, on: On, class: &str) -> Self {
        self.rule(on, Then::Refused { class: class.to_owned(), covers_earlier: true })
    }

    /// Nothing happened in this attempt, and the provider promises that: it is tried again. `Retry-After` is obeyed.
    pub fn not_sent(self, on: On, class: &str) -> Self {
        self.rule(on, Then::NotSent { class: class.to_owned() })
    }

    /// It may have happened: to take an answer out of a later rule or of the general table.
    pub fn unknown(self, on: On, class: &str) -> Self {
        self.rule(on, Then::Unknown { class: class.to_owned() })
    }

    /// What this table and the general one say of an answer: to test a table without a server.
    ///
    /// ```
    /// use earmark_claim::Verdict;
    /// use earmark_effects::http::{Answers, On, Seen};
    /// let answers = Answers::new().refused(On::status(402), "declined");
    /// let failure = answers.judge(&Seen::new(402, &[], "{}")).unwrap_err();
    /// assert!(matches!(failure.verdict, Verdict::Refused { .. }));
    /// assert_eq!(answers.judge(&Seen::new(500, &[], "")).unwrap_err().verdict, Verdict::Unknown);
    /// ```
    ///
    /// # Errors
    /// Every outcome but *it happened*.
    pub fn judge(&self, seen: &Seen) -> Result<Receipt, Failure> {
        table::classify(self, seen)
    }

    /// Whether the table can be used.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong with it.
    pub fn check(&self) -> Result<(), Faults> {
        Faults::none_in(self.faults())
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.id.iter().filter_map(|at| pointer::fault(at)).collect();
        if self.rules.len() > RULES_MAX {
            faults.push(format!("{} rules, at most {RULES_MAX}: put statuses together", self.rules.len()));
        }
        for (n, rule) in self.rules.iter().enumerate() {
            let mut of_rule = rule.on.faults();
            of_rule.extend(rule.then.faults(&rule.on));
            if rule.on.names_placeholder() {
                of_rule.push("a value holds a placeholder, and only a probe's are filled in".to_owned());
            }
            faults.extend(of_rule.into_iter().map(|fault| format!("rule {} of the answers: {fault}", n + 1)));
        }
        faults
    }

    fn rule(mut self, on: On, then: Then) -> Self {
        self.rules.push(Rule { on, then });
        self
    }
}

impl Then {
    /// Whether two outcomes let the claim make the same move.
    pub(super) fn same_move(&self, other: &Self) -> bool {
        use Then::{Accepted, Done, NotSent, Refused, Unknown};
        match (self, other) {
            (Done { .. }, Done { .. }) | (NotSent { .. }, NotSent { .. }) => true,
            (Accepted { .. } | Unknown { .. }, Accepted { .. } | Unknown { .. }) => true,
            (Refused { covers_earlier: a, .. }, Refused { covers_earlier: b, .. }) => a == b,
            _ => false,
        }
    }

    fn faults(&self, on: &On) -> Vec<String> {
        let (class, what) = match self {
            Self::Done { id } | Self::Accepted { id } => {
                return id.iter().filter_map(|at| pointer::fault(at)).collect();
            }
            Self::Refused { class, .. } => (class, "refused"),
            Self::NotSent { class } => (class, "not sent"),
            Self::Unknown { class } => (class, "unknown"),
        };
        let mut faults = Vec::new();
        if class.is_empty() || ErrorClass::from(class).as_str() != class {
            faults.push(format!(
                "{class:?} is not a class: 1 to 64 lower-case letters, digits, \"_\" and \".\", such as \"card_declined\""
            ));
        }
        if ErrorClass::from(class).no_retry_mends() {
            faults.push(format!(
                "the class {class:?} begins with \"fault.\", which is kept for faults of our own"
            ));
        }
        if !matches!(self, Self::Unknown { .. }) && !on.names_status() {
            faults.push(format!(
                "\"{what}\" rules out that it happened: name the statuses for which that is promised"
            ));
        }
        faults
    }
}
