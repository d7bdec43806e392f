//! The report as data: what every form of it shows. Its JSON is this, and is versioned by [`Report::schema`].
//!
//! Counts are numbers; whatever may need more than 53 bits (amounts, fences, revisions) is a string.

mod pause;

use earmark_claim::State;
use serde::{Serialize, Serializer};

use super::money::{Money, Sums};
use super::untrusted::Untrusted;
use super::words::Moment;
pub use pause::{Pause, Resumed};

/// The version of the JSON form. It grows when a field changes its meaning or goes away, not when one is added.
pub const SCHEMA: u32 = 1;

/// A report: the same input gives the same bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What this is a report of.
    pub identity: Identity,
    /// The whole in one sentence.
    pub verdict: Verdict,
    /// What is wrong with the data, so that a number above or below may be wrong. Empty on a good day.
    pub faults: Vec<Fault>,
    /// Downstreams that a person has paused: those that stand first, then those that stood in the window.
    pub pauses: Vec<Pause>,
    /// Open at the start, and what became of it.
    pub roll_forward: RollForward,
    /// Why claims were handed to a person: one line a cause.
    pub causes: Vec<Cause>,
    /// Escalated claims: contradicted ones first, then by deadline.
    pub needs_a_person: Vec<Item>,
    /// Confirmed, but more than one attempt may have acted.
    pub perhaps_twice: Vec<PerhapsTwice>,
    /// Evidence that it was done, of claims for which nothing was sent by us.
    pub done_unsent: Vec<DoneUnsent>,
    /// Open claims that wait for the machine.
    pub waiting: Vec<Waiting>,
    /// Due for long, and nobody has handled them.
    pub no_handler: Vec<NoHandler>,
    /// The same key with another request.
    pub mismatches: Vec<Mismatch>,
    /// Evidence of which no claim is known.
    pub orphans: Vec<Orphan>,
    /// What people decided in the window.
    pub decisions: Vec<Decision>,
    /// What became of the claims, by consumer, kind and downstream.
    pub outcomes: Vec<Outcome>,
    /// How old the open claims are.
    pub ageing: Vec<AgeRow>,
}

/// What a report is of.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the input")]
pub struct Identity {
    pub as_of: Moment,
    pub from: Moment,
    pub to: Moment,
    /// The window was asked for up to a moment after `as_of`, and was cut there.
    pub cut: bool,
    pub database: Untrusted,
    pub namespace: Untrusted,
    pub version: String,
    /// The database may lose commits that it acknowledged: claims may be missing, and effects repeated.
    pub non_durable: bool,
}

/// The whole in one sentence, and its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// For people.
    pub sentence: String,
    /// Escalated claims.
    pub need_a_person: Tally,
    /// Claims that were open at the end of the window, or created or closed in it.
    pub of: u64,
    /// Claims of which nobody knows whether it happened.
    pub in_doubt: Tally,
    /// Of the oldest claim that needs a person, in seconds.
    pub oldest_age_secs: Option<u64>,
    /// The next moment after which less can be done for a claim that needs a person.
    pub next_deadline: Option<Moment>,
}

/// How many claims, and their amounts per currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// How many.
    pub claims: u64,
    /// How many of them have no amount.
    pub without_amount: u64,
    /// The amounts of the others.
    pub amounts: Sums,
}

/// Something wrong with the data.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// A stable word.
    pub code: &'static str,
    /// For people.
    pub words: String,
    /// How many rows.
    pub rows: u64,
}

/// Open at the start + new + reopened − closed = open at the end.
#[derive(Clone, Debug, Serialize)]
pub struct RollForward {
    /// All claims, counted.
    pub all: Flow,
    /// Per currency; claims without an amount last.
    pub by_currency: Vec<Flow>,
    /// Every difference is 0.
    pub balanced: bool,
    /// From the end of the window to `as_of`: only where the two are not the same moment.
    pub since: Option<Since>,
}

/// One line of the roll-forward.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// The currency; `None` for all claims, and for those without an amount.
    pub currency: Option<Untrusted>,
    /// Open at the start of the window: from creation and closing times.
    pub opening: Cell,
    /// Created in the window.
    pub new: Cell,
    /// Reopened in the window: from events.
    pub reopened: Cell,
    /// Closed in the window: from closing times and the closings that were undone.
    pub closed: Cell,
    /// Open at the end: from the states.
    pub closing: Cell,
    /// opening + new + reopened − closed − closing. Not 0: the rows contradict each other, or some were not read.
    pub check: Cell,
}

