//! A service in a process of its own, to be killed or told to stop: the test's own program, run again.
//!
//! A suite that uses it has one test that calls [`serve`] and nothing else, and names it to [`Service::start`].

use std::process::Stdio;
use std::time::Duration;

use earmark_claim::{ClaimStore, Declared, RepeatSafety, StoreOptions};
use earmark_effects::Description;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::claims::{LEASE, key, keyed, never};
use crate::http::{KIND, charge_at, service_at};

const VARIABLE: &str = "EARMARK_TEST_SERVICE";

/// Longer than any test holds a call open.
const CALL_TIMEOUT: Duration = Duration::from_secs(50);

/// What the service does: it takes that many messages, `m0` and on, and charges for each.
#[derive(Serialize, Deserialize)]
pub struct Service {
    /// The database.
    pub database: String,
    /// The provider.
    pub provider: String,
    /// How many messages.
    pub messages: usize,
    /// Whether the provider honours keys.
    pub keyed: bool,
    /// How long it waits for its calls when it is told to stop.
    pub grace: Duration,
}

/// What the service declares of its charges.
pub fn declared(is_keyed: bool) -> Declared {
    let declared = if is_keyed { keyed() } else { never() };
    debug_assert_eq!(is_keyed, matches!(declared.repeat, RepeatSafety::Keyed { .. }));
    Declared { call_timeout: CALL_TIMEOUT, landing_horizon: Some(CALL_TIMEOUT), ..declared }
}

impl Service {
    /// Starts it; `test` is the full name of the test that calls [`serve`]. It is killed when it is dropped.
    pub fn start(&self, test: &str) -> Child {
        start(test, VARIABLE, self)
    }
}

/// This program, to run one test alone, which finds in `variable` what it is to do.
pub(crate) fn start(test: &str, variable: &str, what: &impl Serialize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, serde_json::to_string(what).expect("json"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a process")
}

/// Tells a process to stop, and waits until it has.
pub async fn terminate(mut child: Child) {
    let pid = child.id().expect("it runs").to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill");
    assert!(told.success());
    assert!(child.wait().await.expect("an end").success());
}

/// Is the service, where this process was started as one; else does nothing.
pub async fn serve() {
    let Ok(service) = std::env::var(VARIABLE) else { return };
    let Service { database, provider, messages, keyed, grace } =
        serde_json::from_str(&service).expect("a service");
    let mut told = signal(SignalKind::terminate()).expect("a signal");
    let store = ClaimStore::connect(&database, StoreOptions::new(LEASE)).await.expect("a store");
    let earmark = service_at(&store, &provider, declared(keyed));
    for n in 0..messages {
        let (earmark, provider) = (earmark.clone(), provider.clone());
        tokio::spawn(async move {
            let call = charge_at(&provider, 1200);
            earmark.run_http(KIND, &key(&format!("m{n}")), &call, Description::default()).await
        });
    }
    told.recv().await;
    earmark.close(grace).await;
}
