//! A data folder with history, and the output of an engine that fails to start on it.

use std::path::{Path, PathBuf};

use bursar_control::answers::Answer;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, HttpResponse, json_or_null};
use bursar_tests::files::{Inventory, persistent_inventory};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::Value;
use tempfile::TempDir;

/// Pays up to 0.50 dollars automatically, and at most ten per payment and per day.
pub(crate) const POLICY: &str = "policy create p --day 10 --txn 10 --auto 0.5";

/// A folder with a wallet, an agent and payments; no engine runs on it.
#[derive(Debug)]
pub(crate) struct UsedFolder {
    home: TempDir,
    pub(crate) agent: Agent,
    /// Paid bodies with their answers.
    pub(crate) paid: Vec<(Value, HttpResponse)>,
}

impl UsedFolder {
    pub(crate) async fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
        let mut operator = engine.operator().await;
        let agent = set_up_wallet(&mut operator).await;
        let caller = AgentClient::for_url(&engine.url);
        let mut paid = Vec::new();
        for n in 0..3 {
            let body = ask(&agent, n);
            let answered = caller.post("/sign", &body).await.expect("answered");
            assert_eq!(answered.0, 200, "{}", json_or_null(&answered.1));
            paid.push((body, answered));
        }
        assert_eq!(engine.terminate(), Some(0));
        Self { home, agent, paid }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("data")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }
}

/// Creates wallet, seed, address, policy and a commissioned HMAC agent.
pub(crate) async fn set_up_wallet(operator: &mut Operator) -> Agent {
    for line in ["wallet create main", "seed create", "address create pay 0 \"for tests\"", POLICY]
    {
        operator.must(line).await;
    }
    let created = operator.outcome("agent register bot --auth hmac").await;
    let Ok(Answer::Credentials(given)) = created.reply.result else { panic!() };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    Agent::new(given.agent_id, created.secret.expect("a token"), false)
}

/// Returns a body for a little more than a cent; `n` makes it unique.
pub(crate) fn ask(agent: &Agent, n: u64) -> Value {
    agent.ask(jiff::Timestamp::now().as_second(), &offer(12_000 + n, n), None)
}

/// How an engine that failed to start ended.
#[derive(Debug)]
pub(crate) struct FailedStart {
    pub(crate) exit: String,
    pub(crate) output: String,
}

/// Starts an engine that must fail and must leave the folder's contents unchanged.
pub(crate) fn start_refused(folder: &Path, start: &StartOptions) -> FailedStart {
    let before = persistent_inventory(folder);
    let refused = start_refused_unchecked(folder, start);
    assert_unchanged(&before, &persistent_inventory(folder), &refused.output);
    refused
}

/// Starts an engine that must fail, without comparing the folder.
pub(crate) fn start_refused_unchecked(folder: &Path, start: &StartOptions) -> FailedStart {
    match EngineProcess::try_start(folder, start) {
        Ok(_engine) => panic!("an engine started on {}", folder.display()),
        Err(why) => {
            let (exit, output) = why.split_at(why.find(|c: char| c.is_ascii_digit()).unwrap_or(0));
            let end = output.find(|c: char| !c.is_ascii_digit()).unwrap_or(output.len());
            FailedStart {
                exit: format!("{exit}{}", &output[..end]),
                output: output[end..].trim().to_owned(),
            }
        }
    }
}

pub(crate) fn assert_unchanged(before: &Inventory, after: &Inventory, what: &str) {
    for (path, item) in before {
        assert_eq!(after.get(path), Some(item), "{}: {what}", path.display());
    }
    let added: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
    assert!(added.is_empty(), "{added:?} came in: {what}");
}

impl FailedStart {
    /// Asserts the exit code, and that the output contains each text.
    pub(crate) fn assert_refusal(&self, exit: u8, texts: &[&str]) {
        assert_eq!(self.exit, format!("exit status: {exit}"), "{}", self.output);
        for text in texts {
            assert!(self.output.contains(text), "{text:?} is not in: {}", self.output);
        }
    }
}

/// Returns a path as messages show it.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Makes a named pipe.
pub(crate) fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}
