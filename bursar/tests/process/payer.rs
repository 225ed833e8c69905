//! A wallet with an engine, one agent for each auth mode, and `bursar pay` as one of these agents.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::stage::{Engine, Home, bursar};

/// The environment variables that describe an agent.
pub(crate) const AGENT_VARIABLES: [&str; 4] =
    ["WALLET_AGENT_ID", "WALLET_AGENT_TOKEN", "WALLET_AUTH_MODE", "WALLET_URL"];

pub(crate) struct Payer {
    pub(crate) home: Home,
    pub(crate) engine: Option<Engine>,
    /// The agents by auth mode.
    agents: Vec<(&'static str, Value)>,
    url: String,
}

impl Payer {
    /// Creates a wallet that makes payments below fifty cents at once and holds all others.
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let (engine, address) = home.engine(&home.data());
        for line in [
            "wallet create main",
            "seed create --reveal",
            "address create pay 0",
            "policy create p --day 20 --txn 10 --auto 0.50",
        ] {
            home.must(line);
        }
        let agents = ["hmac", "bearer"].map(|mode| {
            let told = home.must(&format!("agent register {mode}bot --auth {mode}"));
            home.must(&format!("agent commission {mode}bot p pay"));
            (mode, told)
        });
        let url = format!("http://{address}");
        Self { home, engine: Some(engine), agents: agents.to_vec(), url }
    }

    /// Builds the `bursar pay` command as the agent of this auth mode, with `words` as arguments.
    pub(crate) fn pay_command(&self, mode: &str, words: &[&str]) -> Command {
        let (_, agent) = self.agents.iter().find(|(known, _)| *known == mode).unwrap();
        let text = |name: &str| agent[name].as_str().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
        command.arg("pay").args(words).env_clear();
        command
            .env("WALLET_AGENT_ID", text("agent_id"))
            .env("WALLET_AGENT_TOKEN", text("token"))
            .env("WALLET_AUTH_MODE", mode)
            .env("WALLET_URL", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `bursar pay` to its end; see [`Payer::pay_command`].
    pub(crate) fn run_pay(&self, mode: &str, words: &[&str]) -> CommandResult {
        CommandResult::of(self.pay_command(mode, words).output().unwrap())
    }

    /// Returns all requests of the wallet, newest first.
    pub(crate) fn history(&self) -> Vec<Value> {
        self.home.must("history")["requests"].as_array().unwrap().clone()
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) exit_code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandResult {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let exit = output.status.code().unwrap();
        Self { exit_code: exit, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Returns the JSON object that `--json` printed.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        let told: Value = serde_json::from_str(&self.out).unwrap();
        assert_eq!(
            (&told["v"], &told["command"]),
            (&Value::from(2), &Value::from("pay")),
            "{told}"
        );
        crate::schemas::check(&told).unwrap();
        told
    }
}

/// Builds `bursar pay` without any environment variables of an agent.
pub(crate) fn pay_without_agent(words: &[&str]) -> Command {
    let mut command = bursar(std::path::Path::new("/nonexistent"), "pay");
    command.args(words);
    for name in AGENT_VARIABLES {
        command.env_remove(name);
    }
    command
}
