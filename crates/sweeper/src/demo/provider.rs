//! The parent's end of the downstream: what is open there now, and what it did in all.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::sync::mpsc;

use super::processes::{Child, Voice};
use super::wire::{Asked, DownstreamSetup, Tally, Told};

pub(super) struct Provider {
    child: Child,
    told: mpsc::UnboundedReceiver<Told>,
    pub(super) origin: String,
    pub(super) ledger: PathBuf,
    /// Number and process of each open request, oldest first.
    open: Vec<(u64, String)>,
}

impl Provider {
    pub(super) async fn start(folder: &Path, seed: u64) -> anyhow::Result<Self> {
        let (log, ledger) = (folder.join("downstream.log"), folder.join("downstream-ledger.jsonl"));
        let setup = DownstreamSetup { ledger: ledger.clone(), seed };
        let (child, voice) = Child::start("downstream", &setup, &log).await?;
        let (to, told) = mpsc::unbounded_channel();
        tokio::spawn(listen(voice, to));
        let mut this = Self { child, told, origin: String::new(), ledger, open: Vec::new() };
        match this.next().await {
            Ok(Told::Listening { port }) => this.origin = format!("http://127.0.0.1:{port}"),
            _ => anyhow::bail!("the downstream did not start: see {}", log.display()),
        }
        Ok(this)
    }

    /// The next thing that it tells. Safe to drop and to call again.
    pub(super) async fn next(&mut self) -> anyhow::Result<Told> {
        let told = self.told.recv().await.context("the downstream has ended: see downstream.log")?;
        match &told {
            Told::Open { n, process } => self.open.push((*n, process.clone())),
            Told::Shut { n } => self.open.retain(|(open, _)| open != n),
            _ => {}
        }
        Ok(told)
    }

    /// Whether that process has a request open.
    pub(super) fn holds(&self, process: &str) -> bool {
        self.open.iter().any(|(_, of)| of == process)
    }

    /// Lets it note what that process has open; `Noted` says that it has.
    pub(super) async fn note(&mut self, process: &str) {
        self.child.send(&Asked::Killing(process.to_owned())).await;
    }

    /// What it did so far, once nothing is under way.
    pub(super) async fn tally(&mut self) -> anyhow::Result<Tally> {
        self.child.send(&Asked::Tally).await;
        loop {
            if let Told::Tally(tally) = self.next().await? {
                return Ok(tally);
            }
        }
    }

    pub(super) async fn end(self) {
        let _ = self.child.end().await;
    }
}

async fn listen(mut voice: Voice, to: mpsc::UnboundedSender<Told>) {
    while let Some(told) = voice.next().await {
        if to.send(told).is_err() {
            return;
        }
    }
}
