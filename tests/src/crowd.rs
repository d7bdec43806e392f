//! Processes that share one database: services that all get every message, and sweepers beside them. The test's own program, run
//! again.
//!
//! A suite that uses it has one test that calls [`take_part`] and nothing else, and names it to [`Member::start`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use earmark_claim::{ClaimStore, StoreOptions, failure};
use earmark_effects::credentials::Credentials;
use earmark_effects::{Description, Earmark, Outcome};
use earmark_sweeper::{Sweeper, SweeperOptions};
use serde::{Deserialize, Serialize};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::claims::{LEASE, key};
use crate::http::{KIND, charge_at, service_at, sidecar};
use crate::process::{declared, start};

const VARIABLE: &str = "EARMARK_TEST_MEMBER";

/// Messages that one service handles at once.
const TASKS: usize = 32;

/// Between two passes of a sweeper.
const PAUSE: Duration = Duration::from_millis(20);

/// One process.
#[derive(Clone, Serialize, Deserialize)]
pub struct Member {
    /// The database.
    pub database: String,
    /// The provider.
    pub provider: String,
    /// What it does.
    pub role: Role,
}

/// What a process does.
#[derive(Clone, Serialize, Deserialize)]
pub enum Role {
    /// Gets that many messages, `m0` and on, in an order of its own, charges for each, and ends with success if each had an
    /// outcome that may be acknowledged.
    Service {
        /// How many messages.
        messages: usize,
        /// Of the order.
        seed: u64,
    },
    /// Sweeps until it is told to stop.
    Sweeper {
        /// Its name in heartbeats.
        name: String,
    },
}

impl Member {
    /// Starts it; `test` is the full name of the test that calls [`take_part`]. It is killed when it is dropped.
    pub fn start(&self, test: &str) -> Child {
        start(test, VARIABLE, self)
    }
}

/// Is the member, where this process was started as one; else does nothing.
pub async fn take_part() {
    let Ok(member) = std::env::var(VARIABLE) else { return };
    let Member { database, provider, role } = serde_json::from_str(&member).expect("a member");
    let store = ClaimStore::connect(&database, StoreOptions::new(LEASE)).await;
    let store = store.unwrap_or_else(|error| panic!("{}", failure::chain(&error)));
    match role {
        Role::Service { messages, seed } => {
            let mut order: Vec<usize> = (0..messages).collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            serve(&service_at(&store, &provider, declared(true)), &provider, order).await;
        }
        Role::Sweeper { name } => {
            let credentials = Credentials::new([], [&provider]).expect("an origin");
            sweep(&sidecar(&store, credentials).build().expect("a sidecar"), name).await;
        }
    }
    store.close().await;
}

async fn serve(earmark: &Earmark, provider: &str, order: Vec<usize>) {
    let order = Arc::new(Mutex::new(VecDeque::from(order)));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (earmark, call, order) = (earmark.clone(), charge_at(provider, 1200), order.clone());
        tasks.spawn(async move {
            let next = || order.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(n) = next() {
                let outcome =
                    earmark.run_http(KIND, &key(&format!("m{n}")), &call, Description::default()).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("m{n}: {}", failure::chain(&error)));
                // Retryable: on a loaded machine a connection takes longer than it may.
                let open = matches!(
                    outcome,
                    Outcome::InFlight { .. } | Outcome::InDoubt { .. } | Outcome::Retryable { .. }
                );
                assert!(open || matches!(outcome, Outcome::Confirmed(_)), "m{n}: {outcome:?}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a message was handled");
    }
}

async fn sweep(earmark: &Earmark, name: String) {
    let mut told = signal(SignalKind::terminate()).expect("a signal");
    let sweeper = Sweeper::new(earmark, SweeperOptions { name, ..Default::default() }).expect("a sweeper");
    loop {
        let pass = sweeper.run_once().await;
        pass.unwrap_or_else(|error| panic!("{}", failure::chain(&error)));
        tokio::select! {
            _ = told.recv() => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
