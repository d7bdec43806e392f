//! Asking the provider whether it happened, without causing it.

use earmark_claim::state::Finding;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answers::RULES_MAX;
use super::on::{Fit, On, misspelt, same};
use super::seen::Seen;
use super::table::id_text;
use super::template::{self, Known};
use super::{guard, pointer};

/// Most bytes of an answer to a look that are held and judged. A list of a hundred charges has about 300 KB.
pub(super) const LOOK_BYTES_MAX: usize = 1024 * 1024;

/// A question to the provider: a request that changes nothing, and a closed table of what its answers say.
///
/// URL, headers, body and the values in conditions may hold `{idempotency_key}`, `{reference}` and `{provider_ref}`;
/// they are filled in when it is asked. A probe that needs a provider's id which is not on file is passed over: give
/// an effect two, one by id and one by reference.
///
/// Everything that no rule fits, every error and every body that did not arrive whole says *cannot tell*.
///
/// ```
/// use earmark_effects::http::{HttpProbe, Items, On};
/// // A list that the provider filters by our reference. Some ignore a parameter that they do not know and return
/// // everything: so the entries are compared here, too.
/// HttpProbe::get("https://api.example.com/v1/charges?reference={reference}")
///     .done_items(On::status(200), Items::at("/data").with("/metadata/reference", "{reference}").id("/id"))
///     .not_done(On::status(200).json("/has_more", false));
/// // By the provider's id, where a 202 named one.
/// HttpProbe::get("https://api.example.com/v1/charges/{provider_ref}")
///     .done(On::status(200).json("/status", "succeeded"), "/id")
///     .refused_for_good(On::status(200).json("/status", "failed"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpProbe {
    stored: StoredProbe,
    /// Whether the credential is the call's.
    own_credential: bool,
}

/// A list in an answer: which of its entries are ours, and where they name their id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Items {
    at: String,
    with: Vec<(String, Value)>,
    id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredProbe {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    /// JSON, placeholders in its strings.
    pub(super) body: Option<String>,
    pub(super) credential: Option<String>,
    /// A POST that only searches.
    search: bool,
    answers: Vec<LookRule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LookRule {
    on: On,
    says: Says,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Says {
    Done { id: Option<String> },
    DoneItems(Items),
    NotDone {},
    Refused { covers_all: bool },
    CannotTell {},
}

impl Items {
    /// The list at this JSON pointer.
    pub fn at(list: &str) -> Self {
        Self { at: list.to_owned(), with: Vec::new(), id: None }
    }

    /// Ours are those with this value at the JSON pointer, counted from the entry. Placeholders are filled in.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.with.push((field.to_owned(), value.into()));
        self
    }

    /// An entry names its id at this JSON pointer, counted from the entry.
    pub fn id(mut self, at: &str) -> Self {
        self.id = Some(at.to_owned());
        self
    }
}

impl HttpProbe {
    /// Asks with GET.
    pub fn get(url: &str) -> Self {
        Self::new("GET", url, false)
    }

    /// Asks with HEAD.
    pub fn head(url: &str) -> Self {
        Self::new("HEAD", url, false)
    }

    /// Asks with POST at an address that only searches. Saying so is the author's promise that it changes nothing.
    pub fn search(url: &str, body: &Value) -> Self {
        let mut probe = Self::new("POST", url, true).header("content-type", "application/json");
        probe.stored.body = Some(body.to_string());
        probe
    }

    fn new(method: &str, url: &str, search: bool) -> Self {
        let (method, url) = (method.to_owned(), url.to_owned());
        let (headers, answers) = (Vec::new(), Vec::new());
        let stored = StoredProbe { method, url, headers, body: None, credential: None, search, answers };
        Self { stored, own_credential: false }
    }

    /// Sends this header, too.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.stored.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses another credential than the call. `None`: none.
    pub fn credential(mut self, name: Option<&str>) -> Self {
        (self.stored.credential, self.own_credential) = (name.map(str::to_owned), true);
        self
    }

    /// It happened; the JSON pointer names the provider's id, or with a segment `*` the ids of all matches. Where it
    /// finds nothing, the rule does not fit: an empty list is no match. Where it finds what is no id, or a list whose
    /// entries have none, or the answer is not JSON, it cannot tell.
    pub fn done(self, on: On, ids_at: &str) -> Self {
        self.rule(on, Says::Done { id: Some(ids_at.to_owned()) })
    }

    /// It happened; the answer names no id.
    pub fn done_without_id(self, on: On) -> Self {
        self.rule(on, Says::Done { id: None })
    }

    /// It happened if the list holds one of ours. Where it holds none, the rule does not fit; where there is no list,
    /// it cannot tell.
    pub fn done_items(self, on: On, items: Items) -> Self {
        self.rule(on, Says::DoneItems(items))
    }

    /// It was looked for and not found. Whether that is proof is declared with the effect, not here. Mind pages: an
    /// answer that is not the last page says nothing.
    pub fn not_done(self, on: On) -> Self {
        self.rule(on, Says::NotDone {})
    }

    /// It was refused for good, and the answer speaks for every attempt of the claim.
    pub fn refused_for_good(self, on: On) -> Self {
        self.rule(on, Says::Refused { covers_all: true })
    }

    /// It cannot tell: to take an answer out of a later rule.
    pub fn cannot_tell(self, on: On) -> Self {
        self.rule(on, Says::CannotTell {})
    }

    fn rule(mut self, on: On, says: Says) -> Self {
        self.stored.answers.push(LookRule { on, says });
        self
    }

    /// Everything that is wrong with it.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.stored.faults();
        faults.extend(guard::secret_faults(&self.stored.headers));
        let texts =
            std::iter::once(&self.stored.url).chain(self.stored.headers.iter().map(|(_, value)| value));
        faults.extend(texts.filter_map(|text| misspelt(text)));
        if let Ok(url) = self.stored.url(&EXAMPLE) {
            faults.extend(guard::secret_parameter_faults(&url));
        }
        faults
    }

    pub(super) fn stored(&self, credential_of_call: Option<&String>) -> StoredProbe {
        let mut stored = self.stored.clone();
        if !self.own_credential {
            stored.credential = credential_of_call.cloned();
        }
        stored
    }
}

