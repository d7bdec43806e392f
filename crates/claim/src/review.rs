//! What people and the outside world say about a claim: rulings, cancellations, evidence.

use std::time::Duration;

use crate::claim::Token;
use crate::declared::Declared;
use crate::error::Error;
use crate::failure::chain;
use crate::key::{ClaimKey, IdempotencyKey, Reference, hex};
use crate::policy::Cause;
use crate::read::Handle;
use crate::receipt::{Answer, cut, provider_id};
use crate::state::{Event, Finding, Move, Ruling, Seen, State};
use crate::store::ClaimStore;
use crate::store::bind::{self, Note};
use crate::store::row::ClaimView;
use crate::store::write::Judged;
use crate::time::Timestamp;

/// A person's decision about one claim.
#[derive(Clone, Debug)]
pub struct Decision {
    /// State, fence and revision of the page on which it was made. It loses if any has moved.
    pub seen: Seen,
    /// What is decided.
    pub ruling: Ruling,
    /// Who decides.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// What it rests on: links, ticket numbers, file digests.
    pub evidence: Vec<String>,
    /// How long a request that was given up may still take effect, where the effect declares none.
    pub horizon: Option<Duration>,
    /// Whether the person relied on what the probe shows, so that its lag counts.
    pub looked: bool,
}

/// A fact about an effect, from whoever brings it.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Where it comes from: `webhook:stripe`, `statement:2026-11.csv:17`. At most 128 bytes. The same source saying the same again is
    /// no new fact.
    pub source: String,
    /// What it says.
    pub finding: Finding,
    /// More, for a person. Hostile input.
    pub detail: serde_json::Value,
    /// The bytes as received.
    pub answer: Option<Answer>,
}

/// What a look found, and what a person needs to believe it.
#[derive(Clone, Debug)]
pub struct Look {
    /// What it found.
    pub finding: Finding,
    /// What was asked and answered, for a person.
    pub note: String,
    /// The answer, kept as evidence.
    pub answer: Option<Answer>,
}

impl From<Finding> for Look {
    fn from(finding: Finding) -> Self {
        Self { finding, note: String::new(), answer: None }
    }
}

/// What became of a piece of evidence. It is kept in every case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// On file at a claim, whose state is now this.
    At {
        /// The claim.
        key: ClaimKey,
        /// Its state now.
        state: State,
        /// Whether it moved the claim.
        moved: bool,
    },
    /// No claim fits: kept as an orphan, shown once on the report.
    Orphan,
}

/// What evidence is about, as its bringer names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A claim's key.
    Key(ClaimKey),
    /// A claim's short handle.
    Reference(Reference),
    /// The provider's id.
    ProviderRef {
        /// The provider, by the stored name of the claim's downstream: two providers may well use the same id.
        downstream: String,
        /// Its id.
        id: String,
    },
    /// An idempotency key that no claim here is known for; kept as an orphan.
    IdempotencyKey(IdempotencyKey),
}

impl ClaimStore {
    /// A person rules on an escalated claim (or orders a repeat of an abandoned one that carries no doubt).
    ///
    /// # Errors
    /// [`Error::Invalid`] without a name or a reason; [`Error::Refused`] when the page is stale, the state does not allow it, or it is
    /// too early (with the time from which it is allowed); [`Error::NotFound`].
    pub async fn resolve(&self, key: &ClaimKey, decision: Decision) -> Result<State, Error> {
        person("the ruling", &decision.actor, &decision.reason)?;
        let word = match &decision.ruling {
            Ruling::Done { .. } => "done",
            Ruling::NotDone => "not_done",
            Ruling::Repeat => "repeat",
        };
        let provider_ref = match &decision.ruling {
            Ruling::Done { provider_ref } => provider_ref.clone().map(provider_id),
            _ => None,
        };
        let detail = serde_json::json!({
            "ruling": word,
            "reason": decision.reason,
            "evidence": decision.evidence,
            "horizon_s": decision.horizon.map(|d| d.as_secs_f64()),
            "looked": decision.looked,
        });
        let note = Note {
            actor: Some(decision.actor),
            detail: detail.to_string(),
            provider_ref: provider_ref.clone(),
            answer: None,
        };
        let Decision { seen, ruling, horizon, looked, .. } = decision;
        let ruling = match ruling {
            Ruling::Done { .. } => Ruling::Done { provider_ref },
            other => other,
        };
        let event = Event::Rule { seen, ruling, horizon, looked };
        self.moved("resolve", key, event, note, None).await
    }

