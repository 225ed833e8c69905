//! The example agents as processes: Python with its standard library, and Node with plain fetch.

use std::path::Path;
use std::process::Stdio;

use bursar_tests::agent::Agent;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::chain::stage::TIMEOUT;

/// A program, and its agent's kind of proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    program: &'static str,
    script: &'static str,
    pub(crate) auth: &'static str,
}

pub(crate) const PYTHON: Case = Case { program: "python3", script: "agent.py", auth: "hmac" };
pub(crate) const NODE: Case = Case { program: "node", script: "agent.mjs", auth: "hmac" };

/// Both programs with both kinds of proof.
pub(crate) const CASES: [Case; 4] =
    [PYTHON, NODE, Case { auth: "bearer", ..PYTHON }, Case { auth: "bearer", ..NODE }];

impl Case {
    /// Returns the operator's name for an agent of this case.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.script, self.auth)
    }

    /// Starts the program, which buys the item at `url` through the wallet at `wallet`.
    pub(crate) fn send(&self, agent: &Agent, wallet: &str, url: &str) -> Buyer {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents");
        let mut command = Command::new(self.program);
        command.arg(scripts.join(self.script)).args(["--poll", "0.05", "--timeout"]);
        command.arg(TIMEOUT.as_secs().to_string()).arg(url);
        Buyer::start(command, agent, wallet)
    }
}

/// A running agent program.
#[derive(Debug)]
pub(crate) struct Buyer {
    child: Child,
}

/// The result of an agent program.
#[derive(Debug)]
pub(crate) struct ProgramResult {
    pub(crate) exit: Option<i32>,
    /// The one line of JSON that the program prints.
    pub(crate) line: Value,
}

impl Buyer {
    /// Starts any program that takes its agent from the environment.
    pub(crate) fn start(mut command: Command, agent: &Agent, wallet: &str) -> Self {
        let child = command
            .env("WALLET_URL", wallet)
            .env("WALLET_AGENT_ID", &agent.id)
            .env("WALLET_AGENT_FIELD", agent.field)
            .env("WALLET_AGENT_TOKEN", &agent.token)
            .env("WALLET_AUTH_MODE", if agent.uses_bearer { "bearer" } else { "hmac" })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                let program = command.as_std().get_program();
                panic!(
                    "{program:?} is missing ({error}): apt-get install -y python3 nodejs npm curl"
                )
            });
        Self { child }
    }

    /// Returns whether the program is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    pub(crate) async fn finish(self) -> ProgramResult {
        // The limit exceeds the program's own timeout, so that the program can report what it waited for.
        let output = timeout(2 * TIMEOUT, self.child.wait_with_output()).await;
        let output = output.expect("the agent comes back in time").expect("its output");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        ProgramResult { exit: output.status.code(), line }
    }
}

impl ProgramResult {
    /// Returns the outcome and the exit code, which a shell or harness around the agent sees.
    pub(crate) fn outcome(&self) -> (&str, Option<i32>) {
        (self.line["outcome"].as_str().unwrap_or_default(), self.exit)
    }
}
