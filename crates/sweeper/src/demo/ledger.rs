//! The downstream's own ledger: what truly happened, one line an effect, on the disk before anybody is told.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::messages::MessageId;
use super::wire::Account;

/// One effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Effect {
    pub(super) id: String,
    pub(super) account: Account,
    pub(super) tenant: String,
    pub(super) message: String,
    pub(super) key: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) amount_minor: Option<i64>,
    pub(super) currency: Option<String>,
    /// Which process asked for it.
    pub(super) process: String,
}

/// Appended to, never edited.
pub(super) struct Ledger {
    file: File,
    next: u64,
    by_key: HashMap<(Account, String), String>,
    by_reference: HashMap<(Account, String), Vec<String>>,
}

impl Ledger {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(path).with_context(|| format!("the ledger {}", path.display()))?;
        Ok(Self { file, next: 1, by_key: HashMap::new(), by_reference: HashMap::new() })
    }

    /// Acts, unless it has acted under this key: answers the effect's id.
    pub(super) fn act(&mut self, mut effect: Effect) -> std::io::Result<String> {
        let key = effect.key.clone().map(|key| (effect.account, key));
        if let Some(id) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            return Ok(id.clone());
        }
        effect.id = format!("eff_{:06}", self.next);
        let mut line = serde_json::to_vec(&effect)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.next += 1;
        let id = effect.id;
        if let Some(key) = key {
            self.by_key.insert(key, id.clone());
        }
        if let Some(reference) = effect.reference {
            self.by_reference.entry((effect.account, reference)).or_default().push(id.clone());
        }
        Ok(id)
    }

    /// Every effect with this reference.
    pub(super) fn look(&self, account: Account, reference: &str) -> &[String] {
        self.by_reference.get(&(account, reference.to_owned())).map_or(&[], Vec::as_slice)
    }
}

/// The effects of one account, by message.
pub(super) fn read(path: &Path, account: Account) -> anyhow::Result<HashMap<MessageId, Vec<Effect>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("the ledger {}", path.display()))?;
    let mut found: HashMap<_, Vec<Effect>> = HashMap::new();
    for line in text.lines() {
        let effect: Effect =
            serde_json::from_str(line).with_context(|| format!("the ledger {}", path.display()))?;
        if effect.account == account {
            found.entry((effect.tenant.clone(), effect.message.clone())).or_default().push(effect);
        }
    }
    Ok(found)
}
