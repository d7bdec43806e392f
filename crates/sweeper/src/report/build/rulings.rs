//! What a person may rule on an escalated claim, from when, what it would do, and the command that does it.

use std::time::Duration;

use earmark_claim::Timestamp;

use crate::report::input::ClaimRow;
use crate::report::model::{Offer, Repeat, RepeatVerdict};
use crate::report::money::Money;
use crate::report::words::{Moment, span};

const ANY_TIME: &str = "at any time";

/// When *not done* and *repeat* are allowed: not before what was given up can land any more.
struct Wait {
    from: Option<Moment>,
    from_if_looked: Option<Moment>,
    when: String,
    /// The person must state the landing horizon.
    horizon_needed: bool,
}

pub(super) fn rulings(c: &ClaimRow, repeat: &Repeat, as_of: Timestamp) -> Vec<Offer> {
    let wait = Wait::of(c, as_of);
    let later = |ruling, effect| Offer {
        ruling,
        effect,
        from: wait.from,
        from_if_looked: wait.from_if_looked,
        when: wait.when.clone(),
        command: Some(command(c, ruling, wait.horizon_needed)),
    };
    let done = Offer {
        ruling: "done",
        effect: done_effect(c),
        from: None,
        from_if_looked: None,
        when: ANY_TIME.into(),
        command: Some(command(c, "done", false)),
    };
    let not_done = later(
        "not-done",
        "Becomes abandoned. Nothing is called, now or later; every duplicate is told that it did not happen."
            .into(),
    );
    let again = match why_never(c, as_of) {
        None => later("repeat", repeat_effect(c, repeat)),
        Some(why) => Offer {
            ruling: "repeat",
            effect: repeat_effect(c, repeat),
            from: None,
            from_if_looked: None,
            when: why,
            command: None,
        },
    };
    vec![done, not_done, again]
}

fn done_effect(c: &ClaimRow) -> String {
    let id = if c.provider_ref.is_none() {
        " Add --provider-ref with the provider's id if you found one."
    } else {
        ""
    };
    format!("Becomes confirmed. Nothing is called; every duplicate is told that it happened.{id}")
}

fn repeat_effect(c: &ClaimRow, repeat: &Repeat) -> String {
    let twice = c.amount.as_ref().map_or_else(String::new, |a| {
        format!(" ({} once more)", Money::new(a.currency.as_str(), a.minor).text())
    });
    let harm = match (repeat.verdict, repeat.until) {
        (RepeatVerdict::NothingHappened, _) => "nothing happened so far".into(),
        (RepeatVerdict::Harmless, _) => "always harmless".into(),
        (RepeatVerdict::SafeUntil, Some(until)) => {
            format!("harmless if it leaves before {}; later it may be a second effect{twice}", until.text())
        }
        _ => format!("if an earlier attempt acted, this is a second effect{twice}"),
    };
    format!("Becomes retryable and is called one more time under the same key: {harm}.")
}

fn why_never(c: &ClaimRow, as_of: Timestamp) -> Option<String> {
    if c.purged {
        return Some(
            "not allowed: the request has been purged; make a new claim that supersedes this one".into(),
        );
    }
    let send_by = c.send_by.filter(|t| *t <= as_of)?;
    Some(format!("not allowed: it was not to be sent after {}", Moment(send_by).text()))
}

impl Wait {
    fn of(c: &ClaimRow, as_of: Timestamp) -> Self {
        let none =
            |when: &str| Self { from: None, from_if_looked: None, when: when.into(), horizon_needed: false };
        let Some(ended) = c.last_end_at else { return none(ANY_TIME) };
        let horizon_needed = c.landing_horizon.is_none();
        let from = ended.plus(c.landing_horizon.unwrap_or(c.call_timeout));
        let looked = c.probe_lag.filter(|lag| *lag > Duration::ZERO).map(|lag| from.plus(lag));
        let mut when = if horizon_needed {
            format!(
                "once nothing can land any more: state with --horizon how long a request that was given up may still \
                 take effect, at least {}; so not before {}",
                span(c.call_timeout),
                Moment(from).text_up()
            )
        } else if from <= as_of {
            format!("now (since {})", Moment(from).text_up())
        } else {
            format!("from {}", Moment(from).text_up())
        };
        if let Some(looked) = looked.filter(|looked| as_of < *looked) {
            let looked = Moment(looked).text_up();
            when.push_str(&format!("; with --looked, if you rely on what the provider shows, from {looked}"));
        }
        Self { from: Some(Moment(from)), from_if_looked: looked.map(Moment), when, horizon_needed }
    }
}

/// It names state, fence and revision of this page, and loses if any has moved.
fn command(c: &ClaimRow, ruling: &str, horizon_needed: bool) -> String {
    let horizon = if horizon_needed { " --horizon 'HOW LONG'" } else { "" };
    format!(
        "earmark resolve {} --ruling {ruling} --state {} --fence {} --revision {}{horizon} --by 'NAME' --reason 'WHY'",
        quoted(c.reference.raw()),
        c.state,
        c.fence,
        c.revision,
    )
}

/// A reference as it should be needs no quotes; a row written by hand may hold anything.
fn quoted(reference: &str) -> String {
    if !reference.is_empty() && reference.chars().all(|c| c.is_ascii_alphanumeric()) {
        return reference.to_owned();
    }
    format!("'{}'", reference.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_hostile_reference_cannot_leave_its_quotes() {
        assert_eq!(quoted("7F3K"), "7F3K");
        assert_eq!(quoted("$(rm x)"), "'$(rm x)'");
        assert_eq!(quoted("a'; rm x; '"), r"'a'\''; rm x; '\'''");
    }
}
