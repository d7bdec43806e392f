//! Which kinds this process can perform, checked whole when it is built.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use earmark_claim::{Backoff, ClaimStore, Declared, KeyChoice};
use tokio_util::task::TaskTracker;

use crate::effect::Effect;
use crate::erased::{AnyEffect, Performer, Typed, Unprobed};
use crate::error::Error;
use crate::gate::{Gate, Gates, Limits};
use crate::probe::Probe;
use crate::run::Earmark;

/// A kind that this process can perform.
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) downstream: String,
    pub(crate) declared: Declared,
    pub(crate) key_choice: KeyChoice,
    pub(crate) send_within: Option<Duration>,
    pub(crate) type_id: Option<TypeId>,
    pub(crate) effect: Option<AnyEffect>,
    /// `None`: of a form that the HTTP effect performs.
    pub(crate) performer: Option<Arc<dyn Performer>>,
    pub(crate) probes: bool,
    /// Of its downstream; one of nobody until everything is built.
    pub(crate) gate: Arc<Gate>,
}

/// Collects effects; [`build`](Builder::build) refuses the whole with every fault named.
#[must_use = "nothing is checked before `build`"]
pub struct Builder {
    store: ClaimStore,
    entries: Vec<Entry>,
    #[cfg(feature = "http")]
    http: Option<Arc<crate::http::HttpEffect>>,
    backoff: Backoff,
    limits: BTreeMap<String, Limits>,
    pauses_every: Duration,
}

/// A pause must be obeyed before a person has finished a cup of tea.
const PAUSES_EVERY_MAX: Duration = Duration::from_secs(300);

impl Builder {
    pub(crate) fn new(store: ClaimStore) -> Self {
        Self {
            store,
            entries: Vec::new(),
            #[cfg(feature = "http")]
            http: None,
            backoff: Backoff::default(),
            limits: BTreeMap::new(),
            pauses_every: Duration::from_secs(5),
        }
    }

    /// An effect that cannot be asked afterwards.
    pub fn effect<E: Effect>(self, effect: E) -> Self {
        self.typed::<E, Unprobed>(effect, None)
    }

    /// An effect whose provider can be asked.
    pub fn probed<E: Effect, P: Probe>(self, effect: E, probe: P) -> Self {
        self.typed(effect, Some(probe))
    }

    fn typed<E: Effect, P: Probe>(mut self, effect: E, probe: Option<P>) -> Self {
        let effect = Arc::new(effect);
        let probes = probe.is_some();
        self.entries.push(Entry {
            kind: effect.kind().to_owned(),
            downstream: effect.downstream().to_owned(),
            declared: effect.declared(),
            key_choice: effect.key_choice(),
            send_within: effect.send_within(),
            type_id: Some(TypeId::of::<E>()),
            effect: Some(effect.clone()),
            performer: Some(Arc::new(Typed { effect, probe })),
            probes,
            gate: Arc::default(),
        });
        self
    }

    /// The HTTP effect: with it, every claim of form `http/1` can be performed and asked about, whoever made it.
    #[cfg(feature = "http")]
    pub fn http(mut self, http: crate::http::HttpEffect) -> Self {
        self.http = Some(Arc::new(http));
        self
    }

    /// A kind of HTTP calls, for [`Earmark::run_http`].
    #[cfg(feature = "http")]
    pub fn http_kind(mut self, kind: HttpKind) -> Self {
        let HttpKind { kind, downstream, declared, key_choice, send_within } = kind;
        let probes = declared.probe.is_some();
        self.entries.push(Entry {
            kind,
            downstream,
            declared,
            key_choice,
            send_within,
            type_id: None,
            effect: None,
            performer: None,
            probes,
            gate: Arc::default(),
        });
        self
    }

    /// How long open claims wait before they are looked at again.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Limits and breaker of a downstream, **in this process**. Those that are not named have [`Limits::default`]: no limits, and a breaker.
    pub fn downstream(mut self, name: impl Into<String>, limits: Limits) -> Self {
        self.limits.insert(name.into(), limits);
        self
    }

