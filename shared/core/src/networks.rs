//! The table of networks: the only place, but for the facilitator's configuration, where a chain id or a
//! contract address is written. Adding a chain is adding a row.

use std::fmt;

use alloy_primitives::{Address, B256, address, b256};
use serde::{Deserialize, Serialize};

/// An EIP-155 chain id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChainId(pub u64);

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The dollar token that a network prices payments in, one to one (EIP-3009, EIP-712 domain).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stablecoin {
    pub symbol: &'static str,
    pub address: Address,
    pub decimals: u8,
    /// `name` of the EIP-712 domain.
    pub domain_name: &'static str,
    /// `version` of the EIP-712 domain.
    pub domain_version: &'static str,
    /// What `DOMAIN_SEPARATOR()` of the contract answers; a test recomputes it from the row.
    pub domain_separator: B256,
}

/// A token that is what its symbol says, besides the dollar token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub symbol: &'static str,
    pub address: Address,
    pub decimals: u8,
}

/// Decimals of every network's native coin, as JSON-RPC counts it.
pub const NATIVE_DECIMALS: u8 = 18;

/// How a network wants gas to be paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeeModel {
    /// A base fee that is burned, and a tip by which blocks are filled.
    Eip1559,
    /// EIP-1559 transactions in the order in which they come; the cost of the data is in the gas
    /// (Arbitrum Nitro).
    Arbitrum,
    /// EIP-1559, and the cost of the data on top, which no estimate of gas contains (OP stack).
    OpStack,
    /// Type 0 transactions at the price that the node names.
    Legacy,
    /// Type 0 transactions at no price.
    Free,
}

/// How transactions are paid for and waited for on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gas {
    pub model: FeeModel,
    /// The most that is ever offered for a unit of gas, in wei: whatever a node says.
    pub ceiling: u128,
    /// The least tip that is offered, in wei a unit of gas.
    pub tip: u128,
    /// From how many blocks on, its own included, a transaction counts as settled.
    pub confirmations: u64,
    /// How long an offer waits for a block before more is offered.
    pub patience_ms: i64,
    /// How often the newest block is looked at while something waits for it.
    pub poll_ms: u64,
}

impl Gas {
    /// SKALE: prices are in prepaid credits, blocks are final when they are made.
    const SKALE: Self = Self {
        model: FeeModel::Legacy,
        ceiling: 1_000 * GWEI,
        tip: 0,
        confirmations: 1,
        patience_ms: 60_000,
        poll_ms: 1_000,
    };
    const ORBIT: Self = Self {
        model: FeeModel::Arbitrum,
        ceiling: 100 * GWEI,
        tip: 0,
        confirmations: 10,
        patience_ms: 10_000,
        poll_ms: 250,
    };
    const OP_STACK: Self = Self {
        model: FeeModel::OpStack,
        ceiling: 100 * GWEI,
        tip: 1_000_000,
        confirmations: 2,
        patience_ms: 12_000,
        poll_ms: 500,
    };
    const ETHEREUM: Self = Self {
        model: FeeModel::Eip1559,
        ceiling: 500 * GWEI,
        tip: GWEI,
        confirmations: 6,
        patience_ms: 60_000,
        poll_ms: 3_000,
    };
}

const GWEI: u128 = 1_000_000_000;

/// One chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub chain: ChainId,
    /// What an operator reads.
    pub title: &'static str,
    /// x402 v1 names; the first is the one we write.
    pub v1_names: &'static [&'static str],
    /// The official clients of version 1 know the first name. They refuse a whole list of offers with a name in
    /// it that they do not know.
    pub v1_official: bool,
    /// Symbol of the coin that pays gas.
    pub native: &'static str,
    pub gas: Gas,
    pub stablecoin: Stablecoin,
    /// Further tokens whose balances are always looked up.
    pub tokens: &'static [Token],
    /// Its explorer answers HTTP 500 for an address that it has never seen.
    pub explorer_500_unseen: bool,
    /// Public endpoints, in the order in which they are tried; empty: the operator must choose one.
    pub rpc: &'static [&'static str],
    /// Public API of a Blockscout explorer; none: tokens outside our table are not discovered there unless
    /// the operator chooses one. It learns the addresses that are looked up.
    pub explorer: Option<&'static str>,
    /// Enabled in the full edition until the operator says otherwise.
    pub on_by_default: bool,
}

