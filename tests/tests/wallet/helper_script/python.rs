//! Python processes with the environment of an agent.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bursar_tests::agent::Agent;
use serde_json::Value;

/// Returns the folder of the texts that the agent server serves.
pub(crate) fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/service/src/agent_api/assets")
}

/// Returns a command that finds the wallet at `url`, with a dead proxy that local requests must not use.
pub(crate) fn program(name: &str, url: &str, agent: &Agent) -> Command {
    let mut command = Command::new(name);
    command
        .env("WALLET_URL", url)
        .env("WALLET_AGENT_ID", &agent.id)
        .env("WALLET_AGENT_TOKEN", &agent.token)
        .env("WALLET_AUTH_MODE", if agent.uses_bearer { "bearer" } else { "hmac" })
        .env("http_proxy", "http://127.0.0.1:9")
        .env("PYTHONPATH", assets())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The arguments are UTF-8, also in a locale with another encoding.
        .env("PYTHONUTF8", "1")
        .stdin(Stdio::null());
    command
}

/// Runs a program until it exits; returns its output.
pub(crate) fn run_to_end(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| {
        panic!("{command:?} is missing ({error}): apt-get install -y python3 curl")
    })
}

/// Runs the helper; returns its exit code and the one object that it prints. Neither output may contain the token.
pub(crate) fn run_helper(url: &str, agent: &Agent, arguments: &[&str]) -> (i32, Value) {
    let mut command = program("python3", url, agent);
    command.arg(assets().join("helper.py")).args(arguments);
    let output = run_to_end(command);
    let (answer, complaint) = (text(&output.stdout), text(&output.stderr));
    let secret = &agent.token[3..];
    assert!(!answer.contains(secret) && !complaint.contains(secret), "{answer}{complaint}");
    assert_eq!((answer.lines().count(), complaint.as_str()), (1, ""), "{answer}");
    (output.status.code().unwrap(), serde_json::from_str(&answer).unwrap())
}

/// Runs a script that has the helper as the module `helper`, and prints JSON.
pub(crate) fn run_script(url: &str, agent: &Agent, code: &str, arguments: &[&str]) -> Value {
    let mut command = program("python3", url, agent);
    command.arg("-c").arg(code).args(arguments);
    let output = run_to_end(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
