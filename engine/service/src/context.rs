//! The engine's shared parts, used by the operator's commands and by the agent server.

mod agent_server;
pub(crate) mod agent_url;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bursar_chain::ports::Chain;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::{NETWORKS, Network};
use secrecy::SecretBox;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_api::Server;
use crate::chain_time::HintedClock;
use crate::config::LiveConfig;
use crate::core::handle::Handle;
use crate::disk_room::DiskRoom;
use crate::edition::Edition;
use crate::funds::Funds;
use crate::lanes::devices::{DeviceStatus, Retries};
use crate::lanes::lending::Lending;
use crate::lanes::payments::Execution;
use crate::lanes::plans::ExecutionCounter;
use crate::lanes::trading::Trading;
use crate::ports::Ports;
use crate::service::data_dir::DataFolder;
use crate::vault::Vault;

/// The purpose of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Runs timers, lanes and, on request, the agent server.
    Full,
    /// Runs one command of the operator: no timers, no lanes, no server.
    Maintenance,
}

/// The parts of one engine.
#[derive(Debug)]
pub(crate) struct EngineContext {
    pub(crate) folder: DataFolder,
    pub(crate) edition: Edition,
    pub(crate) settings: Arc<LiveConfig>,
    pub(crate) mode: Mode,
    pub(crate) ports: Ports,
    pub(crate) disk_room: Arc<DiskRoom>,
    pub(crate) core: Handle,
    pub(crate) vault: Arc<Vault>,
    pub(crate) execution: Execution,
    pub(crate) chain_time: HintedClock,
    pub(crate) funds: Arc<Funds>,
    pub(crate) trading: Arc<Trading>,
    pub(crate) lending: Arc<Lending>,
    pub(crate) executed: ExecutionCounter,
    /// Work that must finish before the process ends.
    pub(crate) tasks: TaskTracker,
    pub(crate) server: tokio::sync::Mutex<Option<Server>>,
    /// Whether `server start --allow-lan` opened the agent server to the network, until that server stops.
    pub(crate) lan_until_stopped: AtomicBool,
    /// Serializes changes of the wallet file and of the journal's entries about it.
    pub(crate) wallet_changes: tokio::sync::Mutex<()>,
    /// Lets one command at a time use the hardware devices.
    pub(crate) device_turn: crate::device::Turn,
    /// The state of the device queue.
    pub(crate) device_status: watch::Receiver<Arc<DeviceStatus>>,
    /// Makes the device queue try again.
    pub(crate) device_retries: Retries,
    /// Serializes backups: each needs disk space for the whole journal.
    pub(crate) backups: tokio::sync::Mutex<()>,
    /// Lets one upload of a mandate at a time run.
    pub(crate) uploads: tokio::sync::Mutex<()>,
    /// Serializes password attempts. Its value is the journal's count of wrong passwords at the last correct
    /// password.
    pub(crate) password_tries: tokio::sync::Mutex<u32>,
    /// When the wallet was last used, in milliseconds of the monotonic clock.
    pub(crate) last_used_ms: AtomicU64,
    pub(crate) stopping: CancellationToken,
    /// Each attached console holds a clone: the strong count minus one is the number of consoles.
    pub(crate) consoles: Arc<()>,
    /// The source of the password that opened the wallet at the start, in words; `None` if a person opens it.
    pub(crate) start_unlock: Option<String>,
}

impl EngineContext {
    /// Returns the seconds until the open wallet locks automatically; `None` if it does not.
    pub(crate) fn locks_in_s(&self) -> Option<u64> {
        let limit_s = self.core.view().idle_lock_s()?;
        let since_ms = self.last_used_ms.load(Ordering::Relaxed);
        let unused_ms = self.ports.clock.mono_ms().saturating_sub(since_ms);
        let left_ms = limit_s.saturating_mul(1_000).saturating_sub(unused_ms);
        self.vault.is_unlocked().then(|| left_ms.div_ceil(1_000))
    }

    /// Returns the enabled networks of which no endpoint answers, each with the time of its first silence in
    /// milliseconds of the monotonic clock.
    pub(crate) fn silent_chains(&self) -> Vec<(&'static Network, Arc<dyn Chain>, u64)> {
        let state = &self.core.view().state;
        let enabled = NETWORKS.iter().filter(|row| state.is_network_enabled(row.chain));
        let silent = enabled.filter_map(|row| {
            let chain = self.ports.chains.get(&row.chain)?;
            let since_ms = chain.silent_since_ms()?;
            Some((row, chain, since_ms))
        });
        silent.collect()
    }

    /// Passes a fault point.
    ///
    /// # Errors
    /// Only in tests.
    pub(crate) fn hit(&self, point: &'static str) -> Result<(), Fault> {
        let fault = |error| Fault::new(Code::InternalError).with_detail(error);
        self.ports.failpoints.hit(point).map_err(fault)
    }

    /// Returns 32 random bytes in hex.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the platform has no entropy.
    pub(crate) fn random_hex(&self) -> Result<String, Fault> {
        Ok(hex::encode(self.random::<32>()?))
    }

    /// Returns a secret of 32 random bytes in a box.
    ///
    /// A move of the box, also into or out of a future, leaves no copy of the secret behind.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the platform has no entropy.
    pub(crate) fn random_secret(&self) -> Result<SecretBox<[u8; 32]>, Fault> {
        let mut filled = Ok(());
        let secret = SecretBox::init_with_mut(|bytes: &mut [u8; 32]| {
            filled = self.ports.random.fill(bytes);
        });
        filled.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(secret)
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.ports
            .random
            .fill(&mut bytes)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(bytes)
    }
}
