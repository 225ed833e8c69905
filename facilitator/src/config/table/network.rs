//! The rows of a network, and parsers for some of their values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use bursar_chain::rpc::ENDPOINTS_MAX;
use bursar_core::address;
use bursar_core::networks::NATIVE_DECIMALS;
use bursar_serve::settings::{Key, RawSetting, put};

use crate::config::endpoint::Endpoint;
use crate::config::network::NetworkConfig;

/// Maximum number of signers per network. The balance of each is read regularly.
const SIGNERS_MAX: usize = 16;

/// Maximum gas price, in wei: a thousand times the highest default. The author of a larger setting probably meant wei
/// instead of gwei.
const GAS_PRICE_MAX: u128 = 1_000_000 * GWEI;
const GWEI: u128 = 1_000_000_000;
const GWEI_DECIMALS: u8 = 9;

/// Keys of a network.
pub(in crate::config) const NETWORK: &[Key<NetworkConfig>] = &[
    Key {
        name: "rpc",
        variable: "RPC_URL",
        default: "none",
        meaning: "The network's nodes, in the order in which they are tried. Only their hosts are ever \
             shown: path and query hold your API key.",
        set: |network, given| put(&mut network.rpc, endpoints(given)),
    },
    Key {
        name: "allow_plain_http",
        variable: "ALLOW_PLAIN_HTTP",
        default: "false",
        meaning: "Whether nodes at private addresses may use `http://`. Nodes on this machine always may, \
             public addresses never.",
        set: |network, given| put(&mut network.allow_plain_http, given.flag()),
    },
    Key {
        name: "signers",
        variable: "SIGNER_FILES",
        default: "none",
        meaning: "Key files of the accounts that pay gas: encrypted JSON keystores, or files of mode 0600 \
             with 64 hex digits. A network without a node or a signer is not served.",
        set: |network, given| put(&mut network.signers, signer_files(given)),
    },
    Key {
        name: "retired_signers",
        variable: "RETIRED_SIGNER_FILES",
        default: "none",
        meaning: "Key files of former signers. They send only `upto` payments whose payers named them, or named \
             a contract that no other signer can call. Keep a former signer here, with coin, until the last of \
             those payments has expired.",
        set: |network, given| put(&mut network.retired_signers, signer_files(given)),
    },
    Key {
        name: "upto_facilitator",
        variable: "UPTO_FACILITATOR",
        default: "the first signer",
        meaning: "The signer that payers of the scheme `upto` name: only that account can settle their \
             payments. Must be the address of one of `signers`.",
        set: |network, given| put(&mut network.upto_facilitator, given.address().map(Some)),
    },
    Key {
        name: "upto_contracts",
        variable: "UPTO_CONTRACTS",
        default: "none",
        meaning: "Instead of one signer, payers of the scheme `upto` name a contract that all these accounts can \
             call: `[\"0xA… 0xB…\"]`. Each entry is one contract; the first is offered, and earlier ones \
             after it are accepted. `bursar-facilitator upto-contract` prints how to deploy it. Every \
             account must be one of `signers` or `retired_signers`.",
        set: |network, given| put(&mut network.upto_contracts, contract_senders(given)),
    },
    Key {
        name: "authorizer",
        variable: "AUTHORIZER_FILE",
        default: "none",
        meaning: "The key file of the account that merchants may name as the `receiverAuthorizer` of their \
             payment channels. It sends no transactions and must not be a signer. It signs claims for any caller \
             if every row adds something and its voucher is valid, and refunds for the `receivers` of the \
             caller's API key alone. Without it `/supported` does not list `batch-settlement`.",
        set: |network, given| put(&mut network.authorizer, given.path().map(Some)),
    },
    Key {
        name: "password_file",
        variable: "SIGNER_PASSWORD_FILE",
        default: "none",
        meaning: "A file with the password of the keystores, of mode 0600, or 0440 as systemd mounts credentials and \
             Kubernetes secrets.",
        set: |network, given| put(&mut network.password_file, given.path().map(Some)),
    },
    Key {
        name: "max_gas_price_gwei",
        variable: "MAX_GAS_PRICE_GWEI",
        default: "5, on SKALE 1000",
        meaning: "The highest price per unit of gas for a payment, like `\"0.5\"`. Above it, payments are \
             rejected with `gas_too_high`. A transaction that withdraws a payment may offer four times as much.",
        set: |network, given| put(&mut network.max_gas_price, gas_price(given)),
    },
    Key {
        name: "min_signer_balance",
        variable: "MIN_SIGNER_BALANCE",
        default: "0.005",
        meaning: "The balance below which a signer raises an alert. With a point the value is in the \
             network's coin, like `\"0.01\"` or `\"1.0\"`; without one it is in wei.",
        set: |network, given| put(&mut network.min_signer_balance, balance(given)),
    },
    Key {
        name: "poll_ms",
        variable: "POLL_MS",
        default: "200",
        meaning: "How often the newest block is read while a payment waits for it, 20 to 10000.",
        set: |network, given| put(&mut network.poll_ms, given.whole_number(20..=10_000)),
    },
    Key {
        name: "confirmations",
        variable: "CONFIRMATIONS",
        default: "the network's own",
        meaning: "How many blocks, its own included, make a settlement final, 1 to 1000. Callers are \
             answered as soon as it is in a block.",
        set: |network, given| put(&mut network.confirmations, given.whole_number(1..=1_000)),
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
        name: "upto_permit2_proxy",
        variable: "UPTO_PERMIT2_PROXY",
        default: "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002",
        meaning: "The official proxy of the scheme `upto`.",
        set: |network, given| put(&mut network.upto_permit2_proxy, given.address()),
    },
    Key {
        name: "permit2",
        variable: "PERMIT2",
        default: "0x000000000022D473030F116dDEE9F6B43aC78BA3",
        meaning: "The Permit2 contract.",
        set: |network, given| put(&mut network.permit2, given.address()),
    },
    Key {
        name: "batch_settlement",
        variable: "BATCH_SETTLEMENT",
        default: "0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003",
        meaning: "The official escrow of the scheme `batch-settlement`.",
        set: |network, given| put(&mut network.batch_settlement, given.address()),
    },
    Key {
        name: "erc3009_collector",
        variable: "ERC3009_COLLECTOR",
        default: "0x4020806089470a89826cB9fB1f4059150b550004",
        meaning: "The official collector of deposits by EIP-3009.",
        set: |network, given| put(&mut network.erc3009_collector, given.address()),
    },
    Key {
        name: "permit2_collector",
        variable: "PERMIT2_COLLECTOR",
        default: "0x4020425FAf3B746C082C2f942b4E5159887B0005",
        meaning: "The official collector of deposits by Permit2.",
        set: |network, given| put(&mut network.permit2_collector, given.address()),
    },
    Key {
        name: "tokens",
        variable: "TOKENS",
        default: "none",
        meaning: "The only tokens that are accepted in addition to the network's dollar token. Without any, \
             all are.",
        set: |network, given| put(&mut network.tokens, given.addresses()),
    },
    Key {
        name: "gas_cap_contract",
        variable: "GAS_CAP_CONTRACT",
        default: "600000",
        meaning: "The gas that settling a contract wallet's payment may use, 100000 to 30000000.",
        set: |network, given| {
            put(&mut network.gas_cap_contract, given.whole_number(100_000..=30_000_000))
        },
    },
    Key {
        name: "block_gas_share_percent",
        variable: "BLOCK_GAS_SHARE_PERCENT",
        default: "25",
        meaning: "How much of a block's gas one transaction may take, 1 to 100.",
        set: |network, given| {
            put(&mut network.block_gas_share_percent, given.whole_number(1..=100))
        },
    },
    Key {
        name: "max_gas_share_percent",
        variable: "MAX_GAS_SHARE_PERCENT",
        default: "none",
        meaning: "How much of a payment's value its gas may cost, 1 to 10000; above it, payments are \
             rejected with `gas_too_high`. It needs `native_usd`. Only payments in the network's dollar \
             token have a known value, so others are rejected if a share is set.",
        set: |network, given| {
            put(
                &mut network.max_gas_share_percent,
                unless_none(given, |given| given.whole_number(1..=10_000)),
            )
        },
    },
    Key {
        name: "native_usd",
        variable: "NATIVE_USD",
        default: "none",
        meaning: "The price of one coin of the network in dollars, like `\"3500\"`, for `max_gas_share_percent`.",
        set: |network, given| put(&mut network.native_micro_usd, unless_none(given, native_usd)),
    },
    Key {
        name: "gas_budget_caller_percent",
        variable: "GAS_BUDGET_CALLER_PERCENT",
        default: "10",
        meaning: "How much of the signers' coin may be spent per day (UTC) for one caller: an API key, or \
             an address if there are no keys. Above it, payments are rejected with `gas_budget_spent`.",
        set: |network, given| {
            put(&mut network.gas_budget_caller_percent, given.whole_number(0..=100))
        },
    },
    Key {
        name: "gas_budget_percent",
        variable: "GAS_BUDGET_PERCENT",
        default: "50",
        meaning: "The same for all callers together.",
        set: |network, given| put(&mut network.gas_budget_percent, given.whole_number(0..=100)),
    },
    Key {
        name: "eip2612_gas_sponsoring",
        variable: "EIP2612_GAS_SPONSORING",
        default: "true",
        meaning: "Whether a payer that has not approved Permit2 may send an EIP-2612 permit with its payment. \
             The settlement then costs more gas.",
        set: |network, given| put(&mut network.eip2612_gas_sponsoring, given.flag()),
    },
    Key {
        name: "erc20_approval_gas_sponsoring",
        variable: "ERC20_APPROVAL_GAS_SPONSORING",
        default: "true",
        meaning: "Whether a payer may send a signed transaction that approves Permit2. It is broadcast before \
             the settlement, and the payer pays its gas.",
        set: |network, given| put(&mut network.erc20_approval_gas_sponsoring, given.flag()),
    },
    Key {
        name: "min_amount",
        variable: "MIN_AMOUNT",
        default: "none",
        meaning: "The smallest payment of a token, in its smallest unit: `[\"0x…=1000\"]`, in the \
             environment separated by commas. Less is rejected with `amount_below_minimum`.",
        set: |network, given| put(&mut network.min_amount, min_amounts(given)),
    },
    Key {
        name: "min_deposit",
        variable: "MIN_DEPOSIT",
        default: "none",
        meaning: "The smallest deposit of a token into a payment channel, written like `min_amount`. Less is \
             rejected with `invalid_batch_settlement_evm_deposit_below_min_deposit`.",
        set: |network, given| put(&mut network.min_deposit, min_amounts(given)),
    },
];

