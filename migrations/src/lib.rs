//! The tables of Earmark, as plain SQL, and a small runner.
//!
//! The text under `sql/` is the source of truth. There are three ways to apply it:
//!
//! 1. [`run`]: applies what is missing, under its own lock, so that many instances may start at once.
//! 2. By hand or with another tool (sqlx-cli, Flyway, `psql`, `mysql`, `sqlite3`): print it with [`sql`]; the head of
//!    each script says how.
//! 3. `migrations()`, with feature `sea-orm-migration`: to splice into a host's own `MigratorTrait`.
//!
//! The three leave the same tables and the same rows in `earmark_meta`, which is the only bookkeeping: a database that
//! was migrated one way can be migrated further another way.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let db = sea_orm::Database::connect("postgres://localhost/orders").await?;
//! let report = earmark_migrations::run(&db, &earmark_migrations::Options::default()).await?;
//! println!("schema {} (was {}), namespace {}", report.to, report.from, report.namespace);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
#[cfg(feature = "sea-orm-migration")]
mod host;
mod inspect;
mod lock;
mod meta;
mod partitions;
mod run;
mod sql;

pub use error::Error;
#[cfg(feature = "sea-orm-migration")]
pub use host::migrations;
pub use inspect::{Inspection, inspect};
pub use partitions::partitioned;
pub use run::{Options, Report, run};
pub use sql::{Dialect, Migration, guard_sql, sql};
