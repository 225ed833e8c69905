//! Settings: built-in default < TOML file < environment. Every key is a row of one table (`table`), from which
//! [`settings`](bursar_serve::settings) derives the file, the environment and the manual.
//!
//! Files that contain secrets are named here and read by [`keys`](crate::keys). Nodes are [`Endpoint`]s, because their
//! URLs are secrets themselves. No error quotes the value of a key that may be secret.

mod endpoint;
mod file;
mod network;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, by_chain};
use bursar_serve::access::{ApiKey, IpRanges, add_file};
use bursar_serve::logs::LogFormat;
use bursar_serve::settings::{ConfigFault, Environment, filled_in, set_from_environment};

use crate::settle::once::Repeats;
pub use endpoint::Endpoint;
pub use network::{DEFAULT_FACTORIES, NetworkConfig, SERVED};
pub use table::reference;

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address on which payments are verified and settled.
    pub listen: SocketAddr,
    /// The address on which metrics are read; `None` if there are none.
    pub metrics_listen: Option<SocketAddr>,
    /// The redb file of outboxes and settlements.
    pub store: PathBuf,
    /// How long a settle request waits for its block before it returns `settlement_pending`, in milliseconds.
    pub wait_ms: u64,
    /// How long records of settled payments are kept, in days; 0 keeps them forever.
    pub retention_days: u32,
    /// Maximum number of settlements per transaction.
    pub batch_calls: usize,
    /// How long a settlement waits for others to share its transaction, in milliseconds.
    pub batch_window_ms: u64,
    /// Maximum number of unmined transactions per signer.
    pub in_flight: usize,
    /// How long a stopping facilitator waits for requests in flight, in milliseconds.
    pub drain_ms: u64,
    pub log_format: LogFormat,
    /// Keys of permitted callers, including those of `api_keys_file`; empty: any caller.
    pub api_keys: Vec<ApiKey>,
    /// A file with further keys, read by [`Config::load`].
    pub api_keys_file: Option<PathBuf>,
    /// Addresses that may be paid; empty: any address.
    pub pay_to: BTreeSet<Address>,
    /// Requests per minute of one API key, or of one address if there are no keys; 0: no limit.
    pub rate_per_minute: u32,
    /// What the repeat of a settled payment receives.
    pub repeats: Repeats,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: IpRanges,
    /// Every network of [`SERVED`], configured or not.
    pub networks: BTreeMap<ChainId, NetworkConfig>,
}

impl Default for Config {
    fn default() -> Self {
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let rows = SERVED.iter().filter_map(|chain| by_chain(*chain));
        Self {
            listen: here(4402),
            metrics_listen: Some(here(4403)),
            store: PathBuf::from("facilitator.redb"),
            wait_ms: 8_000,
            retention_days: 400,
            batch_calls: 50,
            batch_window_ms: 50,
            in_flight: 16,
            drain_ms: 20_000,
            log_format: LogFormat::Text,
            api_keys: Vec::new(),
            api_keys_file: None,
            pay_to: BTreeSet::new(),
            rate_per_minute: 600,
            repeats: Repeats::default(),
            trusted_proxies: IpRanges::default(),
            networks: rows.map(|row| (row.chain, NetworkConfig::of(row))).collect(),
        }
    }
}

impl Config {
    /// Reads the file, if there is one, and the environment. Relative paths are relative to the folder of the file, or
    /// without a file to the working folder.
    ///
    /// # Errors
    /// The first key that is invalid, and where it is set.
    pub fn load(file: Option<&Path>, env: Environment<'_>) -> Result<Self, ConfigFault> {
        let mut config = Self::default();
        if let Some(file) = file {
            file::apply(&mut config, file)?;
        }
        config.apply_environment(env)?;
        if let Some(folder) = file.and_then(Path::parent) {
            config.place_paths(folder);
        }
        config.read_api_keys_file()?;
        config.check()?;
        Ok(config)
    }

    fn apply_environment(&mut self, env: Environment<'_>) -> Result<(), ConfigFault> {
        let variable = "DATABASE_URL".to_owned();
        if filled_in(env, &variable).is_some() {
            let why = "PostgreSQL is not supported: unset it, and set FACILITATOR_STORE to a file";
            return Err(ConfigFault::Variable { variable, why: why.to_owned() });
        }
        set_from_environment(table::SERVICE, self, "", env)?;
        for (chain, network) in &mut self.networks {
            set_from_environment(table::NETWORK, network, &table::suffix(*chain), env)?;
        }
        Ok(())
    }

    fn place_paths(&mut self, folder: &Path) {
        // Joining an absolute path returns it unchanged.
        let place = |path: &mut PathBuf| *path = folder.join(&*path);
        place(&mut self.store);
        self.api_keys_file.iter_mut().for_each(place);
        for network in self.networks.values_mut() {
            network.signers.iter_mut().for_each(place);
            network.password_file.iter_mut().for_each(place);
        }
    }

    /// Checks keys that depend on each other.
    fn check(&self) -> Result<(), ConfigFault> {
        for (chain, network) in &self.networks {
            let lacks_price =
                network.max_gas_share_percent.is_some() && network.native_micro_usd.is_none();
            if network.is_configured() && lacks_price {
                let variable = format!("NATIVE_USD{}", table::suffix(*chain));
                let why =
                    "max_gas_share_percent needs native_usd: set the price of the coin".to_owned();
                return Err(ConfigFault::Variable { variable, why });
            }
        }
        Ok(())
    }

    fn read_api_keys_file(&mut self) -> Result<(), ConfigFault> {
        match &self.api_keys_file {
            Some(file) => add_file(&mut self.api_keys, file),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