/// A count and, on a line of one currency, the amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Claims.
    pub claims: i64,
    /// Their amount.
    pub amount: Option<Money>,
}

/// What happened after the window and before the rows were read.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Since {
    pub created: u64,
    pub reopened: u64,
    pub closed: u64,
    pub open_now: u64,
}

/// The names of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// The short handle; `None` where only an event of the claim was read.
    pub reference: Option<Untrusted>,
    /// The claim's key.
    pub tenant: Untrusted,
    /// The claim's key.
    pub consumer: Untrusted,
    /// The claim's key.
    pub message_id: Untrusted,
    /// The key in one line, escaped.
    pub shown: String,
}

/// What an effect is about.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the input")]
pub struct About {
    pub kind: Untrusted,
    pub downstream: Untrusted,
    pub summary: Option<Untrusted>,
    pub business_ref: Option<Untrusted>,
    pub amount: Option<Money>,
}

/// A cause of escalation.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Cause {
    pub downstream: Untrusted,
    pub kind: Untrusted,
    pub error_class: Option<Untrusted>,
    pub tally: Tally,
    pub contradicted: u64,
    pub oldest: Moment,
    pub newest: Moment,
}

/// A claim on which a person must rule.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// Which.
    pub name: Name,
    /// What it does.
    pub about: About,
    /// What is known, in plain words.
    pub situation: String,
    /// From when its age counts.
    pub age_from: Moment,
    /// Its age in seconds.
    pub age_secs: u64,
    /// Escalated.
    pub state: State,
    /// An attempt may have acted.
    pub doubt: bool,
    /// The evidence on file conflicts.
    pub contradicted: bool,
    /// Attempts that may have left.
    pub attempts: u32,
    /// When the newest attempt ended.
    pub last_end: Option<Moment>,
    /// Class of the newest failure.
    pub error_class: Option<Untrusted>,
    /// The provider's id on file.
    pub provider_ref: Option<Untrusted>,
    /// Another id of the provider that evidence has brought.
    pub conflicting_ref: Option<Untrusted>,
    /// What the provider saw as the key.
    pub idempotency_key: Untrusted,
    /// What a repeat would be.
    pub repeat: Repeat,
    /// After which less can be done.
    pub deadline: Option<Deadline>,
    /// The page that a ruling names.
    #[serde(serialize_with = "as_string")]
    pub fence: u64,
    /// The page that a ruling names.
    #[serde(serialize_with = "as_string")]
    pub revision: u64,
    /// What may be ruled.
    pub rulings: Vec<Offer>,
}

/// What a repeat would be.
#[derive(Clone, Debug, Serialize)]
pub struct Repeat {
    /// The judgement.
    pub verdict: RepeatVerdict,
    /// Until when a harmless repeat may start, or might have.
    pub until: Option<Moment>,
    /// Until when the provider remembers the key.
    pub window_end: Option<Moment>,
    /// For people.
    pub words: String,
}

/// Whether a repeat is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatVerdict {
    /// Every attempt so far provably did nothing.
    NothingHappened,
    /// Natural: always.
    Harmless,
    /// Keyed: until the moment given.
    SafeUntil,
    /// Keyed: no more.
    WindowOver,
    /// Keyed, but the window's start is not on file.
    WindowUnknown,
    /// Never.
    SecondEffect,
}

/// A clock that runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Deadline {
    /// When.
    pub at: Moment,
    /// Which.
    pub clock: DeadlineClock,
}

/// Which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineClock {
    /// Until then a repeat is harmless.
    RepeatSafe,
    /// After it the effect must not be sent any more.
    SendBy,
}

/// A ruling that may be made, and what it would do.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// `done`, `not-done` or `repeat`.
    pub ruling: &'static str,
    /// What it would do; empty where it is not allowed.
    pub effect: String,
    /// From when it is allowed; `None`: at any time, or not at all (no command).
    pub from: Option<Moment>,
    /// The same, where the person relies on what the provider's own search shows, which lags.
    pub from_if_looked: Option<Moment>,
    /// When it is allowed, in words.
    pub when: String,
    /// The exact command, for a POSIX shell; `None`: not allowed.
    pub command: Option<String>,
}

