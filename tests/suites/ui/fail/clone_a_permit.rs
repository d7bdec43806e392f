//! A permit is for one call: it is moved into it.

use earmark_claim::{Failure, Permit};

async fn call(_: Permit<'_>) -> Result<(), Failure> {
    Ok(())
}

async fn twice(permit: Permit<'_>) -> Result<(), Failure> {
    call(permit.clone()).await?;
    call(permit).await
}

fn main() {}