/// Values to try a template with.
const EXAMPLE: Known<'static> =
    Known { idempotency_key: "key", reference: "REFERENCE", provider_ref: Some("id") };

impl StoredProbe {
    /// The address, placeholders filled in. They cannot change where it goes: the origin holds none.
    pub(super) fn url(&self, known: &Known<'_>) -> Result<url::Url, Vec<String>> {
        guard::fixed_origin(&self.url)?;
        let filled = template::fill(&self.url, known, template::Place::Url).map_err(|e| vec![e])?;
        guard::url(&filled)
    }

    /// Whether it can be asked only once the provider's id is known.
    pub(super) fn needs_provider_ref(&self) -> bool {
        let headers = self.headers.iter().map(|(_, value)| value);
        headers.chain([&self.url]).chain(&self.body).any(|text| template::names_provider_ref(text))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = guard::header_faults(&self.headers);
        let safe = matches!(self.method.as_str(), "GET" | "HEAD") || (self.method == "POST" && self.search);
        if !safe {
            faults.push(format!(
                "it asks with {:?}: GET, HEAD, or HttpProbe::search for a POST that changes nothing",
                self.method
            ));
        }
        faults.extend(self.url(&EXAMPLE).err().unwrap_or_default());
        if self.answers.len() > RULES_MAX {
            faults.push(format!("{} rules, at most {RULES_MAX}", self.answers.len()));
        }
        if !self.answers.iter().any(|rule| !matches!(rule.says, Says::CannotTell {})) {
            faults.push("no rule says anything: it could never tell".to_owned());
        }
        for (n, rule) in self.answers.iter().enumerate() {
            let of_rule = rule.on.faults().into_iter().chain(rule.says.faults());
            faults.extend(of_rule.map(|fault| format!("rule {}: {fault}", n + 1)));
        }
        faults.into_iter().map(|fault| format!("the probe {}: {fault}", self.url)).collect()
    }