/// Confirmed, perhaps twice.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PerhapsTwice {
    pub name: Name,
    pub about: About,
    pub attempts: u32,
    pub window_end: Option<Moment>,
    pub last_end: Option<Moment>,
    pub closed: Option<Moment>,
    pub closed_by: Option<&'static str>,
    pub provider_ref: Option<Untrusted>,
    /// Why a second effect cannot be excluded.
    pub why: String,
}

/// Done, though nothing was sent by us.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DoneUnsent {
    pub name: Name,
    pub about: Option<About>,
    pub at: Moment,
    pub provider_ref: Option<Untrusted>,
    pub actor: Option<Untrusted>,
}

/// Open claims of one state that wait for the machine.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Waiting {
    pub state: State,
    pub tally: Tally,
    pub due_now: u64,
    pub oldest: Moment,
    pub next_due: Option<Moment>,
}

/// Claims that are due for long.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NoHandler {
    pub consumer: Untrusted,
    pub kind: Untrusted,
    pub form: Untrusted,
    pub state: State,
    pub tally: Tally,
    pub due_since: Moment,
}

/// The same key with another request.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Mismatch {
    pub name: Name,
    pub state: State,
    pub count: u64,
    pub first: Moment,
    pub last: Moment,
    /// Of the request on file; `None` where the claim was not read.
    pub on_file: Option<String>,
    /// Of the other request.
    pub other: Option<Untrusted>,
}

/// Evidence of which no claim is known.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the input")]
pub struct Orphan {
    pub id: Untrusted,
    pub at: Moment,
    pub source: Untrusted,
    pub finding: Untrusted,
    /// The key, as far as the evidence names it, escaped.
    pub key: Option<String>,
    pub reference: Option<Untrusted>,
    pub idempotency_key: Option<Untrusted>,
    pub provider_ref: Option<Untrusted>,
    pub adopted: Option<Moment>,
}

/// What a person decided.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Decision {
    pub name: Name,
    pub amount: Option<Money>,
    pub at: Moment,
    /// `None`: not on file, which is a fault.
    pub who: Option<Untrusted>,
    /// The stored name of the event.
    pub what: Untrusted,
    pub reason: Option<Untrusted>,
    pub before: State,
    pub after: State,
    /// Evidence against it has come in since.
    pub contradicted_since: bool,
}

/// What became of the claims of one consumer, kind and downstream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Which handler.
    pub consumer: Untrusted,
    /// Which operation.
    pub kind: Untrusted,
    /// Which provider.
    pub downstream: Untrusted,
    /// All of them.
    pub all: Tally,
    /// Confirmed, by how it is known.
    pub confirmed: Confirmed,
    /// Abandoned, by why.
    pub abandoned: Vec<WhyCount>,
    /// Open, by state.
    pub open: Vec<StateCount>,
    /// The amounts of the confirmed ones.
    pub confirmed_amounts: Sums,
    /// The amounts of the open ones.
    pub open_amounts: Sums,
}

/// How many claims were abandoned, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct WhyCount {
    pub why: &'static str,
    pub claims: u64,
}

/// How many claims are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct StateCount {
    pub state: State,
    pub claims: u64,
}

/// The claims of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct StateTally {
    pub state: State,
    pub tally: Tally,
}

/// How confirmed claims are known to have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// The provider's answer to the first attempt.
    pub first_attempt: u64,
    /// The provider's answer to a later attempt.
    pub after_retries: u64,
    /// A probe.
    pub probe: u64,
    /// A webhook, a statement line, a late answer.
    pub evidence: u64,
    /// A person.
    pub ruling: u64,
}

impl Confirmed {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.first_attempt + self.after_retries + self.probe + self.evidence + self.ruling
    }
}

/// The open claims of one age.
#[derive(Clone, Debug, Serialize)]
pub struct AgeRow {
    /// `4–12 h`.
    pub bucket: &'static str,
    /// Per state, in the order of a claim's life; states without claims are left out.
    pub by_state: Vec<StateTally>,
    /// All of them.
    pub total: Tally,
}

fn as_string<S: Serializer>(n: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(n)
}