    /// Calls a claim off where provably nothing was sent. A claim that carries doubt goes to a person instead.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a name or a reason; [`Error::Refused`] when it may have been sent; [`Error::NotFound`].
    pub async fn cancel(&self, key: &ClaimKey, actor: &str, reason: &str) -> Result<State, Error> {
        person("the cancellation", actor, reason)?;
        let detail = serde_json::json!({ "reason": reason }).to_string();
        let note = Note { actor: Some(actor.to_owned()), detail, ..Note::default() };
        self.moved("cancel", key, Event::Cancel, note, None).await
    }

    /// Hands a claim to a person: by rule (`actor` is `None`, on the stricter of what is frozen and what is `registered` now), or by a
    /// person's own hand.
    ///
    /// # Errors
    /// [`Error::Refused`] when the state does not allow it; [`Error::NotFound`].
    pub async fn escalate(
        &self,
        key: &ClaimKey,
        cause: Cause,
        actor: Option<&str>,
        registered: Option<&Declared>,
    ) -> Result<State, Error> {
        let detail = serde_json::json!({ "cause": cause.as_str() }).to_string();
        let note = Note { actor: actor.map(str::to_owned), detail, ..Note::default() };
        self.moved("escalate", key, Event::Escalate, note, registered).await
    }

    /// Keeps a fact about an effect: in every state, at a tombstone, or as an orphan. It is never refused.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a source that cannot be kept; otherwise only when the database cannot be written.
    pub async fn record_evidence(&self, about: &About, evidence: Evidence) -> Result<Recorded, Error> {
        if evidence.source.is_empty()
            || evidence.source.len() > 128
            || evidence.source.chars().any(char::is_control)
        {
            let faults = vec!["source must have 1 to 128 bytes without control characters".to_owned()];
            return Err(Error::Invalid { what: "the evidence", faults });
        }
        let evidence = Evidence { finding: kept(evidence.finding), ..evidence };
        let found = match about {
            About::Key(key) => self.find_all(&Handle::Key(key.clone())).await,
            About::Reference(r) => self.find_all(&Handle::Reference(r.clone())).await,
            About::ProviderRef { downstream, id } => {
                let found = self.find_all(&Handle::ProviderRef(id.clone())).await;
                found.map(|claims| claims.into_iter().filter(|c| c.downstream == *downstream).collect())
            }
            About::IdempotencyKey(_) => Ok(Vec::new()),
        };
        let found = match found {
            // A row that was spoiled by hand takes no evidence with it: a person brings the two together.
            Err(Error::Malformed { key, what }) => {
                tracing::warn!(key, what, "evidence of a claim that cannot be read is kept as an orphan");
                Vec::new()
            }
            found => found?,
        };
        // More than one claim fits: which one is meant is for a person to say.
        let [claim] = found.as_slice() else { return self.orphan(about, evidence).await };
        let key = claim.key.clone();
        let (detail, first_id) = describe(&evidence);
        let note = Note {
            actor: Some(evidence.source.clone()),
            detail,
            provider_ref: first_id,
            answer: evidence.answer.clone(),
        };
        let event = Event::Evidence { finding: evidence.finding.clone(), known: false };
        match self.ask("record evidence", &key, event, note, false, None).await? {
            Judged::Made { made, .. } => Ok(Recorded::At { key, state: made.to, moved: made.moves() }),
            Judged::Refused(why) => Err(why.into()),
            Judged::Missing => self.orphan(about, evidence).await,
        }
    }