fn signer_files(given: RawSetting<'_>) -> Result<Vec<PathBuf>, String> {
    let files: Vec<_> = given.list()?.into_iter().map(Into::into).collect();
    if files.len() > SIGNERS_MAX {
        return Err(format!("a network has at most {SIGNERS_MAX} signers"));
    }
    Ok(files)
}

fn contract_senders(given: RawSetting<'_>) -> Result<Vec<Vec<Address>>, String> {
    let wrong = || {
        let example = "\"0x… 0x…\"";
        format!(
            "write the addresses of each contract's accounts, separated by spaces, like {example}"
        )
    };
    let each = given.list()?.into_iter().map(|one| {
        let senders: Vec<Address> = one
            .split_whitespace()
            .map(|text| address::parse(text).map_err(|error| format!("{}: {error}", wrong())))
            .collect::<Result<_, _>>()?;
        let fits = (1..=SIGNERS_MAX).contains(&senders.len());
        if fits { Ok(senders) } else { Err(wrong()) }
    });
    each.collect()
}

fn endpoints(given: RawSetting<'_>) -> Result<Vec<Endpoint>, String> {
    let list = given.list()?;
    if list.len() > ENDPOINTS_MAX {
        return Err(format!("a network has at most {ENDPOINTS_MAX} endpoints"));
    }
    list.into_iter().map(Endpoint::parse).collect()
}

