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