impl Network {
    /// The CAIP-2 id, `eip155:<chain>`.
    pub fn caip2(&self) -> String {
        format!("eip155:{}", self.chain)
    }
}

/// Multicall3, which answers many reads of one block in one call: the same address and the same code on
/// every row but perhaps SKALE's two, where nobody lists it. Look for code there before it is called.
pub const MULTICALL3: Address = address!("0xcA11bde05977b3631167028862bE2a173976CA11");

/// What the data of a transaction costs on every network of the OP stack (a predeploy).
pub const OP_GAS_PRICE_ORACLE: Address = address!("0x420000000000000000000000000000000000000F");

/// Every network that Bursar knows.
pub static NETWORKS: &[Network] = &[
    Network {
        chain: ChainId(4663),
        title: "Robinhood Chain",
        v1_names: &["robinhood", "rhc", "robinhood-chain"],
        v1_official: false,
        native: "ETH",
        gas: Gas::ORBIT,
        stablecoin: Stablecoin {
            symbol: "USDG",
            address: address!("0x5fc5360D0400a0Fd4f2af552ADD042D716F1d168"),
            decimals: 6,
            domain_name: "Global Dollar",
            domain_version: "1",
            domain_separator: b256!(
                "0x7a3d7400b27830f4f91c2c16a082486d67c1befecaec2f53b33f1f35d5b62036"
            ),
        },
        tokens: &[Token {
            symbol: "WETH",
            address: address!("0x0Bd7D308f8E1639FAb988df18A8011f41EAcAD73"),
            decimals: 18,
        }],
        explorer_500_unseen: true,
        rpc: &["https://rpc.mainnet.chain.robinhood.com"],
        explorer: None,
        on_by_default: true,
    },
    Network {
        chain: ChainId(46630),
        title: "Robinhood Chain Testnet",
        v1_names: &["robinhood-testnet"],
        v1_official: false,
        native: "ETH",
        gas: Gas::ORBIT,
        stablecoin: Stablecoin {
            symbol: "USDG",
            address: address!("0x7E955252E15c84f5768B83c41a71F9eba181802F"),
            decimals: 6,
            domain_name: "Global Dollar",
            domain_version: "1",
            domain_separator: b256!(
                "0xb1debe91e09d82163fd9cddaab89359061c0671664e1611258a3c3de7c2d950b"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &["https://rpc.testnet.chain.robinhood.com"],
        explorer: None,
        on_by_default: false,
    },
    Network {
        chain: ChainId(8453),
        title: "Base",
        v1_names: &["base", "base-mainnet"],
        v1_official: true,
        native: "ETH",
        gas: Gas::OP_STACK,
        stablecoin: Stablecoin {
            symbol: "USDC",
            address: address!("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
            decimals: 6,
            domain_name: "USD Coin",
            domain_version: "2",
            domain_separator: b256!(
                "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
            ),
        },
        tokens: &[Token {
            symbol: "WETH",
            address: address!("0x4200000000000000000000000000000000000006"),
            decimals: 18,
        }],
        explorer_500_unseen: false,
        rpc: &["https://mainnet.base.org"],
        explorer: Some("https://base.blockscout.com/api/v2"),
        on_by_default: true,
    },
    Network {
        chain: ChainId(84532),
        title: "Base Sepolia",
        v1_names: &["base-sepolia"],
        v1_official: true,
        native: "ETH",
        gas: Gas::OP_STACK,
        stablecoin: Stablecoin {
            symbol: "USDC",
            address: address!("0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
            decimals: 6,
            domain_name: "USDC",
            domain_version: "2",
            domain_separator: b256!(
                "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &["https://sepolia.base.org"],
        explorer: None,
        on_by_default: false,
    },
    Network {
        chain: ChainId(1_187_947_933),
        title: "SKALE Base",
        v1_names: &["skale-base"],
        v1_official: false,
        native: "CREDIT",
        gas: Gas::SKALE,
        stablecoin: Stablecoin {
            symbol: "USDC.e",
            address: address!("0x85889c8c714505E0c94b30fcfcF64fE3Ac8FCb20"),
            decimals: 6,
            domain_name: "Bridged USDC (SKALE Bridge)",
            domain_version: "2",
            domain_separator: b256!(
                "0xe182bdd83730d37cc41c779b38c22661c4c347f647925627d97926ee54dd4044"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &["https://skale-base.skalenodes.com/v1/base"],
        explorer: None,
        on_by_default: false,
    },
    Network {
        chain: ChainId(324_705_682),
        title: "SKALE Base Sepolia",
        v1_names: &["skale-base-sepolia"],
        v1_official: true,
        native: "CREDIT",
        gas: Gas::SKALE,
        stablecoin: Stablecoin {
            symbol: "USDC.e",
            address: address!("0x2e08028E3C4c2356572E096d8EF835cD5C6030bD"),
            decimals: 6,
            domain_name: "Bridged USDC (SKALE Bridge)",
            domain_version: "2",
            domain_separator: b256!(
                "0x9c66d10c4bfde137b77b28f21e155cb5aa5acec7c1ae89d30a5467e11a74fc86"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &["https://base-sepolia-testnet.skalenodes.com/v1/jubilant-horrible-ancha"],
        explorer: None,
        on_by_default: false,
    },
    Network {
        chain: ChainId(1),
        title: "Ethereum",
        v1_names: &["ethereum"],
        v1_official: false,
        native: "ETH",
        gas: Gas::ETHEREUM,
        stablecoin: Stablecoin {
            symbol: "USDC",
            address: address!("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
            decimals: 6,
            domain_name: "USD Coin",
            domain_version: "2",
            domain_separator: b256!(
                "0x06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &[],
        explorer: None,
        on_by_default: false,
    },
    Network {
        chain: ChainId(11_155_111),
        title: "Sepolia",
        v1_names: &["sepolia"],
        v1_official: false,
        native: "ETH",
        gas: Gas::ETHEREUM,
        stablecoin: Stablecoin {
            symbol: "USDC",
            address: address!("0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"),
            decimals: 6,
            domain_name: "USDC",
            domain_version: "2",
            domain_separator: b256!(
                "0xb90e5057db141a932946e64d09ccb7ffc9b00bd79fec26f698d29af0c83320a6"
            ),
        },
        tokens: &[],
        explorer_500_unseen: false,
        rpc: &[],
        explorer: None,
        on_by_default: false,
    },
];

/// The row of a chain.
pub fn by_chain(chain: ChainId) -> Option<&'static Network> {
    NETWORKS.iter().find(|row| row.chain == chain)
}

/// The row a text names: CAIP-2, a plain chain id, or an x402 v1 name in any case. Unknown texts name
/// nothing; they are never passed through.
pub fn by_text(text: &str) -> Option<&'static Network> {
    let digits = text.strip_prefix("eip155:").unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let plain = digits == "0" || !digits.starts_with('0');
        return digits.parse().ok().filter(|_id| plain).and_then(|id| by_chain(ChainId(id)));
    }
    NETWORKS.iter().find(|row| row.v1_names.iter().any(|name| name.eq_ignore_ascii_case(text)))
}

/// What an operator calls a network: anything [`by_text`] knows, or the title in any case.
pub fn by_name(name: &str) -> Option<&'static Network> {
    by_text(name).or_else(|| NETWORKS.iter().find(|row| row.title.eq_ignore_ascii_case(name)))
}

/// All of them, in the order in which one is chosen where nobody named any: the one on which most merchants
/// ask to be paid comes first.
pub fn usual_first() -> impl Iterator<Item = &'static Network> {
    let usual = |row: &&Network| row.chain == ChainId(8453);
    NETWORKS.iter().filter(usual).chain(NETWORKS.iter().filter(move |row| !usual(row)))
}

#[cfg(test)]
mod tests;