    async fn orphan(&self, about: &About, evidence: Evidence) -> Result<Recorded, Error> {
        let dialect = self.dialect();
        let (detail, first_id) = describe(&evidence);
        let word = match evidence.finding {
            Finding::Done { .. } => "done",
            Finding::Refused { .. } => "refused",
            Finding::NotDone => "not_done",
            Finding::CannotTell => "cannot_tell",
        };
        let key = match about {
            About::Key(key) => Some(key),
            _ => None,
        };
        let message_id = dialect.key_value_opt(key.map(ClaimKey::message_id));
        let reference: Option<String> = match about {
            About::Reference(r) => Some(r.as_str().to_owned()),
            _ => None,
        };
        let idempotency_key = dialect.key_value_opt(match about {
            About::IdempotencyKey(k) => Some(k.as_str()),
            _ => None,
        });
        let provider_ref = dialect.key_value_opt(
            match about {
                About::ProviderRef { id, .. } => Some(provider_id(id.clone())),
                _ => first_id,
            }
            .as_deref(),
        );
        let Token(id) = Token::fresh().map_err(Error::Random)?;
        let values = vec![
            hex(&id).into(),
            evidence.source.clone().into(),
            dialect.key_value_opt(key.map(ClaimKey::tenant)),
            dialect.key_value_opt(key.map(ClaimKey::consumer)),
            message_id.clone(),
            reference.clone().into(),
            idempotency_key.clone(),
            word.into(),
            detail.clone().into(),
            evidence.answer.as_ref().map(bind::kept_bytes).into(),
            evidence.answer.as_ref().map(|a| bind::content_type(&a.content_type)).into(),
            provider_ref.clone(),
            evidence.source.into(),
            detail.into(),
            message_id,
            reference.into(),
            idempotency_key,
            provider_ref,
        ];
        let statement = bind::statement(dialect, dialect.sql().orphan, values);
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.execute("keep an orphan", statement).await }).await?;
        Ok(Recorded::Orphan)
    }

    /// A probe's look, judged: about the attempt of `view`'s fence, begun at `begun_at` by the database's clock, and on the
    /// stricter of what is frozen and what is `registered` now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; otherwise only when the database cannot be written.
    pub async fn record_look(
        &self,
        view: &ClaimView,
        begun_at: Timestamp,
        look: impl Into<Look>,
        again_in: Duration,
        registered: Option<&Declared>,
    ) -> Result<State, Error> {
        let Look { finding, note: said, answer } = look.into();
        let (finding, said) = (kept(finding), cut(said, REASON_BYTES_MAX));
        let (mut detail, provider_ref) = describe_finding(&finding);
        if let serde_json::Value::Object(map) = &mut detail {
            map.insert("note".into(), said.into());
        }
        let note = Note { detail: detail.to_string(), provider_ref, answer, actor: None };
        let event = Event::Look { fence: view.facts.fence, begun_at, finding, again_in };
        self.moved("look", &view.key, event, note, registered).await
    }

    /// The lease is over and nobody settled: into doubt. `None`: it is not, or somebody else is at it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn lease_over(&self, key: &ClaimKey) -> Result<Option<State>, Error> {
        Ok(self.doubt(key).await?.map(|view| view.facts.state))
    }

    /// The same, and answers the row as it stands then.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn doubt(&self, key: &ClaimKey) -> Result<Option<Box<ClaimView>>, Error> {
        Ok(self.quietly("lease over", key, Event::LeaseOver).await?.map(|(mut view, made)| {
            view.facts = view.facts.after(&made, view.facts.token);
            view
        }))
    }

    /// Send-by has passed: given up, or, where a doubt is carried, to a person. `None`: it has not, or somebody else is at it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn expire_due(&self, key: &ClaimKey) -> Result<Option<State>, Error> {
        Ok(self.quietly("expire", key, Event::Expire).await?.map(|(_, made)| made.to))
    }

    /// The row before, and the move.
    async fn quietly(
        &self,
        what: &'static str,
        key: &ClaimKey,
        event: Event,
    ) -> Result<Option<(Box<ClaimView>, Box<Move>)>, Error> {
        Ok(match self.ask(what, key, event, Note::default(), true, None).await? {
            Judged::Made { before, made } => Some((before, made)),
            Judged::Refused(why) => {
                tracing::debug!(%key, what, why = chain(&why), "nothing to do");
                None
            }
            Judged::Missing => None,
        })
    }

    async fn moved(
        &self,
        what: &'static str,
        key: &ClaimKey,
        event: Event,
        note: Note,
        registered: Option<&Declared>,
    ) -> Result<State, Error> {
        match self.ask(what, key, event, note, false, registered).await? {
            Judged::Made { made, .. } => {
                let Move { to, .. } = *made;
                Ok(to)
            }
            Judged::Refused(why) => Err(why.into()),
            Judged::Missing => Err(Error::NotFound(key.to_string())),
        }
    }
}