    /// What an answer says.
    pub(super) fn judge(&self, seen: &Seen, known: &Known<'_>) -> Finding {
        for rule in &self.answers {
            match rule.on.fit(seen, Some(known)) {
                Fit::No => {}
                // It might have decided, had the body arrived whole.
                Fit::Unread => return Finding::CannotTell,
                Fit::Yes => {
                    if let Some(finding) = rule.says.of(seen, known) {
                        return finding;
                    }
                }
            }
        }
        Finding::CannotTell
    }
}

impl Says {
    /// `None`: it does not fit after all.
    fn of(&self, seen: &Seen, known: &Known<'_>) -> Option<Finding> {
        match self {
            Self::Done { id: None } => Some(Finding::Done { ids: Vec::new() }),
            Self::NotDone {} => Some(Finding::NotDone),
            Self::Refused { covers_all } => Some(Finding::Refused { covers_all: *covers_all }),
            Self::CannotTell {} => Some(Finding::CannotTell),
            // Ids are read from the body: one that was cut might hold more of them.
            Self::Done { .. } | Self::DoneItems(_) if !seen.body.whole => Some(Finding::CannotTell),
            // A page of a proxy in the place of an answer is not an answer without a match.
            Self::Done { .. } | Self::DoneItems(_) if seen.body.json.is_none() => Some(Finding::CannotTell),
            Self::Done { id: Some(at) } => {
                let json = seen.body.json.as_ref()?;
                // Where the list itself is missing, "no match" would be a guess.
                let list = at.split_once("/*").map(|(list, _)| list);
                if list.is_some_and(|list| !pointer::find(json, list).iter().any(|v| v.is_array())) {
                    return Some(Finding::CannotTell);
                }
                let found = pointer::find(json, at);
                let ids = distinct(found.iter().copied().filter_map(id_text));
                if !ids.is_empty() {
                    return Some(Finding::Done { ids });
                }
                // Something is there, and its id is none that can be kept, or stands elsewhere: that is not "no match".
                let entries =
                    at.rsplit_once("/*").map_or_else(Vec::new, |(list, _)| pointer::find(json, list));
                let holds_some = |v: &&Value| v.as_array().is_some_and(|list| !list.is_empty());
                let something = found.iter().any(|v| !v.is_null()) || entries.iter().any(holds_some);
                something.then_some(Finding::CannotTell)
            }
            Self::DoneItems(items) => items.ours(seen.body.json.as_ref()?, known),
        }
    }

    fn faults(&self) -> Vec<String> {
        match self {
            Self::Done { id: Some(at) } => pointer::fault(at).into_iter().collect(),
            Self::DoneItems(items) => items.faults(),
            _ => Vec::new(),
        }
    }
}

/// One effect that a list names twice is one effect.
fn distinct(ids: impl Iterator<Item = String>) -> Vec<String> {
    ids.fold(Vec::new(), |mut ids, id| {
        if !ids.contains(&id) {
            ids.push(id);
        }
        ids
    })
}

impl Items {
    fn ours(&self, document: &Value, known: &Known<'_>) -> Option<Finding> {
        let lists: Vec<_> =
            pointer::find(document, &self.at).into_iter().filter_map(Value::as_array).collect();
        if lists.is_empty() {
            return Some(Finding::CannotTell);
        }
        let is_ours = |item: &&Value| {
            let has = |(at, wanted): &(String, Value)| {
                pointer::find(item, at).into_iter().any(|found| same(found, wanted, Some(known)))
            };
            self.with.iter().all(has)
        };
        let ours: Vec<&Value> = lists.into_iter().flatten().filter(is_ours).collect();
        if ours.is_empty() {
            return None;
        }
        let id = |item: &&Value| pointer::find(item, self.id.as_ref()?).into_iter().find_map(id_text);
        Some(Finding::Done { ids: distinct(ours.iter().filter_map(id)) })
    }

    fn faults(&self) -> Vec<String> {
        let pointers = self.with.iter().map(|(at, _)| at).chain([&self.at]).chain(&self.id);
        let mut faults: Vec<String> = pointers.filter_map(|at| pointer::fault(at)).collect();
        if self.with.is_empty() {
            faults.push(
                "the list's entries are compared with nothing: say which are ours with Items::with"
                    .to_owned(),
            );
        }
        let texts = self.with.iter().filter_map(|(_, value)| value.as_str());
        faults.extend(texts.filter_map(misspelt));
        faults
    }
}
