//! Trades of agents: the request and its measurement.

use alloy_primitives::{Address, B256, U256};
use bursar_core::amount::Amount;
use bursar_core::money::{Atoms, Bps, TokenAmount, Usd};
use bursar_core::networks::{ChainId, by_chain};
use bursar_core::stored;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_uniswap::{Decoded, Permit};
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::effects::Effects;

/// Maximum number of permits that one plan signs.
///
/// A permit is replaced when its time runs out before the swap is opened.
pub const PERMITS_MAX: u8 = 8;

/// One trade that an agent requested: the immutable value that is checked, recorded, shown and executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TradeAsk {
    pub chain: ChainId,
    pub token_in: TradeToken,
    pub token_out: TradeToken,
    pub amount_in: Atoms,
    pub venue: Venue,
    /// Maximum difference between quote and fill.
    pub slippage: Bps,
    /// The agent's own deadline, in Unix seconds.
    pub deadline: Option<u64>,
    /// The measurement at the time of the request.
    pub quote: TradeQuote,
    /// Value that counts against the daily volume: the trade's value, or the policy's largest trade if that is
    /// unknown.
    pub counted_value: Usd,
}

/// A token of a trade, with its own description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TradeToken {
    /// `None` is the native coin.
    pub address: Option<Address>,
    /// Untrusted text that the token's contract chose, unless the token is in our table.
    pub symbol: String,
    pub decimals: u8,
}

/// Where a trade is executed: in pools of Uniswap, or by the contract of the wrapped token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Venue {
    /// The native coin becomes its wrapped token, one to one.
    Wrap,
    /// The wrapped token becomes the native coin, one to one.
    Unwrap,
    /// One pool of Uniswap v3.
    V3 {
        /// In hundredths of a basis point.
        fee: u32,
        pool: Address,
    },
    /// Several pools of Uniswap v3, in the order of the swap.
    V3Path { hops: Vec<PathHop> },
    /// One pool of Uniswap v4.
    V4 {
        /// In hundredths of a basis point, or the marker of a dynamic fee.
        fee: u32,
        tick_spacing: i32,
        hooks: Address,
        pool: B256,
    },
}

/// One pool of a path through Uniswap v3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathHop {
    /// In hundredths of a basis point.
    pub fee: u32,
    pub pool: Address,
    /// The token that the pool pays; the wrapped token stands for the native coin.
    pub output: Address,
}

/// A route and the output that it pays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteQuote {
    pub venue: Venue,
    pub out: Atoms,
}

/// The measurement of a trade at one block, as a node reported it.
///
/// The node may be wrong, so the least output is enforced on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TradeQuote {
    /// The number of the newest block.
    pub block: u64,
    /// The time of the newest block, in Unix seconds.
    pub block_time: u64,
    /// Time of the measurement.
    pub at: Utc,
    /// The expected output.
    pub out: Atoms,
    /// The gas of the swap, as the quoter estimates it.
    pub gas: u64,
    /// The route with the highest output among those that Bursar compares, the trade's own included.
    ///
    /// `None` if no pool trades the pair.
    pub best_route: Option<Box<RouteQuote>>,
    /// Price impact: how much less the quote pays than the pool's own rate, fee included.
    ///
    /// `None` if that is unknown.
    pub impact: Option<Bps>,
    /// The value of the input; `None` if it is unknown.
    pub value_in: Option<Usd>,
    /// The value of the output by a price from outside the pool; `None` if there is no such price.
    pub value_out: Option<Usd>,
    /// The price of one native coin; `None` if it is unknown.
    #[serde(default, with = "stored::added_in_form_8")]
    pub native_price: Option<Usd>,
    /// The paying address's balance of the native coin, in wei.
    pub native_balance: U256,
    /// The paying address's balance of the input token.
    pub balance_in: U256,
    /// The worst cost of all transactions of the plan, in wei, without the value that they send.
    pub plan_cost: U256,
    pub effects: Effects,
    /// The output that arrived in the simulation; `None` if the simulation did not show it.
    pub received: Option<Atoms>,
    /// The calls of the plan in their order, decoded from their call data.
    pub calls: Vec<Decoded>,
}

impl TradeQuote {
    /// Returns whether the trade could be measured; otherwise the quote is empty.
    pub fn is_measured(&self) -> bool {
        *self != Self::default()
    }
}

