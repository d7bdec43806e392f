//! The erased twins: what the registry holds, and what a sweep can call without knowing any type.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use earmark_claim::failure::chain;
use earmark_claim::state::Finding;
use earmark_claim::{Answer, ErrorClass, Failure, Look, Permit, Receipt};

use crate::effect::Effect;
use crate::probe::{Probe, Subject};

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Performs stored requests of one kind, or of one form.
pub(crate) trait Performer: Send + Sync {
    /// Performs a stored request once.
    fn perform<'a>(&'a self, permit: Permit<'a>, request: &'a [u8]) -> Boxed<'a, Result<Receipt, Failure>>;

    /// Looks once.
    fn look<'a>(&'a self, about: Subject<'a>) -> Boxed<'a, Look>;
}

/// An effect of a user's, with or without a probe.
pub(crate) struct Typed<E, P> {
    pub(crate) effect: Arc<E>,
    pub(crate) probe: Option<P>,
}

/// No probe.
pub(crate) enum Unprobed {}

impl Probe for Unprobed {
    async fn look(&self, _: &Subject<'_>) -> Look {
        match *self {}
    }
}

impl<E: Effect, P: Probe> Performer for Typed<E, P> {
    fn perform<'a>(&'a self, permit: Permit<'a>, request: &'a [u8]) -> Boxed<'a, Result<Receipt, Failure>> {
        Box::pin(async move {
            let request: E::Request = serde_json::from_slice(request)
                .map_err(|e| Failure::not_sent(ErrorClass::REQUEST_UNREADABLE).because(chain(&e)))?;
            let receipt = self.effect.perform(permit, &request).await?;
            let provider_ref = self.effect.provider_ref(&receipt);
            // It has happened: a receipt that cannot be written down is a confirmed effect all the same.
            let answer = Answer::json(&receipt).ok();
            Ok(Receipt::new(answer, provider_ref))
        })
    }

    fn look<'a>(&'a self, about: Subject<'a>) -> Boxed<'a, Look> {
        Box::pin(async move {
            match &self.probe {
                Some(probe) => probe.look(&about).await,
                None => Finding::CannotTell.into(),
            }
        })
    }
}

/// The typed effect behind a registered kind.
pub(crate) type AnyEffect = Arc<dyn Any + Send + Sync>;

#[cfg(feature = "http")]
impl Performer for crate::http::HttpEffect {
    fn perform<'a>(&'a self, permit: Permit<'a>, request: &'a [u8]) -> Boxed<'a, Result<Receipt, Failure>> {
        Box::pin(self.perform(permit, request))
    }

    fn look<'a>(&'a self, about: Subject<'a>) -> Boxed<'a, Look> {
        Box::pin(async move {
            let subject = crate::http::Subject {
                idempotency_key: about.idempotency_key,
                reference: about.reference,
                provider_ref: about.provider_ref,
            };
            self.look_with_note(&subject, about.request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Performer};

    #[test]
    fn the_twin_is_object_safe() {
        fn takes(_: Option<Arc<dyn Performer>>) {}
        takes(None);
    }
}
