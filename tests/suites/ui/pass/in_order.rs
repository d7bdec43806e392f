//! Claim, permit, call, settle; and the same from a claim that joined a transaction.

use earmark_claim::{
    Backoff, Begun, ClaimKey, ClaimStore, Claimed, DatabaseTransaction, Error, Failure, Joined, NewClaim,
    Permit, Receipt, Settled,
};

async fn call(permit: Permit<'_>) -> Result<Receipt, Failure> {
    let _request = permit.idempotency_key().as_str();
    permit.last_look()?;
    Ok(Receipt::new(None, None))
}

#[allow(dead_code)] // that it compiles is the test
pub(crate) async fn at_once(store: &ClaimStore, key: &ClaimKey, new: NewClaim) -> Result<(), Error> {
    if let Claimed::Won(claim) = store.claim(key, new).await? {
        let outcome = call(claim.permit()).await;
        let _: Settled = store.settle(claim, outcome, Backoff::default()).await?;
    }
    Ok(())
}

#[allow(dead_code)] // that it compiles is the test
pub(crate) async fn joined(
    store: &ClaimStore,
    tx: DatabaseTransaction,
    key: &ClaimKey,
    new: NewClaim,
) -> Result<(), Error> {
    let joined = store.claim_in(&tx, key, new).await?;
    tx.commit().await.map_err(Error::InTransaction)?;
    if let Joined::Held(held) = joined
        && let Begun::Started(started) = store.begin(held).await?
    {
        let outcome = call(started.claim.permit()).await;
        let _: Settled = store.settle(started.claim, outcome, Backoff::default()).await?;
    }
    Ok(())
}
