//! The tables themselves.

use earmark_tests::{TestDb, per_backend};

per_backend! {
    async fn up_from_empty(db: TestDb) {
        assert_eq!(db.number("SELECT count(*) FROM earmark_meta").await, 3);
    }
}
