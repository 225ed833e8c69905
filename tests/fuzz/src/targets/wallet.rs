//! A running wallet with an address, a policy and agents, set up by its own commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use bursar_tests::agent::Agent;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Service, run};
use crate::programs::{BURSAR, ENGINE, Programs, keep_calls_local, write_private};
use crate::stub::{Stub, answers};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// The wallet and its surroundings.
#[derive(Debug)]
pub(crate) struct Wallet {
    pub(crate) engine: Service,
    pub(crate) bearer: Agent,
    pub(crate) hmac: Agent,
    pub(crate) node: Stub,
    pub(crate) prices: Stub,
    pub(crate) explorer: Stub,
    home: TempDir,
    program: PathBuf,
}

impl Wallet {
    /// Starts an engine with cheap key derivation and sets up its wallet. It waits `patience_ms` for its node.
    ///
    /// # Errors
    /// The engine does not start, or a command of the set-up fails.
    pub(crate) fn start(programs: &Programs, patience_ms: u64) -> Result<Self, String> {
        Self::start_as(programs, |command, home| {
            command.arg(home.join("data")).env("BURSAR_TEST_PATIENCE", patience_ms.to_string());
            ENGINE
        })
    }

    /// Starts the engine of the product, whose key derivation is as slow as in production.
    pub(crate) fn start_product(programs: &Programs) -> Result<Self, String> {
        Self::start_as(programs, |command, home| {
            command.arg("engine").env("BURSAR_DATA_DIR", home.join("data"));
            command.env("BURSAR_PASSWORD_FILE", home.join("password"));
            BURSAR
        })
    }

    fn start_as(
        programs: &Programs,
        add: impl Fn(&mut Command, &Path) -> &'static str,
    ) -> Result<Self, String> {
        let home = tempfile::tempdir().expect("a folder");
        let (node, prices) = (Stub::start(answers::node), Stub::start(answers::prices));
        let explorer = Stub::start(answers::explorer);
        write_private(&home.path().join("password"), PASSWORD.as_bytes());
        let name = add(&mut Command::new(""), home.path());
        let mut command = programs.command(name, home.path());
        add(&mut command, home.path());
        keep_calls_local(&mut command, node.url.as_ref());
        command
            .env("BURSAR_TEST_CLOCK", home.path().join("clock"))
            .env("BURSAR_TEST_PRICE_API", &prices.url)
            .env("BURSAR_NETWORKS_8453_EXPLORER", &explorer.url)
            .env("BURSAR_LOG", "warn");
        let engine = Service::start(command, &home.path().join("engine.log"))?;
        let program = PathBuf::from(programs.command(BURSAR, home.path()).get_program());
        let nobody = Agent::new(String::new(), String::new(), true);
        let (bearer, hmac) = (nobody.clone(), nobody);
        let mut wallet = Self { engine, bearer, hmac, node, prices, explorer, home, program };
        for line in [
            "wallet create main",
            "seed create --reveal",
            "address create pay 0",
            "policy create p --day 1000000 --txn 5 --auto 0.5 --trading --lending",
        ] {
            wallet.must(line)?;
        }
        wallet.bearer = wallet.agent("bot", "bearer")?;
        wallet.hmac = wallet.agent("signer", "hmac")?;
        Ok(wallet)
    }

    fn agent(&self, name: &str, auth: &str) -> Result<Agent, String> {
        let made = self.must(&format!("agent register {name} --auth {auth}"))?;
        self.must(&format!("agent commission {name} p pay"))?;
        let text = |member: &str| made[member].as_str().unwrap_or_default().to_owned();
        Ok(Agent::new(text("agent_id"), text("token"), auth == "bearer"))
    }

