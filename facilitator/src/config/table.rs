//! The one table of keys: what each is called, what it is until somebody sets it, what it means, and how
//! it is set. The file, the environment and the manual all come from it.

use std::fmt::Write;

use alloy_primitives::U256;
use bursar_chain::rpc::ENDPOINTS_MAX;
use bursar_core::networks::{ChainId, NATIVE_DECIMALS};

use super::access::api_keys;
use super::given::Given;
use super::{Config, Endpoint, LogFormat, NetworkConfig};

/// Signers of a network: what they pay gas with is watched for each.
const SIGNERS_MAX: usize = 16;

/// Thousand times the dearest row of the table: beyond it, the number was meant in wei.
const GAS_PRICE_MAX: u128 = 1_000_000 * GWEI;
const GWEI: u128 = 1_000_000_000;
const GWEI_DECIMALS: u8 = 9;

/// One row.
pub(super) struct Key<T: 'static> {
    /// In the file; a network's within its table.
    pub(super) name: &'static str,
    /// In the environment; a network's with its chain id behind it.
    pub(super) variable: &'static str,
    /// In words, as it would be written.
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
    pub(super) set: fn(&mut T, Given<'_>) -> Result<(), String>,
}

impl Key<NetworkConfig> {
    /// `RPC_URL_8453`.
    pub(super) fn variable_of(&self, chain: ChainId) -> String {
        format!("{}_{chain}", self.variable)
    }
}

