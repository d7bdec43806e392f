//! Providers that answer slowly, oddly or in other words than were agreed.

use std::time::Duration;

use earmark_claim::{Declared, State};
use earmark_effects::credentials::{CredentialConfig, Credentials};
use earmark_effects::http::{Answers, HttpCall, HttpProbe, On};
use earmark_effects::{HttpKind, Outcome};
use earmark_tests::claims::{age, key, never, store};
use earmark_tests::effects::{PATIENT, probed};
use earmark_tests::http::{KIND, run, service_at, sidecar};
use earmark_tests::sweep::sweep_once;
use earmark_tests::{TestDb, per_backend};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers each connection with the next of these texts, and then says nothing more.
async fn server(answers: impl IntoIterator<Item = String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let answers: Vec<String> = answers.into_iter().collect();
    tokio::spawn(async move {
        let mut open = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.windows(4).any(|w| w == b"\r\n\r\n") && stream.read_buf(&mut seen).await.unwrap() > 0
            {
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            open.push(stream);
        }
        std::future::pending::<()>().await;
    });
    origin
}

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn call(origin: &str) -> HttpCall {
    HttpCall::post(&format!("{origin}/charges")).json(&serde_json::json!({})).key_header("Idempotency-Key")
}

per_backend! {
    /// Whatever the call spent before it was sent: its secret comes from a pipe that takes its time.
    async fn an_answer_that_has_begun_counts_though_its_body_never_ends(db: TestDb) {
        let store = store(&db).await;
        let origin = server(["HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{".to_owned()]).await;
        let declared = Declared { call_timeout: Duration::from_millis(2500), ..never() };
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("secret");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let secret = CredentialConfig {
            env: None,
            file: Some(pipe.clone()),
            ..CredentialConfig::bearer_from_env("UNUSED", [origin.clone()])
        };
        let credentials = Credentials::new([("stub".to_owned(), secret)], Vec::<String>::new()).unwrap();
        let earmark = sidecar(&store, credentials).http_kind(HttpKind::new(KIND, "stub", declared)).build().unwrap();
        let to = pipe.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::fs::write(to, "sk_1").unwrap();
        });
        let outcome = run(&earmark, &key("slow body"), &call(&origin).credential("stub")).await;
        assert!(matches!(outcome, Outcome::Confirmed(_)), "{outcome:?}");
        writer.join().unwrap();
        // A secret that cannot be had in time is no doubt: nothing has left.
        let outcome = run(&earmark, &key("no secret"), &call(&origin).credential("stub")).await;
        assert!(matches!(outcome, Outcome::Retryable { .. }), "{outcome:?}");
        std::fs::write(pipe, "let the reader go").unwrap();
    }

    /// A provider that cuts a text in the middle of an emoji sends what is JSON by the letter and no text.
    async fn json_that_cannot_be_read_is_not_taken_for_success(db: TestDb) {
        let store = store(&db).await;
        let origin = server([answer(200, r#"{"status":"failed","echo":"Hi \ud83d"}"#)]).await;
        let failed = On::status(200).json("/status", "failed");
        let call = call(&origin).answers(Answers::new().refused(failed, "failed"));
        let outcome = run(&service_at(&store, &origin, never()), &key("m1"), &call).await;
        assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
    }

    async fn only_an_empty_list_says_that_it_did_not_happen(db: TestDb) {
        let store = store(&db).await;
        let long = format!(r#"{{"data":[{{"id":"{}"}}]}}"#, "x".repeat(256));
        for (n, (list, state)) in [
            (r#"{"data":[]}"#, State::Retryable),
            (long.as_str(), State::InDoubt),
            (r#"{"data":[{"id":{"v":"ch_1"}}]}"#, State::InDoubt),
            (r#"{"data":[{"uid":"ch_1"}]}"#, State::InDoubt),
            (r#"{"data":[{"id":null}]}"#, State::InDoubt),
            (r#"{"data":[{"id":12345678901234567890123}]}"#, State::InDoubt),
            ("<html>down for maintenance</html>", State::InDoubt),
            ("", State::InDoubt),
            (r#"{"data":[{"id":1},{"id":"2"}]}"#, State::Escalated),
        ]
        .into_iter()
        .enumerate()
        {
            let origin = server([answer(500, "{}"), answer(200, list)]).await;
            let earmark = service_at(&store, &origin, probed(never()));
            let probe = HttpProbe::get(&format!("{origin}/charges?key={{idempotency_key}}"))
                .done(On::status(200), "/data/*/id")
                .not_done(On::status(200));
            let key = key(&format!("m{n}"));
            let outcome = run(&earmark, &key, &call(&origin).probe(probe)).await;
            assert!(matches!(outcome, Outcome::InDoubt { .. }), "{outcome:?}");
            age(&db, &key, PATIENT.max).await;
            sweep_once(&earmark).await;
            assert_eq!(store.find(&key).await.unwrap().unwrap().facts.state, state, "{list:.60}");
            // Each has its own provider: out of the next one's way.
            db.execute("DELETE FROM earmark_claim").await.unwrap();
        }
    }
}
