//! Downstreams that nothing is sent to, by a person's word: rows that services and sweeps obey.

use sea_orm::{QueryResult, Value};

use crate::error::Error;
use crate::review::person;
use crate::store::row::{text, text_opt};
use crate::store::{ClaimStore, bind};
use crate::time::Timestamp;

/// A pause of one downstream: while it stands, nothing is sent there, neither effects nor the looks of probes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// The provider, by its stored name.
    pub downstream: String,
    /// Counts the pauses of this downstream.
    pub seq: u64,
    /// Since when.
    pub at: Timestamp,
    /// Who paused it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// How it ended; `None`: it stands.
    pub resumed: Option<Resumed>,
}

/// How a pause ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resumed {
    /// When.
    pub at: Timestamp,
    /// Who ended it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl ClaimStore {
    /// Pauses a downstream, unless it is paused. Answers the pause that stands now, and whether it is this one or another person's.
    ///
    /// Processes obey within seconds: see `earmark_effects::Builder::pauses_every`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a downstream that no claim can have, or without a name or a reason; otherwise when the database cannot be
    /// written.
    pub async fn pause(&self, downstream: &str, actor: &str, reason: &str) -> Result<(Pause, bool), Error> {
        person("the pause", actor, reason)?;
        stored_name(downstream)?;
        if let Some(stands) = self.newest_pause(downstream).await?.filter(Pause::stands) {
            return Ok((stands, false));
        }
        let values: Vec<Value> = [downstream, actor, reason, downstream].map(Into::into).into();
        let statement = bind::statement(self.dialect(), self.dialect().sql().pause, values);
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.execute("pause", statement).await }).await?;
        // The row says whose it is; a count of rows would not, where the answer to a commit was lost.
        match self.newest_pause(downstream).await? {
            Some(pause) => {
                let ours = pause.actor == actor && pause.reason == reason;
                Ok((pause, ours))
            }
            None => Err(Error::NotFound(format!("a pause of {downstream}"))),
        }
    }

    /// Ends the pause of a downstream. Answers the pause with how it ended, or `None`: it was not paused.
    ///
    /// # Errors
    /// As [`ClaimStore::pause`].
    pub async fn resume(&self, downstream: &str, actor: &str, reason: &str) -> Result<Option<Pause>, Error> {
        person("the resume", actor, reason)?;
        stored_name(downstream)?;
        if !self.newest_pause(downstream).await?.is_some_and(|pause| pause.stands()) {
            return Ok(None);
        }
        let values: Vec<Value> = [actor, reason, downstream].map(Into::into).into();
        let statement = bind::statement(self.dialect(), self.dialect().sql().resume, values);
        let db = self.inner.db.clone();
        self.inner.writer.run(async move { db.execute("resume", statement).await }).await?;
        let by_us = |pause: &Pause| {
            pause.resumed.as_ref().is_some_and(|resumed| resumed.actor == actor && resumed.reason == reason)
        };
        Ok(self.newest_pause(downstream).await?.filter(by_us))
    }

    /// The pauses that stand.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        let statement = bind::statement(
            self.dialect(),
            self.dialect().sql().pauses,
            since(Timestamp::from_micros(i64::MAX)),
        );
        let db = self.inner.db.clone();
        let rows = self.inner.writer.run(async move { db.read("pauses", statement).await }).await?;
        rows.iter().map(Pause::read).collect()
    }

    async fn newest_pause(&self, downstream: &str) -> Result<Option<Pause>, Error> {
        let statement =
            bind::statement(self.dialect(), self.dialect().sql().newest_pause, vec![downstream.into()]);
        let db = self.inner.db.clone();
        let rows = self.inner.writer.run(async move { db.read("pauses", statement).await }).await?;
        rows.first().map(Pause::read).transpose()
    }
}

/// The values of the statement that reads pauses: those that stand, and those that began or ended since.
pub(crate) fn since(from: Timestamp) -> Vec<Value> {
    vec![from.as_micros().into(), from.as_micros().into()]
}

impl Pause {
    /// Whether it is not over.
    pub fn stands(&self) -> bool {
        self.resumed.is_none()
    }

    pub(crate) fn read(row: &QueryResult) -> Result<Self, Error> {
        let read = || -> Result<Self, sea_orm::DbErr> {
            let seq: i64 = row.try_get_by("seq")?;
            let resumed_at: Option<i64> = row.try_get_by("resumed_at")?;
            let resumed = match resumed_at {
                None => None,
                Some(at) => Some(Resumed {
                    at: Timestamp::from_micros(at),
                    actor: text_opt(row, "resumed_by")?.unwrap_or_default(),
                    reason: text_opt(row, "resume_reason")?.unwrap_or_default(),
                }),
            };
            Ok(Self {
                downstream: text(row, "downstream")?,
                seq: u64::try_from(seq).unwrap_or_default(),
                at: Timestamp::from_micros(row.try_get_by("at")?),
                actor: text(row, "actor")?,
                reason: text(row, "reason")?,
                resumed,
            })
        };
        read().map_err(|e| Error::Malformed { key: "of a pause".into(), what: e.to_string() })
    }
}

fn stored_name(downstream: &str) -> Result<(), Error> {
    let legal = (1..=64).contains(&downstream.len())
        && downstream.is_ascii()
        && !downstream.contains(char::is_control)
        // MySQL takes 'x' and 'x ' for one, and so would a person.
        && downstream.trim() == downstream;
    if legal {
        return Ok(());
    }
    let fault = format!(
        "the downstream {downstream:?} is no stored name: 1 to 64 ASCII characters, as on its claims"
    );
    Err(Error::Invalid { what: "the pause", faults: vec![fault] })
}
