//! The table of networks. No other module contains chain ids or contract addresses, except tests and the `config`
//! modules of services. To add a chain, add a row.

mod exchange;
mod gas;
mod lending;
mod presence;
mod token;

use std::fmt;

use alloy_primitives::{Address, B256, address, b256};
use serde::{Deserialize, Serialize};

pub use exchange::{Exchange, Feed, RouterCalldata, StockToken, UniswapV3, UniswapV4};
pub use gas::{FeeModel, Gas};
pub use lending::{AdapterFactory, AdapterKind, Lending, VaultFactory, VaultKind};
pub use presence::Presence;
pub use token::{KnownToken, Token};

/// An EIP-155 chain id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChainId(pub u64);

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The dollar token of a network; one whole token counts as one dollar.
///
/// It supports EIP-3009 and has an EIP-712 domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stablecoin {
    pub symbol: &'static str,
    pub address: Address,
    pub decimals: u8,
    /// `name` of the EIP-712 domain.
    pub domain_name: &'static str,
    /// `version` of the EIP-712 domain.
    pub domain_version: &'static str,
    /// The contract's `DOMAIN_SEPARATOR()`; a test recomputes it from the row.
    pub domain_separator: B256,
}

/// Decimals of every network's native coin, as JSON-RPC counts it.
pub const NATIVE_DECIMALS: u8 = 18;

/// A network that Bursar supports, as a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub chain: ChainId,
    /// The name that an operator sees.
    pub title: &'static str,
    /// x402 v1 names; we write the first one.
    pub v1_names: &'static [&'static str],
    /// Whether official x402 v1 clients know the first name; they refuse a list of offers with an unknown name.
    pub v1_official: bool,
    /// Symbol of the coin that pays for gas.
    pub native: &'static str,
    pub gas: Gas,
    pub stablecoin: Stablecoin,
    /// Further tokens whose balances are always read.
    pub tokens: &'static [Token],
    /// The network's explorer returns HTTP 500 for an address that it has never seen.
    pub explorer_500_for_unseen: bool,
    /// Public endpoints in the order of use; if there are none, the operator must choose one.
    pub rpc: &'static [&'static str],
    /// Public API of a Blockscout explorer, which learns the addresses that are looked up.
    ///
    /// `None`: only an explorer that the operator chooses can discover tokens outside our table.
    pub explorer: Option<&'static str>,
    /// The exchange on which tokens are traded; `None` if Bursar knows no exchange on this network.
    pub exchange: Option<&'static Exchange>,
    /// The contracts through which the stablecoin is lent; `None` if Bursar knows none on this network.
    pub lending: Option<&'static Lending>,
    /// Whether the full edition and the desktop edition know the network.
    pub in_full: Presence,
    /// Whether the payments-only edition knows the network.
    pub in_payments: Presence,
    /// Ledger's Ethereum app knows the network's name and its coin (measured with version 1.22).
    pub named_on_ledger: bool,
}

/// The network of a trade request that names no network.
pub const DEFAULT_TRADING: ChainId = ChainId(4663);

impl Network {
    /// Returns the CAIP-2 id, `eip155:<chain>`.
    pub fn caip2(&self) -> String {
        format!("eip155:{}", self.chain)
    }

    /// Returns the coin and the tokens of our table, each once.
    pub fn known_tokens(&self) -> impl Iterator<Item = KnownToken> {
        let Stablecoin { symbol, address, decimals, .. } = self.stablecoin;
        let native = KnownToken { symbol: self.native, address: None, decimals: NATIVE_DECIMALS };
        let dollars = self.exchange.map_or(&[][..], |exchange| exchange.dollar_tokens);
        let stocks = self.exchange.map_or(&[][..], |exchange| exchange.stock_tokens);
        let tokens = std::iter::once(Token { symbol, address, decimals })
            .chain(self.tokens.iter().copied())
            .chain(dollars.iter().copied())
            .chain(stocks.iter().map(|stock| stock.token));
        std::iter::once(native).chain(tokens.map(KnownToken::from))
    }

    /// Finds a coin or token of our table by its symbol, ignoring case, or by its address.
    pub fn known_token(&self, text: &str) -> Option<KnownToken> {
        let address = crate::address::read(text).ok();
        self.known_tokens().find(|known| {
            known.symbol.eq_ignore_ascii_case(text)
                || (address.is_some() && known.address == address)
        })
    }

