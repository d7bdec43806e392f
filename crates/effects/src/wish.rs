//! What is asked for: a typed request or an HTTP call, frozen into a claim.

use std::any::TypeId;
use std::sync::Arc;

#[cfg(feature = "http")]
use earmark_claim::ClaimKey;
use earmark_claim::{Fingerprint, NewClaim, When};

use crate::effect::{Description, Effect};
use crate::error::Error;
use crate::registry::Entry;
use crate::run::Earmark;

/// The form of effects that need the service's code.
const OPAQUE: &str = "opaque";

/// What is asked for under a claim.
pub(crate) struct Wish {
    pub(crate) entry: Arc<Entry>,
    pub(crate) new: NewClaim,
}

impl Earmark {
    pub(crate) fn wish_of<E: Effect>(&self, request: &E::Request) -> Result<Wish, Error> {
        let name = std::any::type_name::<E>();
        let mut found = self.parts.entries.values().filter(|e| e.type_id == Some(TypeId::of::<E>()));
        match (found.next(), found.next()) {
            (Some(entry), None) => self.wish::<E>(entry.clone(), request),
            (Some(_), Some(_)) => {
                Err(Error::NotRegistered(format!("{name} alone: it serves several kinds; use run_kind")))
            }
            (None, _) => Err(Error::NotRegistered(name.to_owned())),
        }
    }

    pub(crate) fn wish<E: Effect>(&self, entry: Arc<Entry>, request: &E::Request) -> Result<Wish, Error> {
        let effect = entry.effect.clone().and_then(|e| e.downcast::<E>().ok()).ok_or_else(|| {
            Error::NotRegistered(format!("{} under the kind {:?}", std::any::type_name::<E>(), entry.kind))
        })?;
        let bytes = serde_json::to_vec(request).map_err(Error::Request)?;
        let fingerprint = match effect.canonical(request) {
            Some(canonical) => Fingerprint::of(&entry.kind, &canonical),
            None => Fingerprint::of(&entry.kind, &bytes),
        };
        let new = NewClaim::new(&entry.kind, &entry.downstream, bytes, entry.declared.clone());
        Ok(describe(entry, NewClaim { fingerprint, form: OPAQUE.into(), ..new }, effect.describe(request)))
    }

    #[cfg(feature = "http")]
    pub(crate) fn http_wish(
        &self,
        kind: &str,
        key: &ClaimKey,
        call: &crate::http::HttpCall,
        description: Description,
    ) -> Result<Wish, Error> {
        let entry = self.entry(kind)?;
        if entry.performer.is_some() {
            return Err(Error::NotRegistered(format!(
                "HTTP calls under the kind {kind:?}: register it with http_kind"
            )));
        }
        let idempotency_key = self.parts.store.idempotency_key(key, &entry.key_choice)?;
        let frozen =
            call.freeze(kind, &idempotency_key, &self.parts.store.reference(key)).map_err(Error::Call)?;
        if matches!(entry.declared.repeat, earmark_claim::RepeatSafety::Keyed { .. }) && !call.sends_key() {
            return Err(Error::Call(crate::http::Faults::one(format!(
                "{kind} is declared Keyed, but this call does not send the key, so that a repeat would be a second \
                 effect: say where it goes with .key_header(…) or .key_at(…), or declare Never"
            ))));
        }
        let new = NewClaim {
            fingerprint: frozen.fingerprint,
            form: crate::http::FORM.into(),
            credential: frozen.credential,
            ..NewClaim::new(kind, &entry.downstream, frozen.bytes, entry.declared.clone())
        };
        Ok(describe(entry, new, description))
    }
}

fn describe(entry: Arc<Entry>, new: NewClaim, description: Description) -> Wish {
    let Description { summary, business_ref, amount } = description;
    let new = NewClaim {
        key_choice: entry.key_choice.clone(),
        send_by: entry.send_within.map(When::In),
        summary,
        business_ref,
        amount,
        ..new
    };
    Wish { entry, new }
}
