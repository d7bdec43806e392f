//! Becoming the holder of a claim that is there.

use std::marker::PhantomData;
use std::time::Instant;

use crate::claim::{Claim, InFlight, Token};
use crate::declared::Declared;
use crate::error::Error;
use crate::key::ClaimKey;
use crate::state::{Event, Refused, Seen, Taking};
use crate::store::ClaimStore;
use crate::store::bind::Note;
use crate::store::row::ClaimView;
use crate::store::write::{Ask, Judged};

/// A claim that was there and is now in flight under us.
#[derive(Debug)]
#[must_use = "an unsettled claim becomes in doubt when its lease ends"]
pub struct Started {
    /// The claim.
    pub claim: Claim<InFlight>,
    /// The row before the taking.
    pub view: Box<ClaimView>,
    /// The frozen request.
    pub request: Vec<u8>,
}

/// What taking over an existing claim answers.
#[derive(Debug)]
#[must_use = "only a taken claim may be performed"]
pub enum Taken {
    /// In flight, with the frozen request.
    Started(Started),
    /// Not allowed, and why.
    Refused(Refused),
    /// Somebody else is at it, or there is no such claim.
    Missing,
}

impl ClaimStore {
    /// Takes a claim that is there: begins a held one, takes a retryable one that is due, or redrives one in doubt (the
    /// sweep alone does that). `registered`: what the effect declares now; the stricter of that and what is frozen judges.
    ///
    /// # Errors
    /// As [`ClaimStore::claim`].
    pub async fn take_over(
        &self,
        key: &ClaimKey,
        how: Taking,
        registered: Option<&Declared>,
    ) -> Result<Taken, Error> {
        let Some(frozen) = self.find(key).await? else { return Ok(Taken::Missing) };
        self.take_row(&frozen, how, registered, None).await
    }

    /// The same on a row that was read before, and only if nothing has moved since: else [`Refused::Moved`].
    ///
    /// # Errors
    /// As [`ClaimStore::claim`].
    pub async fn take_over_as_seen(
        &self,
        seen: &ClaimView,
        how: Taking,
        registered: Option<&Declared>,
    ) -> Result<Taken, Error> {
        self.take_row(seen, how, registered, Some(Seen::of(&seen.facts))).await
    }

    async fn take_row(
        &self,
        frozen: &ClaimView,
        how: Taking,
        registered: Option<&Declared>,
        seen: Option<Seen>,
    ) -> Result<Taken, Error> {
        let key = &frozen.key;
        let token = Token::fresh().map_err(Error::Random)?;
        let timeout = match registered {
            Some(registered) => frozen.facts.declared.call_timeout.max(registered.call_timeout),
            None => frozen.facts.declared.call_timeout,
        };
        let room = self.room(timeout);
        let ask = Ask {
            key: key.clone(),
            event: Event::Taking { how, room },
            seen,
            registered: registered.cloned(),
            token,
            note: Note::default(),
            receipt: None,
            skip_locked: true,
        };
        // Deadlines count from before the statement is handed over; a read-back does not renew them.
        let handed_over = Instant::now();
        let db = self.inner.db.clone();
        let request_key = key.clone();
        let (judged, request) = self
            .inner
            .writer
            .run(async move {
                let judged = db.judge("take", &ask).await?;
                let request = match &judged {
                    Judged::Made { .. } => db.request(&request_key).await?,
                    _ => None,
                };
                Ok((judged, request))
            })
            .await?;
        Ok(match judged {
            Judged::Made { before, made } => {
                let mut facts = before.facts.clone();
                if let Some(registered) = registered {
                    facts.declared = facts.declared.stricter(registered);
                }
                let send_until = facts.send_until(made.set.doubt, room);
                let deadline = handed_over + send_until.since(facts.now);
                let facts = facts.after(&made, token);
                let claim = Claim {
                    key: key.clone(),
                    facts: Box::new(facts),
                    idempotency_key: before.idempotency_key.clone(),
                    reference: before.reference.clone(),
                    kind: before.kind.as_str().into(),
                    fingerprint: Box::new(before.fingerprint),
                    send_until: deadline,
                    believed_until: handed_over + room.lease,
                    state: PhantomData,
                };
                Taken::Started(Started { claim, view: before, request: request.unwrap_or_default() })
            }
            Judged::Refused(why) => Taken::Refused(why),
            Judged::Missing => Taken::Missing,
        })
    }
}
