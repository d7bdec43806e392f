//! A row of `earmark_claim`, read. Never a panic: a row that cannot be read is an error that names it.

use std::time::Duration;

use sea_orm::{DbErr, QueryResult, TryGetable};

use crate::claim::Token;
use crate::declared::{Declared, ProbeTerms, RepeatSafety};
use crate::error::Error;
use crate::key::{ClaimKey, Fingerprint, IdempotencyKey, Reference, hex};
use crate::new_claim::{Currency, Money};
use crate::receipt::{Answer, Receipt};
use crate::state::{ClosedBy, Facts, State};
use crate::time::Timestamp;

/// Everything on file about a claim but its request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimView {
    /// The claim's key.
    pub key: ClaimKey,
    /// The stored name of the operation.
    pub kind: String,
    /// How the stored request is read.
    pub form: String,
    /// The provider or system called.
    pub downstream: String,
    /// One line for a person. Hostile input.
    pub summary: Option<String>,
    /// The caller's own reference. Hostile input.
    pub business_ref: Option<String>,
    /// The amount.
    pub amount: Option<Money>,
    /// What judges its moves: state, fence, times, counters, what was declared.
    pub facts: Facts,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// How it was closed.
    pub closed_by: Option<ClosedBy>,
    /// Digest of the canonical request.
    pub fingerprint: Fingerprint,
    /// What the provider sees.
    pub idempotency_key: IdempotencyKey,
    /// The short handle.
    pub reference: Reference,
    /// Content type of the request.
    pub request_type: String,
    /// The name of the credential.
    pub credential: Option<String>,
    /// The provider's answer; of a purged one all but its bytes.
    pub answer: Option<Answer>,
    /// W3C trace context of the maker.
    pub traceparent: Option<String>,
    /// The claim that this one replaces.
    pub supersedes: Option<Reference>,
    /// When request, answer and history were dropped: it is a tombstone.
    pub purged_at: Option<Timestamp>,
}

impl ClaimView {
    /// The receipt on file.
    pub fn receipt(&self) -> Receipt {
        let (answer, provider_ref) = (self.answer.clone(), self.facts.provider_ref.clone());
        match self.purged_at {
            None => Receipt::new(answer, provider_ref),
            Some(_) => Receipt::of_tombstone(answer, provider_ref),
        }
    }

    /// Since when it is in doubt: the end of its newest attempt.
    pub(crate) fn in_doubt_since(&self) -> Timestamp {
        self.facts.last_end_at.unwrap_or(self.facts.created_at)
    }

    /// When it is due; for states that are due some day this is never missing (a CHECK sees to it).
    pub(crate) fn due_at(&self) -> Timestamp {
        self.facts.due_at.unwrap_or(self.facts.now)
    }

    pub(crate) fn read(row: &QueryResult) -> Result<Self, Error> {
        let handle = || {
            let part = |c| text(row, c).unwrap_or_else(|_| "?".into());
            format!("{}/{}/{}", part("tenant"), part("consumer"), part("message_id"))
        };
        read(row).map_err(|Unreadable(what)| Error::Malformed { key: handle(), what })
    }
}

/// One event of a claim's history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventView {
    /// Its number within the claim, from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Under which fence.
    pub fence: u64,
    /// The revision after it.
    pub revision: u64,
    /// Its stored name: see [`crate::state::Verb`].
    pub name: String,
    /// Who; `None` for the machine.
    pub actor: Option<String>,
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// The provider's id that it named.
    pub provider_ref: Option<String>,
    /// More, as JSON. Hostile input.
    pub detail: String,
    /// The bytes that it brought, as received.
    pub bytes: Option<Vec<u8>>,
    /// Their content type.
    pub bytes_type: Option<String>,
}

impl EventView {
    pub(crate) fn read(key: &ClaimKey, row: &QueryResult) -> Result<Self, Error> {
        let read = || -> Result<Self, Unreadable> {
            Ok(Self {
                seq: unsigned(row, "seq")?,
                at: Timestamp::from_micros(get(row, "at")?),
                fence: unsigned(row, "fence")?,
                revision: unsigned(row, "revision")?,
                name: text(row, "name")?,
                actor: text_opt(row, "actor")?,
                from: word(row, "from_state")?,
                to: word(row, "to_state")?,
                provider_ref: text_opt(row, "provider_ref")?,
                detail: text_opt(row, "detail")?.unwrap_or_default(),
                bytes: get(row, "bytes")?,
                bytes_type: text_opt(row, "bytes_type")?,
            })
        };
        read().map_err(|Unreadable(what)| Error::Malformed { key: key.to_string(), what })
    }
}

/// Evidence of which no claim is known, without its bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrphanView {
    /// Its own random id.
    pub id: String,
    /// When it was kept.
    pub at: Timestamp,
    /// Who brought it.
    pub source: String,
    /// The tenant that it named.
    pub tenant: Option<String>,
    /// The consumer that it named.
    pub consumer: Option<String>,
    /// The message id that it named.
    pub message_id: Option<String>,
    /// The short handle that it named.
    pub reference: Option<String>,
    /// The idempotency key that it named.
    pub idempotency_key: Option<String>,
    /// The provider's id that it named.
    pub provider_ref: Option<String>,
    /// `done`, `refused`, `not_done` or `cannot_tell`.
    pub finding: String,
    /// When it was given to a claim.
    pub adopted_at: Option<Timestamp>,
}

