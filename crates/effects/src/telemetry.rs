//! Names of metrics. Labels are only consumer, kind, downstream, state, result, error_class: never a key, an amount or free
//! text.

/// Counter: claims made.
pub const CREATED: &str = "earmark_claim_created_total";
/// Counter: claims closed, by state and result (`answer`, `refused`).
pub const CLOSED: &str = "earmark_claim_closed_total";
/// Counter: attempts, by result (`done`, `refused`, `not_sent`, `unknown`) and error_class.
pub const ATTEMPTS: &str = "earmark_claim_attempts_total";
/// Histogram, seconds: how long a call took.
pub const ATTEMPT_SECONDS: &str = "earmark_claim_attempt_duration_seconds";
/// Counter: requests that came again under a key that was used with another request.
pub const MISMATCHES: &str = "earmark_claim_mismatches_total";
/// Counter: looks of probes, by result (`done`, `refused`, `not_done`, `cannot_tell`).
pub const LOOKS: &str = "earmark_provider_lookup_total";
/// Counter: calls and looks that were not made now, by downstream and result (`paused`, `failing`, `limited`). Their claims wait for the
/// sweep.
pub const HELD_BACK: &str = "earmark_downstream_held_back_total";
/// Gauge, 1 or 0: a person has paused the downstream, as far as this process knows.
pub const PAUSED: &str = "earmark_downstream_paused";
/// Gauge, 1 or 0: calls to the downstream fail in a row, and this process only samples it.
pub const BREAKER_OPEN: &str = "earmark_downstream_breaker_open";