/// Keys of the service.
pub(super) const SERVICE: &[Key<Config>] = &[
    Key {
        name: "listen",
        variable: "FACILITATOR_LISTEN",
        default: "127.0.0.1:4402",
        meaning: "Where payments are verified and settled.",
        set: |config, given| put(&mut config.listen, given.socket()),
    },
    Key {
        name: "metrics_listen",
        variable: "FACILITATOR_METRICS_LISTEN",
        default: "127.0.0.1:4403",
        meaning: "Where metrics are read; `off` for nowhere.",
        set: |config, given| {
            let off = given.text()? == "off";
            config.metrics_listen = if off { None } else { Some(given.socket()?) };
            Ok(())
        },
    },
    Key {
        name: "store",
        variable: "FACILITATOR_STORE",
        default: "facilitator.redb",
        meaning: "The file that remembers settlements. `DATABASE_URL` is refused: PostgreSQL is not built \
                  in yet.",
        set: |config, given| {
            if given.text()?.contains("://") {
                return Err("it must be a file, not the URL of a database".to_owned());
            }
            put(&mut config.store, given.path())
        },
    },
    Key {
        name: "wait_ms",
        variable: "FACILITATOR_WAIT_MS",
        default: "8000",
        meaning: "How long a settle waits for its block before it answers `settlement_pending`; at most \
                  10000.",
        set: |config, given| put(&mut config.wait_ms, given.whole(0..=10_000)),
    },
    Key {
        name: "retention_days",
        variable: "FACILITATOR_RETENTION_DAYS",
        default: "400",
        meaning: "How long settled records are kept; 0 keeps them for ever.",
        set: |config, given| put(&mut config.retention_days, given.whole(0..=36_500)),
    },
    Key {
        name: "batch_calls",
        variable: "FACILITATOR_BATCH_CALLS",
        default: "50",
        meaning: "How many settlements share a transaction, 1 to 100.",
        set: |config, given| put(&mut config.batch_calls, given.whole(1..=100)),
    },
    Key {
        name: "batch_window_ms",
        variable: "FACILITATOR_BATCH_WINDOW_MS",
        default: "50",
        meaning: "How long a settlement waits for others to share its transaction, at most 1000.",
        set: |config, given| put(&mut config.batch_window_ms, given.whole(0..=1_000)),
    },
    Key {
        name: "in_flight",
        variable: "FACILITATOR_IN_FLIGHT",
        default: "4",
        meaning: "How many transactions a signer may have unmined at a time, 1 to 16.",
        set: |config, given| put(&mut config.in_flight, given.whole(1..=16)),
    },
    Key {
        name: "drain_ms",
        variable: "FACILITATOR_DRAIN_MS",
        default: "20000",
        meaning: "How long a stopping facilitator waits for what it has begun, at most 600000.",
        set: |config, given| put(&mut config.drain_ms, given.whole(0..=600_000)),
    },
    Key {
        name: "log_format",
        variable: "FACILITATOR_LOG_FORMAT",
        default: "text",
        meaning: "How log lines are written: `text` or `json`.",
        set: |config, given| {
            config.log_format = match given.text()? {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _other => return Err("it must be text or json".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "api_keys",
        variable: "FACILITATOR_API_KEYS",
        default: "none",
        meaning: "Who may call: `{ name, sha256 }` for each, in the environment `name:sha256`. The sha256 \
                  is the digest of the key, never the key. Without keys anybody may call.",
        set: |config, given| put(&mut config.api_keys, api_keys(given)),
    },
    Key {
        name: "api_keys_file",
        variable: "FACILITATOR_API_KEYS_FILE",
        default: "none",
        meaning: "A file of further keys, one `name:sha256` a line.",
        set: |config, given| put(&mut config.api_keys_file, given.path().map(Some)),
    },
    Key {
        name: "pay_to",
        variable: "FACILITATOR_PAY_TO",
        default: "none",
        meaning: "The only addresses that may be paid. Without any, all may be.",
        set: |config, given| put(&mut config.pay_to, given.addresses()),
    },
    Key {
        name: "rate_per_minute",
        variable: "FACILITATOR_RATE_PER_MINUTE",
        default: "0",
        meaning: "Requests a minute of one API key, or of one client's address where there are no keys; 0 \
                  sets no limit.",
        set: |config, given| put(&mut config.rate_per_minute, given.whole(0..=1_000_000)),
    },
    Key {
        name: "trusted_proxies",
        variable: "FACILITATOR_TRUSTED_PROXIES",
        default: "none",
        meaning: "IP addresses of proxies whose `X-Forwarded-For` is believed.",
        set: |config, given| {
            let addresses = given.list()?.into_iter().map(|text| {
                text.parse().map_err(|_not_one| "each of them must be an IP address".to_owned())
            });
            put(&mut config.trusted_proxies, addresses.collect())
        },
    },
];

/// Keys of a network.
pub(super) const NETWORK: &[Key<NetworkConfig>] = &[
    Key {
        name: "rpc",
        variable: "RPC_URL",
        default: "none",
        meaning: "Its nodes, in the order in which they are tried. Only their hosts are ever shown: path \
                  and query hold your API key.",
        set: |network, given| put(&mut network.rpc, endpoints(given)),
    },
    Key {
        name: "signers",
        variable: "SIGNER_FILES",
        default: "none",
        meaning: "Key files of the accounts that pay gas: encrypted JSON keystores, or files of mode 0600 \
                  with 64 hex digits. Without a node or a signer the network is not served.",
        set: |network, given| {
            let files: Vec<_> = given.list()?.into_iter().map(Into::into).collect();
            if files.len() > SIGNERS_MAX {
                return Err(format!("a network has at most {SIGNERS_MAX} signers"));
            }
            network.signers = files;
            Ok(())
        },
    },
    Key {
        name: "password_file",
        variable: "SIGNER_PASSWORD_FILE",
        default: "none",
        meaning: "A file of mode 0600 with the password of its keystores.",
        set: |network, given| put(&mut network.password_file, given.path().map(Some)),
    },
    Key {
        name: "max_gas_price_gwei",
        variable: "MAX_GAS_PRICE_GWEI",
        default: "the network's own ceiling",
        meaning: "The most that is offered for a unit of gas, like `\"0.5\"`. Above it, a settle answers \
                  `gas_too_high`.",
        set: |network, given| put(&mut network.max_gas_price, gas_price(given)),
    },
    Key {
        name: "min_signer_balance",
        variable: "MIN_SIGNER_BALANCE",
        default: "0.005",
        meaning: "The balance below which a signer takes no more settlements: with a point in the \
                  network's coin, like `\"0.01\"` or `\"1.0\"`, without one in wei.",
        set: |network, given| put(&mut network.min_signer_balance, balance(given)),
    },
    Key {
        name: "poll_ms",
        variable: "POLL_MS",
        default: "200",
        meaning: "How often the newest block is looked at while something waits for it, 20 to 10000.",
        set: |network, given| put(&mut network.poll_ms, given.whole(20..=10_000)),
    },
    Key {
        name: "confirmations",
        variable: "CONFIRMATIONS",
        default: "the network's own",
        meaning: "From how many blocks on, its own included, a settlement counts, 1 to 1000.",
        set: |network, given| put(&mut network.confirmations, given.whole(1..=1_000)),
    },
    Key {
        name: "eip6492_factories",
        variable: "EIP6492_FACTORIES",
        default: "Coinbase Smart Wallet, Safe and Kernel",
        meaning: "Factories that may deploy a payer's wallet with its payment; `[]`, in the environment \
                  `none`, allows none.",
        set: |network, given| put(&mut network.eip6492_factories, given.addresses()),
    },
    Key {
        name: "prism",
        variable: "PRISM",
        default: "0x402357ff1e18d42d0f14a5d56d6e1ebd741b3a86",
        meaning: "The contract of the method `prism`.",
        set: |network, given| put(&mut network.prism, given.address()),
    },
    Key {
        name: "exact_permit2_proxy",
        variable: "EXACT_PERMIT2_PROXY",
        default: "0x402085c248EeA27D92E8b30b2C58ed07f9E20001",
        meaning: "The official proxy of the scheme `exact` by Permit2.",
        set: |network, given| put(&mut network.exact_permit2_proxy, given.address()),
    },
    Key {
        name: "permit2",
        variable: "PERMIT2",
        default: "0x000000000022D473030F116dDEE9F6B43aC78BA3",
        meaning: "The Permit2 contract.",
        set: |network, given| put(&mut network.permit2, given.address()),
    },
    Key {
        name: "tokens",
        variable: "TOKENS",
        default: "none",
        meaning: "The only tokens that are taken besides the network's dollar token. Without any, all are.",
        set: |network, given| put(&mut network.tokens, given.addresses()),
    },
    Key {
        name: "gas_cap_contract",
        variable: "GAS_CAP_CONTRACT",
        default: "600000",
        meaning: "Gas that the settlement of a contract wallet's payment may use, 100000 to 30000000.",
        set: |network, given| put(&mut network.gas_cap_contract, given.whole(100_000..=30_000_000)),
    },
    Key {
        name: "block_gas_share_percent",
        variable: "BLOCK_GAS_SHARE_PERCENT",
        default: "25",
        meaning: "How much of a block's gas one transaction may take, 1 to 100.",
        set: |network, given| put(&mut network.block_gas_share_percent, given.whole(1..=100)),
    },
];

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *place = value)
}

fn endpoints(given: Given<'_>) -> Result<Vec<Endpoint>, String> {
    let list = given.list()?;
    if list.len() > ENDPOINTS_MAX {
        return Err(format!("a network has at most {ENDPOINTS_MAX} endpoints"));
    }
    list.into_iter().map(Endpoint::parse).collect()
}

fn gas_price(given: Given<'_>) -> Result<u128, String> {
    let wei = given.decimal(GWEI_DECIMALS)?;
    // Nothing could be sent at a price of zero.
    let inside = u128::try_from(wei).ok().filter(|wei| (1..=GAS_PRICE_MAX).contains(wei));
    inside.ok_or_else(|| "it must be above 0 and at most 1000000 gwei".to_owned())
}

fn balance(given: Given<'_>) -> Result<U256, String> {
    let coins = matches!(given.text(), Ok(text) if text.contains('.'));
    let wei = given.decimal(if coins { NATIVE_DECIMALS } else { 0 })?;
    let inside = u128::try_from(wei).is_ok();
    if inside { Ok(wei) } else { Err("it is more than there can be of any coin".to_owned()) }
}

/// The manual: every key with its variable, its default and its meaning.
pub fn reference() -> String {
    let mut page = String::from("| Key | Variable | Default | Meaning |\n|---|---|---|---|\n");
    for key in SERVICE {
        row(&mut page, key, key.name, key.variable);
    }
    for key in NETWORK {
        let (name, variable) =
            (format!("networks.<id>.{}", key.name), format!("{}_<id>", key.variable));
        row(&mut page, key, &name, &variable);
    }
    page
}

fn row<T>(page: &mut String, key: &Key<T>, name: &str, variable: &str) {
    let (default, meaning) = (key.default, key.meaning);
    // Writing to a string cannot fail.
    let _written = writeln!(page, "| `{name}` | `{variable}` | {default} | {meaning} |");
}
