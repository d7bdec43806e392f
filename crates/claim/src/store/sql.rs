//! Every statement of the store, as text, under the same names for each database. Reviewed as text; no identifier
//! comes from a string. The order of the bound values is that of [`super::bind`].
//!
//! Each statement about claims whose keys are known names the whole key wherever it touches a table, so that a distributed
//! database can route it, and none keeps state in its session. The tests hold them to both.

/// Which finished claims may be purged: all but those that are confirmed, perhaps twice. Of these a person has still to be
/// convinced, and request, answers and history are all there is to convince by. (A subtraction, since an addition to a window of
/// centuries could overflow.)
macro_rules! settled {
    () => {
        "NOT (state = 'confirmed' AND doubt AND attempts > 1 AND (repeat_safety = 'never'
        OR (repeat_safety = 'keyed' AND NOT COALESCE(last_end_at - window_from <= key_window, FALSE))))"
    };
}

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite;

/// Declares the statements of one database, and their names beside them.
macro_rules! statements {
    ($($(#[$doc:meta])* pub(crate) $name:ident: &'static str,)*) => {
        /// The statements of one database.
        pub(crate) struct Sql {
            $($(#[$doc])* pub(crate) $name: &'static str,)*
        }

        impl Sql {
            /// Each with its name.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

statements! {
    /// Inserts one claim, held or in flight. Inserts nothing where the key exists (PostgreSQL, SQLite) or fails with 1062 (MySQL).
    pub(crate) claim: &'static str,
    /// The same for many claims at once, each kept out where its key exists. On PostgreSQL, and there alone, together with `confirm_batch`.
    pub(crate) claim_batch: &'static str,
    /// The ordinary confirmation of many claims at once: each by its key, its state, its first fence and its token.
    pub(crate) confirm_batch: &'static str,
    /// The one conditional update: every move of every claim.
    pub(crate) apply: &'static str,
    /// Appends an event, numbered under the row's lock.
    pub(crate) event: &'static str,
    /// Copies the receipt on file into the history.
    pub(crate) keep_receipt: &'static str,
    /// Reads a row by its key, with the database's clock.
    pub(crate) row: &'static str,
    /// Reads rows by their keys.
    pub(crate) rows: &'static str,
    /// Reads and locks a row by its key, waiting for its lock.
    pub(crate) lock: &'static str,
    /// Reads and locks a row by its key unless somebody holds its lock.
    pub(crate) lock_or_skip: &'static str,
    /// Reads a row by its key inside a caller's transaction, seeing what has been committed since it began.
    pub(crate) row_in_caller: &'static str,
    /// Fails at once where somebody's open transaction holds the key: before an insert that must not wait for it. (Asked on MySQL alone:
    /// see `Dialect::shows_held_keys`.)
    pub(crate) held: &'static str,
    /// Reads the frozen request.
    pub(crate) request: &'static str,
    /// Moves the lease's end of the present holder.
    pub(crate) extend: &'static str,
    /// Rows by reference.
    pub(crate) by_reference: &'static str,
    /// Rows by the provider's id.
    pub(crate) by_provider_ref: &'static str,
    /// The history of a claim.
    pub(crate) history: &'static str,
    /// Whether the same fact is on file already.
    pub(crate) fact_known: &'static str,
    /// Keeps evidence of no known claim, once.
    pub(crate) orphan: &'static str,
    /// Rows that are due some day, of the pairs of tenant and consumer after a given one, pair by pair, most overdue first; without
    /// receipts.
    pub(crate) open_after: &'static str,
    /// Due rows of one pair, most overdue first, without receipts; without held ones of a paused downstream, of which there may be any number and
    /// with which nothing can be done but to let them expire.
    pub(crate) due_of_pair: &'static str,
    /// The open claims that a filter finds, by deadline; without receipts.
    pub(crate) list_open: &'static str,
    /// The finished claims that a filter finds, newest first; without receipts.
    pub(crate) list_closed: &'static str,
    /// Open claims, counted and summed.
    pub(crate) open_tallies: &'static str,
    /// Open claims, and those closed since a moment; without receipts.
    pub(crate) report_claims: &'static str,
    /// Events since a moment, and every mismatch of an open claim; without bytes.
    pub(crate) report_events: &'static str,
    /// Orphans since a moment.
    pub(crate) report_orphans: &'static str,
    /// Signs of life of all sweepers.
    pub(crate) sweepers: &'static str,
    /// A sweeper's sign of life.
    pub(crate) heartbeat: &'static str,
    /// Takes finished claims that are old enough, oldest first, and locks them; passes over what somebody else holds.
    pub(crate) purge_pick: &'static str,
    /// Drops the history of the claims that were picked.
    pub(crate) purge_events: &'static str,
    /// Makes tombstones of the claims that were picked.
    pub(crate) purge_rows: &'static str,
    /// Takes tombstones that are old enough and whose keys the provider has forgotten, as `purge_pick` does.
    pub(crate) tombstone_pick: &'static str,
    /// Deletes the tombstones that were picked.
    pub(crate) tombstone_rows: &'static str,
    /// What a purge would take, counted and summed; writes nothing.
    pub(crate) purge_plan: &'static str,
    /// The same of tombstones.
    pub(crate) tombstone_plan: &'static str,
    /// Counts finished claims that are old enough and kept all the same.
    pub(crate) purge_kept: &'static str,
    /// Drops the signs of life of sweepers that have been gone for long.
    pub(crate) forget_sweepers: &'static str,
    /// Pauses that stand, and those that began or ended since a moment.
    pub(crate) pauses: &'static str,
    /// Pauses a downstream, unless it is paused.
    pub(crate) pause: &'static str,
    /// Ends the pause of a downstream.
    pub(crate) resume: &'static str,
    /// The newest pause of a downstream, on file or over.
    pub(crate) newest_pause: &'static str,
    /// The database's clock.
    pub(crate) now: &'static str,
    /// Rows of `earmark_meta`.
    pub(crate) meta: &'static str,
}

#[cfg(test)]
mod tests;
