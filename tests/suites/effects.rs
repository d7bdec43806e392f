//! Effects under claims, from the message to the settle, on every database.

#[path = "effects/builder.rs"]
mod builder;
#[path = "effects/closing.rs"]
mod closing;
#[path = "effects/crowd.rs"]
mod crowd;
#[path = "effects/deadlines.rs"]
mod deadlines;
#[path = "effects/document.rs"]
mod document;
#[path = "effects/dropped.rs"]
mod dropped;
#[path = "effects/http.rs"]
mod http;
#[path = "effects/joined.rs"]
mod joined;
#[path = "effects/limits.rs"]
mod limits;
#[path = "effects/once.rs"]
mod once;
#[path = "effects/panics.rs"]
mod panics;
#[path = "effects/pause.rs"]
mod pause;
#[path = "effects/redelivery.rs"]
mod redelivery;
#[path = "effects/requests.rs"]
mod requests;
#[path = "effects/steps.rs"]
mod steps;
#[path = "effects/stricter.rs"]
mod stricter;