impl TradeAsk {
    /// Returns the least output that a trade at `quote` may have.
    pub fn floor(&self, quote: &TradeQuote) -> Atoms {
        match self.venue {
            Venue::Wrap | Venue::Unwrap => quote.out,
            Venue::V3 { .. } | Venue::V3Path { .. } | Venue::V4 { .. } => {
                // Intake refuses a slippage above 100 %. For such a value, only the full quote would be accepted here.
                let floor = bursar_uniswap::price::floor_out(quote.out.0, self.slippage);
                Atoms(floor.unwrap_or(quote.out.0))
            }
        }
    }

    /// Formats the input, like `25 USDC`.
    pub fn input_text(&self) -> String {
        self.amount_text(&self.token_in, self.amount_in)
    }

    /// Describes an amount of one of its tokens.
    pub fn amount(&self, token: &TradeToken, atoms: Atoms) -> Amount {
        let amount = TokenAmount { atoms, decimals: token.decimals };
        Amount::new(amount, &self.symbol_text(token), token.address)
    }

    /// Formats an amount of one of its tokens, like `0.25 ETH`.
    pub fn amount_text(&self, token: &TradeToken, atoms: Atoms) -> String {
        self.amount(token, atoms).text
    }

    /// Formats the symbol of one of its tokens: see [`text::symbol`] for a token outside our table.
    pub fn symbol_text(&self, token: &TradeToken) -> String {
        let network = by_chain(self.chain);
        let known = network.and_then(|network| {
            network.known_tokens().find(|known| known.address == token.address)
        });
        match known {
            Some(known) => known.symbol.to_owned(),
            None => {
                text::symbol(&token.symbol, &token.address.unwrap_or_default().to_checksum(None))
            }
        }
    }
}

impl Venue {
    /// Returns the pool in the form that agents use.
    ///
    /// That is an address, several addresses with commas, `V4:` and an id, or `WRAP` or `UNWRAP`.
    pub fn pool_text(&self) -> String {
        match self {
            Venue::Wrap => "WRAP".to_owned(),
            Venue::Unwrap => "UNWRAP".to_owned(),
            Venue::V3 { pool, .. } => pool.to_checksum(None),
            Venue::V3Path { hops } => {
                let pools: Vec<String> =
                    hops.iter().map(|hop| hop.pool.to_checksum(None)).collect();
                pools.join(",")
            }
            Venue::V4 { pool, .. } => format!("V4:{pool}"),
        }
    }

    /// Describes the pool to the operator.
    pub fn describe(&self) -> String {
        let percent = |fee: u32| {
            let fee = TokenAmount { atoms: Atoms(U256::from(fee)), decimals: 4 };
            format!("{} %", fee.plain())
        };
        match self {
            Venue::Wrap => "wrapping, one to one".to_owned(),
            Venue::Unwrap => "unwrapping, one to one".to_owned(),
            Venue::V3 { fee, pool } => {
                format!("Uniswap v3, fee {}, {}", percent(*fee), pool.to_checksum(None))
            }
            Venue::V3Path { hops } => {
                let hops: Vec<String> = hops
                    .iter()
                    .map(|hop| format!("fee {} to {}", percent(hop.fee), hop.output))
                    .collect();
                format!("Uniswap v3 through {} pools: {}", hops.len(), hops.join(", then "))
            }
            Venue::V4 { fee, pool, .. } if *fee == bursar_uniswap::pool::DYNAMIC_FEE => {
                format!("Uniswap v4, dynamic fee, {pool}")
            }
            Venue::V4 { fee, pool, .. } => format!("Uniswap v4, fee {}, {pool}", percent(*fee)),
        }
    }

    /// Describes the pool's hook and its rights in a swap; `None` without a hook.
    pub fn hooks_text(&self) -> Option<String> {
        let Venue::V4 { hooks, .. } = self else { return None };
        if *hooks == Address::ZERO {
            return None;
        }
        let rights = bursar_uniswap::hooks::HookPermissions::of(*hooks).names().join(", ");
        Some(format!("{} ({rights})", hooks.to_checksum(None)))
    }
}

/// A permit that a swap uses, and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapPermit {
    pub permit: Permit,
    pub signature: Option<Signature65>,
    /// Number of permits that the plan has ordered, this one included.
    pub count: u8,
}
