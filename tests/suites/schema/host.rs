//! Earmark's migrations spliced into a host's own sea-orm migrator, beside a migration of the host.

use earmark_migrations::{Options, run};
use earmark_tests::{EmptyDb, per_backend};
use sea_orm::DbErr;
use sea_orm_migration::{
    MigrationName, MigrationTrait, MigratorTrait, SchemaManager, async_trait::async_trait,
};

struct Host;

impl MigratorTrait for Host {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let mut all: Vec<Box<dyn MigrationTrait>> = vec![Box::new(Orders)];
        all.extend(earmark_migrations::migrations());
        all
    }
}

struct Orders;

impl MigrationName for Orders {
    fn name(&self) -> &str {
        "m20200101_000001_orders"
    }
}

#[async_trait]
impl MigrationTrait for Orders {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        use sea_orm::ConnectionTrait;
        manager.get_connection().execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await?;
        Ok(())
    }
}

per_backend! {
    async fn a_host_migrates_our_tables_with_its_own(db: EmptyDb) {
        Host::up(db.connection(), None).await.unwrap();
        assert_eq!(db.number("SELECT count(*) FROM orders").await, 0);
        assert_eq!(db.number("SELECT count(*) FROM earmark_claim").await, 0);
        let known = "SELECT count(*) FROM seaql_migrations WHERE version = 'm20261130_earmark_0001_claims'";
        assert_eq!(db.number(known).await, 1);
        // Again, and the other way: both find the work done.
        Host::up(db.connection(), None).await.unwrap();
        let report = run(db.connection(), &Options::default()).await.unwrap();
        assert_eq!((report.from, report.applied), (1, vec![]));
    }

    async fn a_host_may_take_over_tables_that_run_has_made(db: EmptyDb) {
        let made = run(db.connection(), &Options::default()).await.unwrap();
        Host::up(db.connection(), None).await.unwrap();
        assert_eq!(run(db.connection(), &Options::default()).await.unwrap().namespace, made.namespace);
    }

    async fn there_is_no_way_down(db: EmptyDb) {
        Host::up(db.connection(), None).await.unwrap();
        let error = Host::down(db.connection(), Some(1)).await.unwrap_err().to_string();
        assert!(error.contains("m20261130_earmark_0001_claims: there is no way down"), "{error}");
        assert_eq!(db.number("SELECT count(*) FROM earmark_claim").await, 0);
    }
}
