//! The state of wallet, agent server and engine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WalletAnswer {
    pub exists: bool,
    pub name: Option<String>,
    pub locked: bool,
    /// Seconds until the open wallet locks automatically, if the setting `lock.idle` is on.
    #[serde(default)]
    pub locks_in_s: Option<u64>,
    /// The name of a wallet file that the journal does not know; `wallet recover` adopts the file.
    #[serde(default)]
    pub recoverable: Option<String>,
    pub seeds: usize,
    pub addresses: usize,
}

/// The state of the agent server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerAnswer {
    pub running: bool,
    /// The URL for programs on this machine.
    pub url: Option<String>,
    /// Whether other machines of the network can also connect.
    pub open_to_network: bool,
    pub locked: bool,
}

/// A trade whose plan has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutingAnswer {
    pub id: String,
    pub agent_id: String,
    /// With the symbols, like `25.000000 USDC > WETH`.
    pub summary: String,
    /// Like `1/2 token approval`.
    pub step: String,
}

/// Maximum number of trades in execution that `status` lists; the schema of `executing` repeats it.
pub const EXECUTING_SHOWN: usize = 16;

/// The state of wallet, agent server and engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    pub wallet: WalletAnswer,
    pub server: ServerAnswer,
    pub agents: usize,
    /// Number of requests that are waiting for a decision.
    pub requests: usize,
    /// Trades in execution, at most 16.
    #[serde(default)]
    pub executing: Vec<ExecutingAnswer>,
    /// The hardware device, while requests or transactions wait for it.
    #[serde(default)]
    pub device: Option<DeviceAnswer>,
    /// The location of Ledger emulators, in a developer build that uses emulators instead of Ledgers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_emulator: Option<String>,
    /// Number of attached consoles that run in other processes.
    #[serde(default)]
    pub consoles: usize,
    pub frozen: bool,
    /// Number of journal entries.
    pub journal: u64,
    /// Hash of the newest entry, for a later `audit verify --head`.
    pub head: String,
    /// Why every payment needs approval: the journal did not match the wallet at unlock.
    pub untrusted: Option<String>,
    /// The time before which signed requests are refused (RFC 3339); `None` unless it lies in the future.
    ///
    /// It does if a clock was ahead and a chain agreed, or a wallet was restored then. `audit accept` corrects this.
    #[serde(default)]
    pub refused_before: Option<String>,
    /// Why commands are no longer decided: the journal could not be written.
    pub failed: Option<String>,
    /// Whether payments, trades and loans are refused because the disk of the data folder has less than 64 MiB free.
    #[serde(default)]
    pub disk_full: bool,
    /// The enabled network that answered first; empty if none did, `None` unless the command asked them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Vec<String>>,
    /// The enabled networks that gave no usable answer when they were last asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<SilentNetworkAnswer>,
    /// The source of the password that opened the wallet at the start, in words; `None` if a person opens it.
    #[serde(default)]
    pub start_unlock: Option<String>,
    /// The agents' spending today while no person has opened the wallet; otherwise, or while it is locked, `None`.
    #[serde(default)]
    pub unattended: Option<UnattendedAnswer>,
    pub data: String,
    pub version: String,
}

/// A network of which no endpoint answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SilentNetworkAnswer {
    pub network: String,
    /// The first request without an answer, UTC, RFC 3339.
    pub since: String,
}

impl SilentNetworkAnswer {
    /// Describes the outage, with its time in UTC.
    pub fn text(&self) -> String {
        format!("{}: no answer since {}", self.network, self.since)
    }
}

/// The state of the hardware device for which requests wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceAnswer {
    /// Two or three words, like `locked`.
    pub label: String,
    /// The next action of the operator, as a sentence.
    pub state: String,
    /// The device shows a request now.
    pub is_prompting: bool,
    /// The device refused a request because of its settings; `requests --retry` asks the device again now.
    #[serde(default)]
    pub may_retry: bool,
    /// Number of requests and transactions in the queue.
    pub waiting: usize,
}

/// The agents' spending while the last unlock was unattended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnattendedAnswer {
    /// The amount spent today, in dollars.
    pub spent: String,
    /// The setting `unattended.daily`; `None` if it is off.
    pub limit: Option<String>,
}