    /// Returns whether our table lists this token as worth one dollar.
    pub fn is_dollar(&self, token: Address) -> bool {
        let others = self.exchange.map_or(&[][..], |exchange| exchange.dollar_tokens);
        token == self.stablecoin.address || others.iter().any(|known| known.address == token)
    }

    /// Returns whether our table lists this token as a dollar token or as the wrapped native coin.
    pub fn is_dollar_or_wrapped_native(&self, token: Address) -> bool {
        self.exchange.is_some_and(|known| known.wrapped_native == token) || self.is_dollar(token)
    }
}

/// Multicall3, which performs many reads of one block in one call.
///
/// Address and code are the same on every network. For the two SKALE networks no list confirms this, so callers must
/// expect an address without code.
pub const MULTICALL3: Address = address!("0xcA11bde05977b3631167028862bE2a173976CA11");

/// The deployment proxy for CREATE2, at the same address on every network that has it.
///
/// Any account can deploy through it. The deployed address depends only on salt and creation code (EIP-1014).
pub const CREATE2_DEPLOYER: Address = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");

/// The predeploy that reports the data fee of a transaction, on every OP stack network.
pub const OP_GAS_PRICE_ORACLE: Address = address!("0x420000000000000000000000000000000000000F");

/// All networks that Bursar supports.
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
        explorer_500_for_unseen: true,
        rpc: &["https://rpc.mainnet.chain.robinhood.com"],
        explorer: None,
        exchange: Some(&exchange::ROBINHOOD),
        lending: Some(&lending::ROBINHOOD),
        in_full: Presence::On,
        in_payments: Presence::Absent,
        named_on_ledger: false,
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
        explorer_500_for_unseen: false,
        rpc: &["https://rpc.testnet.chain.robinhood.com"],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::Absent,
        named_on_ledger: false,
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
        explorer_500_for_unseen: false,
        rpc: &["https://mainnet.base.org"],
        explorer: Some("https://base.blockscout.com/api/v2"),
        exchange: Some(&exchange::BASE),
        lending: Some(&lending::BASE),
        in_full: Presence::On,
        in_payments: Presence::On,
        named_on_ledger: true,
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
        explorer_500_for_unseen: false,
        rpc: &["https://sepolia.base.org"],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::Off,
        named_on_ledger: true,
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
        explorer_500_for_unseen: false,
        rpc: &["https://skale-base.skalenodes.com/v1/base"],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::On,
        named_on_ledger: false,
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
        explorer_500_for_unseen: false,
        rpc: &["https://base-sepolia-testnet.skalenodes.com/v1/jubilant-horrible-ancha"],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::Off,
        named_on_ledger: false,
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
        explorer_500_for_unseen: false,
        rpc: &[],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::Off,
        named_on_ledger: true,
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
        explorer_500_for_unseen: false,
        rpc: &[],
        explorer: None,
        exchange: None,
        lending: None,
        in_full: Presence::Off,
        in_payments: Presence::Off,
        named_on_ledger: false,
    },
];

/// Returns the row of a chain.
pub fn by_chain(chain: ChainId) -> Option<&'static Network> {
    NETWORKS.iter().find(|row| row.chain == chain)
}

/// Finds a row by CAIP-2 id, plain chain id, or x402 v1 name in any case; `None` for any other text.
pub fn by_id_or_v1_name(text: &str) -> Option<&'static Network> {
    let digits = text.strip_prefix("eip155:").unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let plain = digits == "0" || !digits.starts_with('0');
        return digits.parse().ok().filter(|_id| plain).and_then(|id| by_chain(ChainId(id)));
    }
    NETWORKS.iter().find(|row| row.v1_names.iter().any(|name| name.eq_ignore_ascii_case(text)))
}

/// Finds a row by anything that [`by_id_or_v1_name`] accepts, or by title in any case.
pub fn by_id_name_or_title(name: &str) -> Option<&'static Network> {
    by_id_or_v1_name(name)
        .or_else(|| NETWORKS.iter().find(|row| row.title.eq_ignore_ascii_case(name)))
}

/// Iterates over all networks, starting with Base, where most merchants are paid, for commands that name no network.
pub fn base_first() -> impl Iterator<Item = &'static Network> {
    let is_base = |row: &&Network| row.chain == ChainId(8453);
    NETWORKS.iter().filter(is_base).chain(NETWORKS.iter().filter(move |row| !is_base(row)))
}

#[cfg(test)]
mod tests;
