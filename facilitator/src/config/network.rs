//! The settings of one network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use alloy_primitives::{Address, U256, address};
use bursar_core::networks::{ChainId, FeeModel, Gas, Network};

use crate::config::endpoint::Endpoint;

/// The networks that a facilitator can serve.
///
/// The wallet supports further networks, which the facilitator does not serve.
pub const SERVABLE_NETWORKS: [ChainId; 6] = [
    ChainId(8453),
    ChainId(84532),
    ChainId(1_187_947_933),
    ChainId(324_705_682),
    ChainId(4663),
    ChainId(46630),
];

/// Factories that may deploy a wallet with a payment (EIP-6492).
///
/// The payer chooses the call data, so the list has only factories that deploy wallets and do nothing else for their
/// caller. CREATE2 fixes the code at each of these addresses.
pub const DEFAULT_FACTORIES: [Address; 6] = [
    // Coinbase Smart Wallet 1.1 and 1.
    address!("0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842"),
    address!("0x0BA5ED0c6AA8c49038F819E587E2633c4A9F428a"),
    // Safe: SafeProxyFactory 1.4.1, canonical deployment.
    address!("0x4e1DCf7AD4e460CfD30791CCC4F9c8a4f820ec67"),
    // Kernel: FactoryStaker, through which the factories of Kernel 3 are usually called, and the factories of 3.1 and
    // 3.3.
    address!("0xd703aaE79538628d27099B8c4f621bE4CCd142d5"),
    address!("0xaac5D4240AF87249B3f71BC8E4A2cae074A3E419"),
    address!("0x2577507b78c2008Ff367261CB6285d44ba5eF2E9"),
];

/// The contract of the method `prism`.
const PRISM: Address = address!("0x402357ff1e18d42d0f14a5d56d6e1ebd741b3a86");
/// The official proxy of the scheme `exact`.
const EXACT_PERMIT2_PROXY: Address = address!("0x402085c248EeA27D92E8b30b2C58ed07f9E20001");
/// The official proxy of the scheme `upto`.
const UPTO_PERMIT2_PROXY: Address = address!("0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");
/// The official escrow of the scheme `batch-settlement`, and its collectors.
const BATCH_SETTLEMENT: Address = address!("0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003");
const ERC3009_COLLECTOR: Address = address!("0x4020806089470a89826cB9fB1f4059150b550004");
const PERMIT2_COLLECTOR: Address = address!("0x4020425FAf3B746C082C2f942b4E5159887B0005");
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");

/// All settings of one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The network's row in the table of networks.
    pub network: &'static Network,
    /// Nodes, in the order in which they are tried.
    pub rpc: Vec<Endpoint>,
    /// Whether nodes at private addresses may use plain HTTP.
    pub allow_plain_http: bool,
    /// Key files of the accounts that pay gas.
    pub signers: Vec<PathBuf>,
    /// Key files of former signers.
    ///
    /// They send only payments that name them, and payments that name a contract which no active signer can call.
    pub retired_signers: Vec<PathBuf>,
    /// The account that payers of the scheme `upto` name as the facilitator; `None` means the first signer.
    pub upto_facilitator: Option<Address>,
    /// The accounts of each contract that payers of the scheme `upto` may name as the facilitator.
    ///
    /// New payers are offered the first contract.
    pub upto_contracts: Vec<Vec<Address>>,
    /// The key file of the account that merchants may name as `receiverAuthorizer`.
    ///
    /// It signs their claims and refunds.
    pub authorizer: Option<PathBuf>,
    /// The file with the password of all encrypted files among `signers`, `retired_signers` and `authorizer`.
    pub password_file: Option<PathBuf>,
    /// The highest price per unit of gas for a payment, in wei.
    ///
    /// Above it, payments are rejected with `gas_too_high`. A transaction that withdraws a payment may offer four
    /// times as much.
    pub max_gas_price: u128,
    /// The balance, in wei, below which a signer raises an alert.
    pub min_signer_balance: U256,
    /// How often the newest block is read while a payment waits for it, in milliseconds.
    pub poll_ms: u64,
    /// Number of blocks, including its own block, that make a settlement final.
    pub confirmations: u64,
    /// Factories that may deploy a payer's wallet; if empty, none may.
    pub eip6492_factories: BTreeSet<Address>,
    pub prism: Address,
    pub exact_permit2_proxy: Address,
    pub upto_permit2_proxy: Address,
    pub permit2: Address,
    pub batch_settlement: Address,
    pub erc3009_collector: Address,
    pub permit2_collector: Address,
    /// Tokens that are accepted in addition to the network's dollar token; if empty, any token is accepted.
    pub tokens: BTreeSet<Address>,
    /// Maximum gas for the settlement of a contract wallet's payment.
    ///
    /// The payer chooses the code of the wallet, so its gas must be bounded.
    pub gas_cap_contract: u64,
    /// How much of a block's gas one transaction may take, in percent.
    pub block_gas_share_percent: u8,
    /// How much of a payment's value its gas may cost, in percent; `None` sets no limit.
    pub max_gas_share_percent: Option<u16>,
    /// The price of one coin, in millionths of a dollar.
    pub native_micro_usd: Option<u64>,
    /// How much of the signers' coin may be spent per day for one caller, in percent.
    pub gas_budget_caller_percent: u8,
    /// How much of the signers' coin may be spent per day, in percent.
    pub gas_budget_percent: u8,
    /// Whether payers may bring an EIP-2612 permit for Permit2.
    pub eip2612_gas_sponsoring: bool,
    /// Whether the facilitator broadcasts approvals of Permit2 that payers signed.
    pub erc20_approval_gas_sponsoring: bool,
    /// The smallest payment of a token, in its smallest unit.
    pub min_amount: BTreeMap<Address, U256>,
    /// The smallest deposit of a token into a payment channel, in its smallest unit.
    pub min_deposit: BTreeMap<Address, U256>,
}