fn gas_price(given: RawSetting<'_>) -> Result<u128, String> {
    let wei = given.decimal(GWEI_DECIMALS)?;
    // At a price of zero no transaction could be sent.
    let inside = u128::try_from(wei).ok().filter(|wei| (1..=GAS_PRICE_MAX).contains(wei));
    inside.ok_or_else(|| "it must be above 0 and at most 1000000 gwei".to_owned())
}

fn unless_none<T>(
    given: RawSetting<'_>,
    read: impl FnOnce(RawSetting<'_>) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match given {
        RawSetting::Text(text) if text.trim() == "none" => Ok(None),
        RawSetting::Text(_) | RawSetting::Value(_) => read(given).map(Some),
    }
}

fn native_usd(given: RawSetting<'_>) -> Result<u64, String> {
    let micro = given.decimal(6)?;
    let inside = u64::try_from(micro).ok().filter(|micro| *micro > 0);
    inside.ok_or_else(|| "it must be a price in dollars above 0".to_owned())
}

fn min_amounts(given: RawSetting<'_>) -> Result<BTreeMap<Address, U256>, String> {
    let wrong = || "write each as token=amount, the amount in the token's smallest unit".to_owned();
    let each = given.list()?.into_iter().map(|one| {
        let (token, amount) = one.split_once('=').ok_or_else(wrong)?;
        let token =
            address::parse(token.trim()).map_err(|error| format!("{}: {error}", wrong()))?;
        let amount = U256::from_str_radix(amount.trim(), 10).map_err(|_odd| wrong())?;
        Ok((token, amount))
    });
    each.collect()
}

fn balance(given: RawSetting<'_>) -> Result<U256, String> {
    let coins = matches!(given.text(), Ok(text) if text.contains('.'));
    let wei = given.decimal(if coins { NATIVE_DECIMALS } else { 0 })?;
    let inside = u128::try_from(wei).is_ok();
    if inside { Ok(wei) } else { Err("it is too large".to_owned()) }
}
