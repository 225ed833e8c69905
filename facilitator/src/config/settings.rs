//! All settings and their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, by_chain};
use bursar_serve::access::{ApiKey, IpRanges};
use bursar_serve::logs::LogFormat;

use crate::config::network::{NetworkConfig, SERVABLE_NETWORKS};
use crate::settle::success_rights::{ForeignSettlements, Repeats};

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address on which payments are verified and settled.
    pub listen: SocketAddr,
    /// The address on which metrics are read; `None` if metrics are off.
    pub metrics_listen: Option<SocketAddr>,
    /// The redb file of outboxes and settlements.
    pub store: PathBuf,
    /// How long a settle request waits for a block with its transaction, in milliseconds.
    ///
    /// After that it returns `settlement_pending`.
    pub wait_ms: u64,
    /// How long records of ended payments are kept, in days; 0 keeps them forever.
    pub retention_days: u32,
    /// Maximum number of settlements per transaction.
    pub batch_calls: usize,
    /// How long a settlement waits for others to share its transaction, in milliseconds.
    ///
    /// If no transaction is in flight, it does not wait.
    pub batch_window_ms: u64,
    /// Maximum number of unmined transactions per signer.
    pub in_flight: usize,
    /// How long a stopping facilitator waits for requests in flight, in milliseconds.
    pub drain_ms: u64,
    pub log_format: LogFormat,
    /// Keys of permitted callers, including those of `api_keys_file`; if empty, any caller is permitted.
    pub api_keys: Vec<ApiKey>,
    /// A file with further keys, read by [`Config::load`].
    pub api_keys_file: Option<PathBuf>,
    /// Addresses that may be paid; if empty, any address may be paid.
    pub pay_to: BTreeSet<Address>,
    /// Requests per minute of one API key, or of one address if there are no keys; 0 sets no limit.
    pub rate_per_minute: u32,
    /// The answer to a repeated request for a settled payment.
    pub repeats: Repeats,
    /// The answer for a payment that another facilitator, another store or a stranger settled.
    pub foreign_settlements: ForeignSettlements,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: IpRanges,
    /// Every network of [`SERVABLE_NETWORKS`], configured or not.
    pub networks: BTreeMap<ChainId, NetworkConfig>,
}

impl Default for Config {
    fn default() -> Self {
        let localhost = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let rows = SERVABLE_NETWORKS.iter().filter_map(|chain| by_chain(*chain));
        Self {
            listen: localhost(4402),
            metrics_listen: Some(localhost(4403)),
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
            foreign_settlements: ForeignSettlements::default(),
            trusted_proxies: IpRanges::default(),
            networks: rows.map(|row| (row.chain, NetworkConfig::of(row))).collect(),
        }
    }
}