pub(crate) fn person(what: &'static str, actor: &str, reason: &str) -> Result<(), Error> {
    let mut faults = Vec::new();
    if actor.trim().is_empty() || actor.len() > 128 || actor.chars().any(char::is_control) {
        faults.push("name who decides, in 1 to 128 bytes without control characters".to_owned());
    }
    if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
        faults.push(format!("give the reason, in 1 to {REASON_BYTES_MAX} bytes"));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid { what, faults }) }
}

/// A reason is a paragraph, not a document; evidence is where documents are named.
const REASON_BYTES_MAX: usize = 4096;

/// The evidence as its event keeps it, and the first provider's id that it names.
fn describe(evidence: &Evidence) -> (String, Option<String>) {
    let (mut detail, first) = describe_finding(&evidence.finding);
    if let serde_json::Value::Object(map) = &mut detail {
        map.insert("more".into(), bounded(&evidence.detail));
        map.insert("digest".into(), evidence.answer.as_ref().map(Answer::digest_hex).into());
    }
    (detail.to_string(), first)
}

/// At most [`MORE_BYTES_MAX`] bytes of a detail, as text where it is cut: a server refuses a statement of many megabytes, and
/// evidence is never refused.
fn bounded(detail: &serde_json::Value) -> serde_json::Value {
    let text = detail.to_string();
    if text.len() <= MORE_BYTES_MAX { detail.clone() } else { cut(text, MORE_BYTES_MAX).into() }
}

/// Bytes kept of what evidence says beside its finding, as much as of an answer.
const MORE_BYTES_MAX: usize = 64 * 1024;

/// A finding with its ids as they are kept.
fn kept(finding: Finding) -> Finding {
    match finding {
        Finding::Done { ids } => {
            Finding::Done { ids: ids.into_iter().take(IDS_MAX).map(provider_id).collect() }
        }
        other => other,
    }
}

/// Most ids of one finding that are kept: two that differ are a conflict already, and a server refuses a statement of many megabytes.
const IDS_MAX: usize = 200;

fn describe_finding(finding: &Finding) -> (serde_json::Value, Option<String>) {
    match finding {
        Finding::Done { ids } => (serde_json::json!({ "finding": "done", "ids": ids }), ids.first().cloned()),
        Finding::Refused { covers_all } => {
            (serde_json::json!({ "finding": "refused", "covers_all": covers_all }), None)
        }
        Finding::NotDone => (serde_json::json!({ "finding": "not_done" }), None),
        Finding::CannotTell => (serde_json::json!({ "finding": "cannot_tell" }), None),
    }
}
