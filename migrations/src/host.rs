//! The same migrations as parts of a host's own sea-orm migrator.

use sea_orm_migration::{
    MigrationName, MigrationTrait, SchemaManager,
    sea_orm::{ConnectionTrait, DbErr},
};

use crate::{Dialect, Error, Options, run};

/// Earmark's migrations, oldest first, under names that will not change: to splice into a host's own sea-orm migrator.
///
/// ```
/// use sea_orm_migration::{MigrationTrait, MigratorTrait};
///
/// struct Migrator;
///
/// impl MigratorTrait for Migrator {
///     fn migrations() -> Vec<Box<dyn MigrationTrait>> {
///         let mut all: Vec<Box<dyn MigrationTrait>> = vec![/* the host's own */];
///         all.extend(earmark_migrations::migrations());
///         all
///     }
/// }
/// # assert_eq!(Migrator::migrations().len(), 1);
/// ```
///
/// There is no migrator type of ours on purpose: its `fresh()` would drop every table of the host. sea-orm's migrator has
/// no lock: when several instances may start at once, use [`run`](crate::run) instead, or lock around it. The namespace
/// is random, and the guard is not installed: execute [`guard_sql`](crate::guard_sql) in a migration of the host, or
/// call [`run`](crate::run) with that option afterwards.
pub fn migrations() -> Vec<Box<dyn MigrationTrait>> {
    vec![Box::new(Step { name: "m20261130_earmark_0001_claims", version: 1 })]
}

struct Step {
    name: &'static str,
    version: u32,
}

impl MigrationName for Step {
    fn name(&self) -> &str {
        self.name
    }
}

#[sea_orm_migration::async_trait::async_trait]
impl MigrationTrait for Step {
    /// Does nothing where the version is there already, so that a host may change from [`run`](crate::run) to this.
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let dialect = Dialect::of(db.get_database_backend()).map_err(custom)?;
        run::apply(db, dialect, &Options::default(), self.version).await.map_err(custom)?;
        Ok(())
    }

    async fn down(&self, _manager: &SchemaManager) -> Result<(), DbErr> {
        Err(DbErr::Migration(format!(
            "{}: there is no way down, since dropping the claims would let every message act again; \
             drop the earmark_ tables by hand if that is what you want",
            self.name
        )))
    }

    /// On SQLite and PostgreSQL all or nothing; MySQL commits at each DDL statement anyway.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// sea-orm's error has no place for ours: the chain becomes one text.
fn custom(error: Error) -> DbErr {
    match error {
        Error::Database { source, .. } => source,
        other => DbErr::Migration(other.to_string()),
    }
}
