//! The tokens and pools with which a world begins.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_tests::dice::Dice;

use super::contracts::{Contracts, id4, key4};
use super::math::{Range, integer_sqrt, sqrt_price};
use super::named::{OTHERS, PoolName, pools};
use super::state::{Pool3, State, Token, TokenKind, V4Pool};

/// The initial price of one native coin in dollars. `OTHER_DOLLARS` is that of one unlisted token.
pub(crate) const ETH_DOLLARS: u64 = 3_000;
const OTHER_DOLLARS: u64 = 2;

/// Returns the initial state of a chain. Each of the `owners` has some of each token.
pub(crate) fn initial(chain: ChainId, owners: &[Address]) -> State {
    let contracts = Contracts::of(chain);
    let mut state = State { data_fee: 2_000_000, quoted_permille: 1_000, ..State::default() };
    let mut add = |address, kind, symbol, decimals| {
        let token = Token {
            kind,
            symbol,
            decimals,
            balances: BTreeMap::new(),
            allowances: BTreeMap::new(),
            paused: false,
        };
        state.tokens.insert(address, token);
    };
    add(contracts.dollar(), TokenKind::Plain, "USD", 6);
    add(contracts.weth(), TokenKind::Wrapped, "WETH", 18);
    for other in contracts.exchange.dollar_tokens {
        add(other.address, TokenKind::ZeroFirst, "USDT", other.decimals);
    }
    add(OTHERS[0], TokenKind::Plain, "PLAIN", 18);
    add(OTHERS[1], TokenKind::Fee(100), "FEE", 9);
    add(OTHERS[2], TokenKind::Rebasing, "REBASE", 18);
    add(OTHERS[3], TokenKind::Plain, "SINGLE", 18);
    let huge = U256::from(10).pow(U256::from(40));
    for pool in pools(&contracts) {
        add_pool(&mut state, &contracts, &pool);
    }
    let manager = contracts.exchange.v4.pool_manager;
    let holders: Vec<Address> = state.pools3.keys().copied().chain([manager]).collect();
    for token in state.tokens.values_mut() {
        for holder in &holders {
            token.balances.insert(*holder, huge);
        }
    }
    state.native.insert(manager, huge);
    state.native.insert(contracts.weth(), huge);
    for (at, owner) in owners.iter().enumerate() {
        // Every second address has so few native coins that a trade can reach the required minimum.
        let dollars = if at % 2 == 0 { 40 } else { 1_500 };
        state.native.insert(*owner, atoms(ETH_DOLLARS, 18, dollars));
        for (address, token) in &mut state.tokens {
            let price = dollars_of(&contracts, *address);
            token.balances.insert(*owner, atoms(price, token.decimals, 1_500));
        }
    }
    state.feed = (feed_answer(&contracts, ETH_DOLLARS * 1_000_000), 0);
    state
}

/// Converts a price in millionths of a dollar to the unit of the network's feed.
pub(crate) fn feed_answer(contracts: &Contracts, micros: u64) -> U256 {
    let decimals = contracts.exchange.native_feed.map_or(8, |feed| feed.decimals);
    U256::from(micros) * U256::from(10).pow(U256::from(decimals)) / U256::from(1_000_000)
}

fn dollars_of(contracts: &Contracts, currency: Address) -> u64 {
    if currency.is_zero() || currency == contracts.weth() {
        ETH_DOLLARS
    } else if contracts.network.is_dollar(currency) {
        1
    } else {
        OTHER_DOLLARS
    }
}

/// Returns the number of a currency's smallest units that are worth `dollars`.
fn atoms(price: u64, decimals: u8, dollars: u64) -> U256 {
    U256::from(10).pow(U256::from(decimals)) * U256::from(dollars) / U256::from(price)
}

fn add_pool(state: &mut State, contracts: &Contracts, pool: &PoolName) {
    let (zero, one) = (pool.a.min(pool.b), pool.a.max(pool.b));
    let side = |currency: Address, state: &State| {
        let decimals = state.tokens.get(&currency).map_or(18, |token| token.decimals);
        atoms(dollars_of(contracts, currency), decimals, pool.depth * 1_000)
    };
    let (amount0, amount1) = (side(zero, state), side(one, state));
    let price = sqrt_price(amount0, amount1);
    let product = alloy_primitives::U512::from(amount0) * alloy_primitives::U512::from(amount1);
    let range = Range {
        price,
        liquidity: u128::try_from(integer_sqrt(product)).unwrap_or(u128::MAX),
        low: price / U256::from(2),
        high: price * U256::from(2),
        fee: pool.fee,
    };
    match pool.v4 {
        None => {
            let address = contracts.pool3(zero, one, pool.fee);
            state.pools3.insert(address, Pool3 { token0: zero, token1: one, range });
        }
        Some((spacing, hooks)) => {
            let id = id4(&key4(zero, one, pool.fee, spacing, hooks));
            let pool =
                V4Pool { currency0: zero, currency1: one, hooks, hook_takes: pool.hook_bps, range };
            state.v4_pools.insert(id, pool);
        }
    }
}

/// Adds allowances that look like remainders of earlier swaps, some small and some large.
pub(crate) fn leave_allowances(
    state: &mut State,
    chain: ChainId,
    owners: &[Address],
    dice: &mut Dice,
) {
    let contracts = Contracts::of(chain);
    let spenders = [contracts.exchange.v3.router, contracts.exchange.permit2];
    for (address, token) in &mut state.tokens {
        for owner in owners {
            if dice.chance(1, 2) {
                continue;
            }
            let spender = dice.one_of(&spenders);
            let dollars = dice.one_of(&[3, 40, 1_000]);
            let amount = atoms(dollars_of(&contracts, *address), token.decimals, dollars);
            token.allowances.insert((*owner, spender), amount);
        }
    }
}