    /// How often this process reads which downstreams a person has paused, at most; default 5 s. A pause is obeyed after twice that at the
    /// latest. One row a pause is read, by whichever effect comes first after the interval, in the background; zero reads before every
    /// effect.
    pub fn pauses_every(mut self, every: Duration) -> Self {
        self.pauses_every = every;
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`Error::Config`] with every fault and its fix.
    pub fn build(self) -> Result<Earmark, Error> {
        let faults = self.faults();
        if !faults.is_empty() {
            return Err(Error::Config(faults));
        }
        let gates = Gates::new(self.limits, self.pauses_every);
        let with_gate = |entry: Entry| Entry { gate: gates.of(&entry.downstream), ..entry };
        let entries = self.entries.into_iter().map(with_gate);
        Ok(Earmark::new(crate::run::Parts {
            store: self.store,
            entries: entries.map(|e| (e.kind.clone(), Arc::new(e))).collect(),
            gates: Arc::new(gates),
            #[cfg(feature = "http")]
            http: self.http,
            backoff: self.backoff,
            tasks: TaskTracker::new(),
        }))
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.backoff.base.is_zero() || self.backoff.max < self.backoff.base {
            faults.push(format!(
                "the backoff goes from {:?} to {:?}: it must wait, and the greatest ceiling cannot be below the first",
                self.backoff.base, self.backoff.max
            ));
        }
        if self.pauses_every > PAUSES_EVERY_MAX {
            faults.push(format!(
                "pauses_every is {:?}: a person who pauses a downstream would wait for minutes; at most {PAUSES_EVERY_MAX:?}",
                self.pauses_every
            ));
        }
        for (name, limits) in &self.limits {
            faults.extend(limits.faults().into_iter().map(|fault| format!("downstream {name}: {fault}")));
            if !is_stored_name(name, 64) {
                faults.push(format!("the downstream {name:?} is no stored name: 1 to 64 ASCII characters"));
            }
        }
        let options = self.store.options();
        let mut verbatim: BTreeMap<&str, &str> = BTreeMap::new();
        for (n, entry) in self.entries.iter().enumerate() {
            let kind = &entry.kind;
            let mut fault = |what: String| faults.push(format!("{kind}: {what}"));
            entry.declared.faults().into_iter().for_each(&mut fault);
            if !is_stored_name(kind, 128) {
                fault("a kind is a stored name: 1 to 128 ASCII characters".to_owned());
            }
            if !is_stored_name(&entry.downstream, 64) {
                fault(format!(
                    "the downstream {:?} is no stored name: 1 to 64 ASCII characters",
                    entry.downstream
                ));
            }
            match entry.send_within {
                Some(within) if within.is_zero() => {
                    fault("send_within is zero: it could never be sent; None means at any time".to_owned());
                }
                Some(within) if within > SEND_WITHIN_MAX => {
                    fault(format!("send_within is {within:?}, more than ten years; None means at any time"));
                }
                _ => {}
            }
            if self.entries[..n].iter().any(|other| other.kind == *kind) {
                fault("registered twice: kinds are stored, and must name one effect".to_owned());
            }
            let needed = entry.declared.call_timeout.saturating_add(options.margin);
            if options.lease <= needed {
                fault(format!(
                    "the store's lease ({:?}) is not longer than call_timeout plus margin ({needed:?}): the claim would be \
                     swept while its call is under way",
                    options.lease
                ));
            }
            match (entry.declared.probe, entry.probes) {
                (Some(_), false) => {
                    fault("declares a probe, but has none: register it with .probed(effect, probe)".into())
                }
                (None, true) => fault("has a probe, but declares no terms for it (lag, proof, looks)".into()),
                _ => {}
            }
            if matches!(entry.key_choice, KeyChoice::Verbatim(_))
                && let Some(other) = verbatim.insert(&entry.downstream, kind)
            {
                fault(format!(
                    "sends the message id verbatim to {:?}, and so does {other:?}: both would send one key for two effects",
                    entry.downstream
                ));
            }
            #[cfg(feature = "http")]
            if entry.performer.is_none() && self.http.is_none() {
                fault("is a kind of HTTP calls, but there is no HTTP effect: add .http(…)".to_owned());
            }
        }
        faults
    }
}

/// What a claim's send-by can hold.
const SEND_WITHIN_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The store would refuse every single claim with another; here it is refused once, when the service starts.
fn is_stored_name(name: &str, max: usize) -> bool {
    (1..=max).contains(&name.len()) && name.is_ascii() && !name.contains(char::is_control)
}

/// A kind of HTTP calls: what is declared about all of them. The call itself is given with each claim.
#[cfg(feature = "http")]
#[derive(Clone, Debug)]
pub struct HttpKind {
    kind: String,
    downstream: String,
    declared: Declared,
    key_choice: KeyChoice,
    send_within: Option<Duration>,
}

#[cfg(feature = "http")]
impl HttpKind {
    /// A kind with its stored name, the stored name of its provider, and what it declares.
    pub fn new(kind: impl Into<String>, downstream: impl Into<String>, declared: Declared) -> Self {
        Self {
            kind: kind.into(),
            downstream: downstream.into(),
            declared,
            key_choice: KeyChoice::Derived,
            send_within: None,
        }
    }

    /// Which idempotency key the provider sees.
    #[must_use]
    pub fn key_choice(mut self, choice: KeyChoice) -> Self {
        self.key_choice = choice;
        self
    }

    /// How long after it was claimed it may still be sent.
    #[must_use]
    pub fn send_within(mut self, within: Duration) -> Self {
        self.send_within = Some(within);
        self
    }
}
