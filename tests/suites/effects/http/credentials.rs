//! Secrets: at the wire, for the origins that may have them, and nowhere else.

use std::path::PathBuf;

use earmark_claim::State;
use earmark_claim::policy::{Act, Cause};
use earmark_effects::{HttpKind, Outcome};
use earmark_tests::claims::{age, key, keyed, store};
use earmark_tests::effects::PATIENT;
use earmark_tests::http::{KIND, anonymous, bearer, charge, run, sidecar};
use earmark_tests::provider::Provider;
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use tempfile::TempDir;

const SECRET: &str = "sk_live_51hxq9vW3b";

fn secret_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    (folder, file)
}

/// How many rows of all tables hold the text, in whatever column.
async fn rows_with(db: &TestDb, text: &str) -> usize {
    let mut found = 0;
    for table in ["earmark_claim", "earmark_event", "earmark_orphan", "earmark_meta"] {
        // A row as one text, byte columns in hex.
        let hex = text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
        let sql = match db.connection().get_database_backend() {
            DbBackend::Postgres => format!("SELECT t::text AS line FROM {table} t"),
            _ => format!("SELECT * FROM {table}"),
        };
        let statement = Statement::from_string(db.connection().get_database_backend(), sql);
        for row in db.connection().query_all_raw(statement).await.unwrap() {
            let line = row.column_names().iter().fold(String::new(), |line, column| {
                let bytes = row.try_get_by::<Option<Vec<u8>>, _>(column.as_str()).ok().flatten();
                let bytes = bytes.map(|b| String::from_utf8_lossy(&b).into_owned());
                let word = row.try_get_by::<Option<String>, _>(column.as_str()).ok().flatten();
                line + " " + &bytes.or(word).unwrap_or_default()
            });
            found += usize::from(line.contains(text) || line.contains(&hex));
        }
    }
    found
}

per_backend! {
    async fn a_secret_reaches_the_wire_and_no_row(db: TestDb) {
        let store = store(&db).await;
        let provider = Provider::start([]).await;
        let (_folder, file) = secret_file();
        let earmark = sidecar(&store, bearer(&file, &provider))
            .http_kind(HttpKind::new(KIND, "stub", keyed()))
            .build()
            .unwrap();
        assert!(run(&earmark, &key("m1"), &charge(&provider).credential("stub")).await.is_confirmed());
        assert_eq!(provider.calls()[0].header("authorization"), [format!("Bearer {SECRET}")]);
        assert_eq!(rows_with(&db, SECRET).await, 0);
        assert_eq!(rows_with(&db, "amount").await, 1, "the scan reads what is stored");
        assert_eq!(store.find(&key("m1")).await.unwrap().unwrap().credential.as_deref(), Some("stub"));
    }

    async fn a_call_to_where_its_credential_may_not_go_is_never_sent_and_goes_to_a_person(db: TestDb) {
        let store = store(&db).await;
        let (allowed, elsewhere) = (Provider::start([]).await, Provider::start([]).await);
        let (_folder, file) = secret_file();
        for (name, credentials, credential) in [
            ("with a secret", bearer(&file, &allowed), Some("stub")),
            ("without one", anonymous(&allowed), None),
        ] {
            let earmark = sidecar(&store, credentials)
                .http_kind(HttpKind::new(KIND, "stub", keyed()))
                .build()
                .unwrap();
            let call = charge(&elsewhere);
            let call = credential.map_or(call.clone(), |credential| call.credential(credential));
            let outcome = run(&earmark, &key(name), &call).await;
            assert!(matches!(outcome, Outcome::Retryable { .. }), "{name}: {outcome:?}");
            let facts = store.find(&key(name)).await.unwrap().unwrap().facts;
            assert_eq!(facts.error_class.unwrap().as_str(), "fault.origin_not_allowed", "{name}");
            age(&db, &key(name), PATIENT.max).await;
            let again = run(&earmark, &key(name), &call).await;
            assert!(matches!(again, Outcome::Retryable { .. }), "no retry mends it: {again:?}");
            assert_eq!(sweep_once(&earmark).await, [(key(name), Act::Escalate(Cause::Fault))]);
            assert_eq!(store.find(&key(name)).await.unwrap().unwrap().facts.state, State::Escalated);
        }
        assert!(elsewhere.calls().is_empty() && allowed.calls().is_empty());
    }
}
