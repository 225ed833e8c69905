//! The state of a chain: accounts, tokens, allowances, pools and feeds.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256};

use super::contracts::{Contracts, id4, key4};
use super::math::Range;
use super::named::pools;
use super::vaults::Venues;

/// How a token differs from a plain ERC-20 token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Plain,
    /// The wrapped native coin.
    Wrapped,
    /// Keeps a part of each transfer, in basis points.
    Fee(u64),
    /// The receiver gets one unit less, and balances grow from time to time.
    Rebasing,
    /// Changes an allowance only from zero or to zero.
    ZeroFirst,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) symbol: &'static str,
    pub(crate) decimals: u8,
    pub(crate) balances: BTreeMap<Address, U256>,
    /// The allowances by owner and spender.
    pub(crate) allowances: BTreeMap<(Address, Address), U256>,
    /// Whether the issuer has stopped transfers and approvals.
    pub(crate) paused: bool,
}

/// The right of a spender in Permit2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Permit2Right {
    pub(crate) amount: U256,
    pub(crate) expiration: u64,
    pub(crate) nonce: u64,
}

/// A pool of v3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool3 {
    pub(super) token0: Address,
    pub(super) token1: Address,
    pub(super) range: Range,
}

/// A pool of v4. The zero address is the native coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct V4Pool {
    pub(super) currency0: Address,
    pub(super) currency1: Address,
    pub(super) hooks: Address,
    /// The part of an output that the hook takes, in basis points.
    pub(super) hook_takes: u64,
    pub(super) range: Range,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) native: BTreeMap<Address, U256>,
    pub(crate) nonces: BTreeMap<Address, u64>,
    pub(crate) tokens: BTreeMap<Address, Token>,
    /// The Permit2 rights by owner, token and spender.
    pub(crate) rights: BTreeMap<(Address, Address, Address), Permit2Right>,
    pub(super) pools3: BTreeMap<Address, Pool3>,
    pub(super) v4_pools: BTreeMap<B256, V4Pool>,
    pub(crate) lending: Venues,
    /// The answer of the price feed in its own unit, and the time of its update in Unix seconds.
    pub(crate) feed: (U256, u64),
    /// The data fee for a byte, in wei.
    pub(crate) data_fee: u64,
    /// Quoters report this many thousandths of a pool's true output.
    pub(crate) quoted_permille: u64,
    /// Planted bug: whether pools report the price that a small quote shows.
    pub(crate) price_by_dust: bool,
}

impl State {
    pub(crate) fn native_of(&self, who: Address) -> U256 {
        self.native.get(&who).copied().unwrap_or_default()
    }

    pub(crate) fn balance(&self, token: Address, who: Address) -> U256 {
        if token.is_zero() {
            return self.native_of(who);
        }
        let token = self.tokens.get(&token);
        token.and_then(|token| token.balances.get(&who)).copied().unwrap_or_default()
    }

    pub(crate) fn allowance(&self, token: Address, owner: Address, spender: Address) -> U256 {
        let token = self.tokens.get(&token);
        token.and_then(|token| token.allowances.get(&(owner, spender))).copied().unwrap_or_default()
    }

    pub(crate) fn right(&self, owner: Address, token: Address, spender: Address) -> Permit2Right {
        self.rights.get(&(owner, token, spender)).copied().unwrap_or_default()
    }

    /// Returns all token allowances above zero, by owner, token and spender.
    pub(crate) fn all_allowances(&self) -> BTreeMap<(Address, Address, Address), U256> {
        let each = self.tokens.iter().flat_map(|(token, one)| {
            one.allowances
                .iter()
                .map(|((owner, spender), amount)| ((*owner, *token, *spender), *amount))
        });
        each.filter(|(_key, amount)| !amount.is_zero()).collect()
    }

    pub(super) fn price3(&self, pool: Address) -> Option<U256> {
        self.pools3.get(&pool).map(|pool| pool.range.price)
    }

    pub(super) fn price4(&self, pool: B256) -> Option<U256> {
        self.v4_pools.get(&pool).map(|pool| pool.range.price)
    }

    pub(crate) fn nonce(&self, who: Address) -> u64 {
        self.nonces.get(&who).copied().unwrap_or(0)
    }

    /// Multiplies a pool's price by `permille` thousandths, within its range.
    pub(crate) fn move_pool(&mut self, at: usize, permille: u64) {
        let ranges = self.pools3.values_mut().map(|pool| &mut pool.range);
        let ranges = ranges.chain(self.v4_pools.values_mut().map(|pool| &mut pool.range));
        if let Some(range) = ranges.into_iter().nth(at) {
            move_range(range, permille);
        }
    }

    /// Changes the price in every pool of the native coin or its wrapped token, as arbitrage does.
    pub(crate) fn move_native(&mut self, wrapped: Address, permille: u64) {
        let is_native = |currency: Address| currency.is_zero() || currency == wrapped;
        let inverse = 1_000_000 / permille.max(1);
        for pool in self.pools3.values_mut() {
            if is_native(pool.token0) {
                move_range(&mut pool.range, permille);
            } else if is_native(pool.token1) {
                move_range(&mut pool.range, inverse);
            }
        }
        for pool in self.v4_pools.values_mut() {
            if is_native(pool.currency0) {
                move_range(&mut pool.range, permille);
            }
        }
    }

    /// Changes the price in a named pool.
    ///
    /// A sale of its first token, or of its second if `flip`, then pays `permille` thousandths of the previous output.
    pub(crate) fn move_named(
        &mut self,
        contracts: &Contracts,
        pool: usize,
        flip: bool,
        permille: u64,
    ) {
        let all = pools(contracts);
        let named = &all[pool % all.len()];
        let sells = if flip { named.b } else { named.a };
        let zero_for_one = sells == named.a.min(named.b);
        let permille = if zero_for_one { permille } else { 1_000_000 / permille.max(1) };
        let range = match named.v4 {
            None => {
                let address = contracts.pool3(named.a, named.b, named.fee);
                self.pools3.get_mut(&address).map(|pool| &mut pool.range)
            }
            Some((spacing, hooks)) => {
                let key = key4(named.a, named.b, named.fee, spacing, hooks);
                self.v4_pools.get_mut(&id4(&key)).map(|pool| &mut pool.range)
            }
        };
        if let Some(range) = range {
            move_range(range, permille);
        }
    }

    pub(crate) fn pool_count(&self) -> usize {
        self.pools3.len() + self.v4_pools.len()
    }

    /// Increases the balances of rebasing tokens by a thousandth.
    pub(crate) fn rebase(&mut self) {
        for token in self.tokens.values_mut().filter(|token| token.kind == TokenKind::Rebasing) {
            for balance in token.balances.values_mut() {
                *balance += *balance / U256::from(1_000);
            }
        }
    }
}

fn move_range(range: &mut Range, permille: u64) {
    // The range stores the square root of the price, so it moves by the root of the factor.
    let square = U256::from(permille) * U256::from(1_000);
    let root = square.root(2);
    let price = range.price * root / U256::from(1_000);
    let (low, high) = (range.low + U256::from(1), range.high - U256::from(1));
    range.price = price.clamp(low, high);
}
