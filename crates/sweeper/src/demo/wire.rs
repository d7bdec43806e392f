//! What the processes of the demo say to each other: one JSON object a line, over pipes.
//!
//! Every child reads its standard input to the end, and ends with it: whatever happens to the parent, its pipes are closed then.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::messages::Message;

/// Which of the two runs: also the path at the downstream, as if each had an account there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Account {
    /// Under claims.
    Earmark,
    /// With the naive existence check.
    Control,
}

impl Account {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Earmark => "earmark",
            Self::Control => "control",
        }
    }
}

/// The first line that a service or a sweeper reads. Not in its arguments: those are seen by all users of the machine, and the URL may hold a
/// password.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// With a number that no other incarnation has: `service-a/3`. Sent to the downstream as the user agent.
    pub(super) process: String,
    pub(super) account: Account,
    pub(super) database: String,
    /// Of this run alone.
    pub(super) consumer: String,
    /// Of the downstream.
    pub(super) origin: String,
}

/// To a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Delivery {
    pub(super) n: u64,
    pub(super) message: Message,
}

/// From a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// Connected: deliveries are welcome.
    Ready,
    /// Done with it: never deliver it again.
    Ack { n: u64, mismatch: bool },
    /// Could not be handled now: deliver it again.
    Nack { n: u64 },
}

/// The first line that the downstream reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DownstreamSetup {
    pub(super) ledger: PathBuf,
    pub(super) seed: u64,
}

/// To the downstream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Asked {
    /// The parent is about to kill that process: note its open requests.
    Killing(String),
    /// Say what happened, once nothing is under way any more.
    Tally,
}

/// From the downstream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Listening {
        port: u16,
    },
    /// A request of that process has arrived whole.
    Open {
        n: u64,
        process: String,
    },
    /// It was answered, or its client is gone.
    Shut {
        n: u64,
    },
    /// The open requests of that process are noted: so many.
    Noted {
        process: String,
        open: usize,
    },
    Tally(Tally),
}

/// What the downstream did, and saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Processes of which it had an open request when they were killed, and saw it cut.
    pub(super) cut: Vec<String>,
    pub(super) requests: u64,
    /// Acted, and dropped the answer.
    pub(super) dropped: u64,
    /// Never answered; some acted, some did not, some acted after the client had given up.
    pub(super) hung: u64,
    /// Answered 500, before or after acting.
    pub(super) failed: u64,
    pub(super) looks: u64,
    /// Why the control acted again: its process was killed over the call before; that one got no answer; or it was answered, and not yet noted
    /// when somebody else looked.
    pub(super) killed: u64,
    pub(super) unanswered: u64,
    pub(super) together: u64,
}

/// One line to standard output.
pub(super) fn tell(line: &impl Serialize) {
    use std::io::Write;
    // The parent is gone if this fails, and the end of standard input says so, too.
    if let Ok(mut text) = serde_json::to_string(line) {
        text.push('\n');
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Standard input, line by line, read by a thread of its own.
pub(super) struct Inbox(mpsc::UnboundedReceiver<String>);

/// A child whose parent is gone finishes what it has begun, but not for longer than this.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

impl Inbox {
    pub(super) fn open() -> Self {
        let (to, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { break };
                if to.send(line).is_err() {
                    break;
                }
            }
            drop(to);
            std::thread::sleep(ENDS_WITHIN);
            std::process::exit(1);
        });
        Self(lines)
    }

    /// The next line; `None` at the end.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        Ok(match self.0.recv().await {
            Some(line) => Some(serde_json::from_str(&line)?),
            None => None,
        })
    }

    /// The first line, which says what to do.
    pub(super) async fn setup<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        self.next()
            .await?
            .ok_or_else(|| anyhow::anyhow!("a process of the demo: it is started by `earmark demo`"))
    }
}
