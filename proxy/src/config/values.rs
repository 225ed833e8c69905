//! The settings as values, and their defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_serve::access::IpRanges;
use bursar_serve::logs::LogFormat;
use bursar_serve::settings::ConfigFault;
use secrecy::SecretString;

use super::models::Model;
use crate::offer::Method;
use crate::price::Rate;
use crate::unpaid::{DOLLAR_DECIMALS, Dollars, UnpaidLimits};

/// The default upstream.
pub const DEFAULT_UPSTREAM: &str = "https://api.openai.com/v1";
/// The default facilitator: the operator's own, on this machine.
pub const DEFAULT_FACILITATOR: &str = "http://127.0.0.1:4402";
/// Default price per thousand tokens, in units of 10^-18 dollars: 0.001 dollars.
const DEFAULT_RATE: Rate = Rate(1_000_000_000_000_000);

/// All settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub metrics_listen: Option<SocketAddr>,
    /// The public URL of the service.
    ///
    /// `None` uses the host of each request.
    pub public_url: Option<String>,
    pub store: PathBuf,
    pub upstream_url: SecretUrl,
    pub upstream_key: Option<SecretString>,
    pub upstream_key_file: Option<PathBuf>,
    pub facilitator_url: SecretUrl,
    pub facilitator_key: Option<SecretString>,
    pub facilitator_key_file: Option<PathBuf>,
    /// Nodes that confirm pending settlements, in order of use.
    ///
    /// The first node that answers must know the transaction.
    pub rpc: Rpc,
    pub allow_plain_http: bool,
    pub wallet_address: Option<Address>,
    pub networks: Vec<&'static Network>,
    pub asset: Option<Address>,
    pub asset_decimals: Option<u8>,
    pub asset_name: Option<String>,
    pub asset_version: Option<String>,
    pub asset_method: Method,
    /// Price of models that are not in the table.
    pub price: Rate,
    pub models: BTreeMap<String, Model>,
    /// Whether models that are not in the table are sold.
    ///
    /// `None` means that they are sold only if there is no table.
    pub other_models: Option<bool>,
    pub default_model: Option<String>,
    pub completion_tokens: u64,
    pub max_completion_tokens: u64,
    pub max_prompt_tokens: u64,
    /// The member of the body that contains the bound for the upstream.
    pub bound_field: &'static str,
    pub extra_fields: Vec<String>,
    pub body_bytes: usize,
    pub upstream_ms: u64,
    pub upstream_idle_ms: u64,
    pub max_timeout_seconds: u64,
    pub in_flight: usize,
    /// Memory for answers that are not streams.
    pub answers_bytes: usize,
    /// Limits on unpaid sales.
    pub unpaid: UnpaidLimits,
    pub rate_per_minute: u32,
    pub trusted_proxies: IpRanges,
    pub cors_origins: CorsOrigins,
    pub drain_ms: u64,
    pub log_format: LogFormat,
}

impl Default for Config {
    fn default() -> Self {
        let localhost = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            listen: localhost(4021),
            metrics_listen: Some(localhost(4022)),
            public_url: None,
            store: PathBuf::from("proxy.redb"),
            upstream_url: SecretUrl(DEFAULT_UPSTREAM.to_owned()),
            upstream_key: None,
            upstream_key_file: None,
            facilitator_url: SecretUrl(DEFAULT_FACILITATOR.to_owned()),
            facilitator_key: None,
            facilitator_key_file: None,
            rpc: Rpc::Default,
            allow_plain_http: false,
            wallet_address: None,
            networks: by_chain(ChainId(8453)).into_iter().collect(),
            asset: None,
            asset_decimals: None,
            asset_name: None,
            asset_version: None,
            asset_method: Method::Eip3009,
            price: DEFAULT_RATE,
            models: BTreeMap::new(),
            other_models: None,
            default_model: None,
            completion_tokens: 1_024,
            max_completion_tokens: 32_768,
            max_prompt_tokens: 131_072,
            bound_field: "max_completion_tokens",
            extra_fields: Vec::new(),
            body_bytes: 1 << 20,
            upstream_ms: 300_000,
            upstream_idle_ms: 60_000,
            max_timeout_seconds: 600,
            in_flight: 1_024,
            answers_bytes: 128 << 20,
            unpaid: UnpaidLimits { per_payer_max: dollars(10), total_max: dollars(100) },
            rate_per_minute: 300,
            trusted_proxies: IpRanges::default(),
            cors_origins: CorsOrigins::None,
            drain_ms: 30_000,
            log_format: LogFormat::Text,
        }
    }
}

/// Converts whole dollars to [`Dollars`].
fn dollars(whole: u64) -> Dollars {
    let unit = U256::from(10).saturating_pow(U256::from(DOLLAR_DECIMALS));
    U256::from(whole).saturating_mul(unit)
}

/// The origins whose pages may call the API from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigins {
    None,
    Any,
    /// Origins as browsers write them: scheme, host and port.
    Listed(Vec<String>),
}

/// The nodes that are queried for the transactions of pending settlements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rpc {
    /// Each network's public nodes.
    Default,
    /// No nodes: pending settlements are not accepted.
    Off,
    /// The operator's nodes, each with its network.
    ///
    /// A node without a network belongs to the only network in `networks`. A network without a node in this list uses
    /// its public nodes.
    Nodes(Vec<(Option<ChainId>, SecretUrl)>),
}

/// A URL from the settings.
///
/// It may contain a key, so `Debug` redacts it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(pub(crate) String);

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretUrl([redacted])")
    }
}

/// Why settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFault {
    #[error(transparent)]
    Config(#[from] ConfigFault),
    #[error("{key}: {why}.")]
    Key { key: &'static str, why: String },
}