impl OrphanView {
    pub(crate) fn read(row: &QueryResult) -> Result<Self, Error> {
        let read = || -> Result<Self, Unreadable> {
            Ok(Self {
                id: text(row, "id")?,
                at: Timestamp::from_micros(get(row, "at")?),
                source: text(row, "source")?,
                tenant: text_opt(row, "tenant")?,
                consumer: text_opt(row, "consumer")?,
                message_id: text_opt(row, "message_id")?,
                reference: text_opt(row, "reference")?,
                idempotency_key: text_opt(row, "idempotency_key")?,
                provider_ref: text_opt(row, "provider_ref")?,
                finding: text(row, "finding")?,
                adopted_at: time_opt(row, "adopted_at")?,
            })
        };
        read().map_err(|Unreadable(what)| Error::Malformed { key: "of an orphan".into(), what })
    }
}

/// A sweeper's sign of life.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweeperView {
    /// Its name.
    pub name: String,
    /// When it first swept.
    pub started_at: Timestamp,
    /// When it last finished a pass.
    pub last_success_at: Option<Timestamp>,
    /// Passes since its process began.
    pub passes: u64,
    /// The version of its code.
    pub version: String,
}

impl SweeperView {
    pub(crate) fn read(row: &QueryResult) -> Result<Self, Error> {
        let read = || -> Result<Self, Unreadable> {
            Ok(Self {
                name: text(row, "name")?,
                started_at: Timestamp::from_micros(get(row, "started_at")?),
                last_success_at: time_opt(row, "last_success_at")?,
                passes: unsigned(row, "passes")?,
                version: text(row, "version")?,
            })
        };
        read().map_err(|Unreadable(what)| Error::Malformed { key: "of a sweeper".into(), what })
    }
}

/// Key columns of a row.
pub(crate) fn key_of(row: &QueryResult) -> Result<ClaimKey, Error> {
    let read = || -> Result<ClaimKey, Unreadable> {
        ClaimKey::in_tenant(text(row, "tenant")?, text(row, "consumer")?, text(row, "message_id")?)
            .map_err(|e| Unreadable(e.to_string()))
    };
    read().map_err(|Unreadable(what)| Error::Malformed { key: "of a due row".into(), what })
}

fn read(row: &QueryResult) -> Result<ClaimView, Unreadable> {
    let key = ClaimKey::in_tenant(text(row, "tenant")?, text(row, "consumer")?, text(row, "message_id")?)
        .map_err(|e| Unreadable(e.to_string()))?;
    let amount = match (get::<Option<i64>>(row, "amount_minor")?, text_opt(row, "currency")?) {
        (Some(minor), Some(code)) => {
            let currency = Currency::new(&code).ok_or_else(|| Unreadable(format!("currency {code:?}")))?;
            Some(Money { minor, currency })
        }
        _ => None,
    };
    let purged_at = time_opt(row, "purged_at")?;
    let closed_by = match text_opt(row, "closed_by")? {
        None => None,
        Some(by) => Some(
            ClosedBy::ALL
                .into_iter()
                .find(|c| c.as_str() == by)
                .ok_or_else(|| Unreadable(format!("closed_by {by:?}")))?,
        ),
    };
    let answer = match (
        text_opt(row, "receipt_type")?,
        get::<Option<i64>>(row, "receipt_len")?,
        get::<Option<Vec<u8>>>(row, "receipt_digest")?,
    ) {
        (Some(content_type), Some(len), Some(digest)) => Some(Answer {
            bytes: get::<Option<Vec<u8>>>(row, "receipt")?.unwrap_or_default(),
            content_type,
            len: u64::try_from(len).map_err(|_| Unreadable("receipt_len is negative".into()))?,
            digest: digest.try_into().map_err(|_| Unreadable("receipt_digest has not 32 bytes".into()))?,
        }),
        _ => None,
    };
    let reference = text(row, "reference")?;
    let fingerprint: Vec<u8> = get(row, "fingerprint")?;
    Ok(ClaimView {
        kind: text(row, "kind")?,
        form: text(row, "form")?,
        downstream: text(row, "downstream")?,
        summary: text_opt(row, "summary")?,
        business_ref: text_opt(row, "business_ref")?,
        amount,
        facts: facts(row, purged_at.is_some())?,
        closed_at: time_opt(row, "closed_at")?,
        closed_by,
        fingerprint: Fingerprint::stored(&fingerprint)
            .ok_or_else(|| Unreadable(format!("fingerprint {}", hex(&fingerprint))))?,
        idempotency_key: IdempotencyKey::stored(text(row, "idempotency_key")?),
        reference: Reference::stored(reference),
        request_type: text(row, "request_type")?,
        credential: text_opt(row, "credential")?,
        answer,
        traceparent: text_opt(row, "traceparent")?,
        supersedes: text_opt(row, "supersedes")?.map(Reference::stored),
        purged_at,
        key,
    })
}