    /// The folder that contains the data folder `data`.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Builds a command of the wallet's operator.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.home.path();
        command.env_clear().current_dir(home).env("HOME", home);
        command.env("BURSAR_DATA_DIR", home.join("data"));
        command.env("BURSAR_PASSWORD_FILE", home.join("password"));
        keep_calls_local(&mut command, self.node.url.as_ref());
        command
    }

    /// Runs a command that must succeed and returns its data.
    ///
    /// # Errors
    /// The command failed. The text has its answer.
    pub(crate) fn must(&self, line: &str) -> Result<Value, String> {
        let mut command = self.command();
        command.args(line.split_whitespace()).arg("--json");
        let ended = run(command, self.home.path(), b"");
        let document: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        if document["ok"] == true {
            return Ok(document["data"].clone());
        }
        let err = String::from_utf8_lossy(&ended.stderr);
        Err(format!("{line}: {document} {err}"))
    }

    /// Stops the engine, and returns the folder that contains `data`.
    pub(crate) fn stop(self) -> Result<TempDir, String> {
        let ended = self.engine.stop();
        if ended.code() == Ok(0) { Ok(self.home) } else { Err(format!("{ended:?}")) }
    }

    /// Returns the state that a refusal must not change: agents, policies, spent amounts, and pending requests.
    fn state(&self) -> Result<State, String> {
        let mut agents = self.must("agent list")?;
        // These counters change with every request or with time, so they are left out.
        const COUNTERS: [&str; 5] =
            ["open", "padding_today", "renews_in_seconds", "requests_today", "reserved"];
        for agent in agents["agents"].as_array_mut().into_iter().flatten() {
            if let Some(members) = agent.as_object_mut() {
                members.retain(|name, _| !COUNTERS.contains(&name.as_str()));
            }
        }
        let fixed = json!({ "agents": agents, "policies": self.must("policy list")? });
        let requests = self.must("requests")?;
        let rows = requests["requests"].as_array().into_iter().flatten();
        Ok(State { fixed, pending: rows.map(|row| row["id"].to_string()).collect() })
    }
}

/// The state that a refusal must not change.
#[derive(Debug)]
struct State {
    fixed: Value,
    /// Pending requests; they may expire, but none may appear.
    pending: BTreeSet<String>,
}

/// Compares the state of a wallet after each series of inputs that were all refused.
#[derive(Debug)]
pub(crate) struct StateWatch {
    /// The number of refused inputs between two comparisons.
    inputs_per_comparison: u64,
    /// The state after the last accepted input.
    state: Option<State>,
    refused: u64,
}

impl StateWatch {
    pub(crate) fn new(series: u64) -> Self {
        Self { inputs_per_comparison: series, state: None, refused: 0 }
    }

    /// Counts an input. Returns the violation if refused inputs have changed the state.
    pub(crate) fn compare_after(&mut self, wallet: &Wallet, accepted: bool) -> Option<String> {
        if accepted {
            (self.state, self.refused) = (None, 0);
            return None;
        }
        self.refused += 1;
        if self.state.is_some() && self.refused < self.inputs_per_comparison {
            return None;
        }
        self.refused = 0;
        let now = match wallet.state() {
            Ok(now) => now,
            Err(why) => return Some(format!("the state cannot be read: {why}")),
        };
        let before = self.state.take();
        let changed = before
            .filter(|before| before.fixed != now.fixed || !now.pending.is_subset(&before.pending));
        let violated =
            changed.map(|before| format!("refusals changed the state: {before:?} became {now:?}"));
        self.state = Some(now);
        violated
    }
}

/// Returns an offer of version 1 on Base for `amount` millionths of a dollar.
pub(crate) fn offer(amount: u64, url: &str) -> Value {
    let coin = bursar_core::networks::by_id_name_or_title("8453").expect("Base").stablecoin;
    json!({
        "x402Version": 1,
        "error": "payment required",
        "accepts": [{
            "scheme": "exact", "network": "base", "maxAmountRequired": amount.to_string(), "resource": url,
            "description": "a thing", "mimeType": "application/json",
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 60,
            "asset": coin.address.to_checksum(None),
            "extra": { "name": coin.domain_name, "version": coin.domain_version },
        }],
    })
}

/// Returns an offer of version 2 on Base.
pub(crate) fn offer_v2(amount: u64, url: &str) -> Value {
    let coin = bursar_core::networks::by_id_name_or_title("8453").expect("Base").stablecoin;
    json!({
        "x402Version": 2, "resource": { "url": url },
        "accepts": [{
            "scheme": "exact", "network": "eip155:8453", "amount": amount.to_string(),
            "asset": coin.address.to_checksum(None), "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
            "maxTimeoutSeconds": 60, "extra": { "name": coin.domain_name, "version": coin.domain_version },
        }],
    })
}
