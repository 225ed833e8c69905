//! A stolen bearer token, and the operator who replaces it.

use std::path::{Path, PathBuf};

use bursar_tests::agent::Agent;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};

use crate::threats::stage::{POLICY, add_agent, set_up_wallet};
use crate::threats::wire::KeepAlive;

/// Returns every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = std::fs::symlink_metadata(&path).expect("there").file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

/// Returns the files below a folder that contain these bytes.
pub(crate) fn files_with_secret(folder: &Path, secret: &[u8]) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("readable");
        bytes.windows(secret.len()).any(|found| found == secret)
    };
    files(folder).into_iter().filter(holds).collect()
}

fn ask(connection: &mut KeepAlive, agent: &Agent, n: u64) -> (u16, String) {
    let now = jiff::Timestamp::now().as_second();
    let body = agent.ask(now, &offer(1_000, n), None).to_string();
    let (status, body) = connection.ask("POST", "/sign", body.as_bytes());
    let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    (status, answer["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_09_a_replaced_credential_fails_at_once_and_is_in_no_file() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let mut engine = EngineProcess::start(&folder, &StartOptions::default());
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, POLICY).await;
    let (mut tokens, mut given) = (Vec::new(), Vec::new());
    for auth in ["bearer", "hmac"] {
        let mut agent = add_agent(&mut operator, &format!("bot-{auth}"), auth).await;
        let mut connection = KeepAlive::open(&engine.url);
        let mut n = 0;
        for _round in 0..3 {
            n += 10;
            assert_eq!(ask(&mut connection, &agent, n).0, 200, "{auth}");
            let line = format!("agent instructions bot-{auth} --regenerate");
            let created = operator.outcome(&line).await;
            assert!(created.reply.result.is_ok(), "{created:?}");
            let old = agent.clone();
            agent.token = created.secret.expect("a new token");
            assert_ne!(old.token, agent.token);
            // The old token is refused on the same connection, and for the same payment that it was valid for.
            for again in [n, n + 1] {
                let answer = ask(&mut connection, &old, again);
                assert_eq!(answer, (401, "AUTH_FAILED".to_owned()), "{auth}");
            }
            assert_eq!(ask(&mut connection, &agent, n + 2).0, 200, "{auth}");
            tokens.extend([old.token.clone(), agent.token.clone()]);
            given.extend([old, agent.clone()]);
        }
    }
    operator.must("wallet lock").await;
    assert_eq!(engine.terminate(), Some(0));
    // No file holds a token as text, as hex digits or as raw bytes.
    for token in &tokens {
        let digits = &token[3..];
        for secret in [token.as_bytes(), digits.as_bytes(), &hex::decode(digits).unwrap()[..]] {
            assert_eq!(
                files_with_secret(&folder, secret),
                Vec::<PathBuf>::new(),
                "a token lies in a file"
            );
        }
    }
    assert!(files(&folder).len() >= 3, "{:?}", files(&folder));

    // A restart does not restore an old credential.
    let engine = EngineProcess::start(
        &folder,
        &StartOptions { has_password: true, ..StartOptions::default() },
    );
    let mut connection = KeepAlive::open(&engine.url);
    for (n, agent) in (1_000..).zip(&given) {
        let answer = ask(&mut connection, agent, n);
        let last = agent.token == tokens[5] || agent.token == tokens[11];
        let wanted = if last { (200, String::new()) } else { (401, "AUTH_FAILED".to_owned()) };
        assert_eq!(answer, wanted, "{}", agent.id);
    }
    assert_eq!(given.len(), 12);
}