fn facts(row: &QueryResult, purged: bool) -> Result<Facts, Unreadable> {
    let token: Vec<u8> = get(row, "token")?;
    Ok(Facts {
        now: Timestamp::from_micros(get(row, "now_at")?),
        state: word(row, "state")?,
        doubt: get(row, "doubt")?,
        contradicted: get(row, "contradicted")?,
        fence: unsigned(row, "fence")?,
        token: Token(token.try_into().map_err(|_| Unreadable("token has not 16 bytes".into()))?),
        revision: unsigned(row, "revision")?,
        due_at: time_opt(row, "due_at")?,
        not_before: time_opt(row, "not_before")?,
        send_by: time_opt(row, "send_by")?,
        created_at: Timestamp::from_micros(get(row, "created_at")?),
        window_from: time_opt(row, "window_from")?,
        last_end_at: time_opt(row, "last_end_at")?,
        attempts: count(row, "attempts")?,
        repeats_granted: count(row, "repeats_granted")?,
        ruled_at: time_opt(row, "ruled_at")?,
        looks: count(row, "looks")?,
        error_class: text_opt(row, "error_class")?.map(Into::into),
        provider_ref: text_opt(row, "provider_ref")?,
        declared: declared(row)?,
        purged,
    })
}

fn declared(row: &QueryResult) -> Result<Declared, Unreadable> {
    let repeat = match (text(row, "repeat_safety")?.as_str(), duration_opt(row, "key_window")?) {
        ("keyed", Some(window)) => RepeatSafety::Keyed { window },
        ("natural", None) => RepeatSafety::Natural,
        ("never", None) => RepeatSafety::Never,
        (word, _) => return Err(Unreadable(format!("repeat_safety {word:?} with this key_window"))),
    };
    let probe = match duration_opt(row, "probe_lag")? {
        None => None,
        Some(lag) => Some(ProbeTerms {
            lag,
            not_found_is_proof: get(row, "probe_proof")?,
            looks_max: count(row, "looks_max")?,
        }),
    };
    let needed = |column| duration_opt(row, column)?.ok_or_else(|| Unreadable(format!("{column} is null")));
    Ok(Declared {
        repeat,
        landing_horizon: duration_opt(row, "landing_horizon")?,
        probe,
        call_timeout: needed("call_timeout")?,
        attempts_max: count(row, "attempts_max")?,
        age_max: needed("age_max")?,
    })
}

struct Unreadable(String);

impl From<DbErr> for Unreadable {
    fn from(error: DbErr) -> Self {
        Self(crate::failure::chain(&error))
    }
}

fn get<T: TryGetable>(row: &QueryResult, column: &str) -> Result<T, Unreadable> {
    Ok(row.try_get_by(column)?)
}

/// Text, whether the column is text or, as MySQL's keys are, bytes.
pub(crate) fn text(row: &QueryResult, column: &str) -> Result<String, DbErr> {
    text_opt(row, column)?.ok_or_else(|| DbErr::Type(format!("{column} is null")))
}

pub(crate) fn text_opt(row: &QueryResult, column: &str) -> Result<Option<String>, DbErr> {
    match row.try_get_by::<Option<String>, _>(column) {
        Ok(text) => Ok(text),
        Err(first) => match row.try_get_by::<Option<Vec<u8>>, _>(column) {
            Ok(Some(bytes)) => {
                String::from_utf8(bytes).map(Some).map_err(|_| DbErr::Type(format!("{column} is not UTF-8")))
            }
            Ok(None) => Ok(None),
            Err(_) => Err(first),
        },
    }
}

/// A part of a key as it is stored, whether it is text or not.
pub(crate) fn key_bytes(row: &QueryResult, column: &str) -> Result<Vec<u8>, DbErr> {
    match row.try_get_by::<String, _>(column) {
        Ok(text) => Ok(text.into_bytes()),
        Err(_) => row.try_get_by(column),
    }
}

fn word(row: &QueryResult, column: &str) -> Result<State, Unreadable> {
    text(row, column)?.parse().map_err(|e: crate::state::UnknownState| Unreadable(e.to_string()))
}

fn unsigned(row: &QueryResult, column: &str) -> Result<u64, Unreadable> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| Unreadable(format!("{column} is negative")))
}

fn count(row: &QueryResult, column: &str) -> Result<u32, Unreadable> {
    u32::try_from(get::<i32>(row, column)?).map_err(|_| Unreadable(format!("{column} is negative")))
}

fn time_opt(row: &QueryResult, column: &str) -> Result<Option<Timestamp>, Unreadable> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

fn duration_opt(row: &QueryResult, column: &str) -> Result<Option<Duration>, Unreadable> {
    match get::<Option<i64>>(row, column)? {
        None => Ok(None),
        Some(micros) => u64::try_from(micros)
            .map(|m| Some(Duration::from_micros(m)))
            .map_err(|_| Unreadable(format!("{column} is negative"))),
    }
}
