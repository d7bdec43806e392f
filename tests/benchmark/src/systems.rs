//! The systems that are compared, and how their confirmed effects are counted.

use clap::ValueEnum;

use crate::args::Database;

/// A way to perform effects with a durable record before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum System {
    HandWritten,
    Earmark,
    AgentEffects,
    Dbos,
    PgbenchBatched,
    /// Earmark's answer to a finished message.
    #[value(skip)]
    EarmarkDuplicate,
    /// One read by primary key.
    #[value(skip)]
    PrimaryKeyRead,
}

impl System {
    /// Those of the table, in the turn of their rounds.
    pub const MAIN: [Self; 5] =
        [Self::HandWritten, Self::Earmark, Self::AgentEffects, Self::Dbos, Self::PgbenchBatched];

    /// Its name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::HandWritten => "hand-written",
            Self::Earmark => "earmark",
            Self::AgentEffects => "agent-effects",
            Self::Dbos => "dbos",
            Self::PgbenchBatched => "pgbench-batched",
            Self::EarmarkDuplicate => "earmark-duplicate",
            Self::PrimaryKeyRead => "primary-key-read",
        }
    }

    /// Whether it is compared on that database.
    pub fn runs_on(self, database: Database) -> bool {
        match self {
            Self::AgentEffects | Self::Dbos | Self::PgbenchBatched => database == Database::Postgres,
            _ => true,
        }
    }

    /// Whether it is somebody else's program: its failure is reported, and the others go on.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::AgentEffects | Self::Dbos)
    }

    /// Whose tables it works on.
    pub fn tables(self) -> Tables {
        match self {
            Self::HandWritten | Self::PgbenchBatched => Tables::HandWritten,
            Self::Earmark | Self::EarmarkDuplicate | Self::PrimaryKeyRead => Tables::Earmark,
            Self::AgentEffects | Self::Dbos => Tables::OfItsOwn,
        }
    }

    /// The name of its database: each system that makes effects has one, so that commits can be told apart.
    pub fn home(self) -> &'static str {
        match self {
            Self::EarmarkDuplicate | Self::PrimaryKeyRead => Self::Earmark.name(),
            _ => self.name(),
        }
    }

    /// Counts the confirmed effects of one round, whose name is bound.
    pub fn count_sql(self, database: Database) -> &'static str {
        let numbered = database == Database::Postgres;
        match (self.tables(), numbered) {
            (Tables::HandWritten, true) => "SELECT count(*) FROM effect WHERE consumer = $1 AND status = 2",
            (Tables::HandWritten, false) => "SELECT count(*) FROM effect WHERE consumer = ? AND status = 2",
            (Tables::Earmark, true) => {
                "SELECT count(*) FROM earmark_claim WHERE tenant = '' AND consumer = $1 AND state = 'confirmed'"
            }
            (Tables::Earmark, false) => {
                "SELECT count(*) FROM earmark_claim WHERE tenant = '' AND consumer = ? AND state = 'confirmed'"
            }
            (Tables::OfItsOwn, _) if self == Self::Dbos => {
                "SELECT count(*) FROM dbos.workflow_status w WHERE w.workflow_uuid LIKE $1 || '/%' AND w.status = 'SUCCESS'
                 AND EXISTS (SELECT 1 FROM dbos.operation_outputs o WHERE o.workflow_uuid = w.workflow_uuid)"
            }
            (Tables::OfItsOwn, _) => {
                "SELECT count(*) FROM agent_effects.effects WHERE effect_name = $1 AND status = 'committed'"
            }
        }
    }
}

/// Who makes the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    HandWritten,
    Earmark,
    OfItsOwn,
}