/// Default ceiling of the gas price on a layer 2, in wei: a thousand times the usual price, and above the 1 gwei at
/// which a local chain starts.
const L2_GAS_PRICE_CEILING: u128 = 5_000_000_000;

fn default_ceiling(network: &Network) -> u128 {
    match network.gas.model {
        FeeModel::OpStack | FeeModel::Arbitrum => network.gas.ceiling.min(L2_GAS_PRICE_CEILING),
        // SKALE's coin is a prepaid credit, which has no price.
        FeeModel::Eip1559 | FeeModel::Legacy | FeeModel::Free => network.gas.ceiling,
    }
}

impl NetworkConfig {
    /// The defaults of a network.
    pub fn of(network: &'static Network) -> Self {
        Self {
            network,
            rpc: Vec::new(),
            allow_plain_http: false,
            signers: Vec::new(),
            retired_signers: Vec::new(),
            upto_facilitator: None,
            upto_contracts: Vec::new(),
            authorizer: None,
            password_file: None,
            max_gas_price: default_ceiling(network),
            min_signer_balance: U256::from(5_000_000_000_000_000_u64),
            poll_ms: 200,
            confirmations: network.gas.confirmations,
            eip6492_factories: DEFAULT_FACTORIES.into_iter().collect(),
            prism: PRISM,
            exact_permit2_proxy: EXACT_PERMIT2_PROXY,
            upto_permit2_proxy: UPTO_PERMIT2_PROXY,
            permit2: PERMIT2,
            batch_settlement: BATCH_SETTLEMENT,
            erc3009_collector: ERC3009_COLLECTOR,
            permit2_collector: PERMIT2_COLLECTOR,
            tokens: BTreeSet::new(),
            gas_cap_contract: 600_000,
            block_gas_share_percent: 25,
            max_gas_share_percent: None,
            native_micro_usd: None,
            gas_budget_caller_percent: 10,
            gas_budget_percent: 50,
            eip2612_gas_sponsoring: true,
            erc20_approval_gas_sponsoring: true,
            min_amount: BTreeMap::new(),
            min_deposit: BTreeMap::new(),
        }
    }

    /// The chain id of the network.
    pub fn chain(&self) -> ChainId {
        self.network.chain
    }

    /// Whether the network can be served: it has a node and a signer.
    pub fn is_configured(&self) -> bool {
        !self.rpc.is_empty() && !self.signers.is_empty()
    }

    /// Whether payments in this token are accepted.
    pub fn accepts_token(&self, token: Address) -> bool {
        self.tokens.is_empty()
            || self.tokens.contains(&token)
            || token == self.network.stablecoin.address
    }

    /// The fee model and confirmations of the network, with the settings applied.
    pub fn gas(&self) -> Gas {
        Gas {
            ceiling: self.max_gas_price,
            confirmations: self.confirmations,
            poll_ms: self.poll_ms,
            ..self.network.gas
        }
    }
}
