//! The result of a finished swap, from the events of its receipt.
//!
//! A quote never replaces an unreadable value: the result is `None`. Events are read only from contracts that are part
//! of the swap: the traded token, the wrapped coin, the v3 pool and the PoolManager.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolEvent;

use crate::abi::pool_manager::IPoolManager;
use crate::abi::token::{IErc20, IWrappedNative};
use crate::abi::v3::IV3PoolEvents;
use crate::currency::Currency;
use crate::pool::PoolKey;

/// An event of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The contract that emitted it.
    pub address: Address,
    /// The event's signature and its indexed fields.
    pub topics: Vec<B256>,
    /// The fields that are not indexed.
    pub data: Bytes,
}

/// The events of a receipt that show one side of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Transfers of a token to and from its owner.
    Token { token: Address, owner: Address },
    /// Native coin that `holder` wrapped or unwrapped: the v3 router, or the wallet itself when it wraps.
    Wrapped { wrapped_native: Address, holder: Address },
    /// One side of the swaps in a v3 pool, as the pool reports it: a token's own transfer fee is not yet deducted.
    V3Pool { pool: Address, is_token0: bool },
    /// The side `currency` of the swaps that `router` made in a v4 pool.
    V4Pool { pool_manager: Address, router: Address, pool: PoolKey, currency: Currency },
}

/// Returns the net amount that the transaction brought, in smallest units: incoming less outgoing amounts.
///
/// `None` if it is not positive, or if the events cannot be read.
pub fn net_received(flow: &Flow, logs: &[Log]) -> Option<U256> {
    let moved = side_totals(flow, logs)?;
    to_signed_positive(moved.inward.checked_sub(moved.outward)?)
}

/// Returns the net amount that the transaction cost, in smallest units: outgoing less incoming amounts.
///
/// `None` if it is not positive, or if the events cannot be read.
pub fn net_spent(flow: &Flow, logs: &[Log]) -> Option<U256> {
    let moved = side_totals(flow, logs)?;
    to_signed_positive(moved.outward.checked_sub(moved.inward)?)
}

/// The sums of one side of a swap, seen from the wallet.
#[derive(Default, PartialEq, Eq)]
struct SideTotals {
    inward: U256,
    outward: U256,
}

impl SideTotals {
    fn add_inward(&mut self, amount: U256) -> Option<()> {
        self.inward = self.inward.checked_add(amount)?;
        Some(())
    }

    fn add_outward(&mut self, amount: U256) -> Option<()> {
        self.outward = self.outward.checked_add(amount)?;
        Some(())
    }
}

fn side_totals(flow: &Flow, logs: &[Log]) -> Option<SideTotals> {
    match *flow {
        Flow::Token { token, owner } => transfer_totals(logs, token, owner),
        Flow::Wrapped { wrapped_native, holder } => wrap_totals(logs, wrapped_native, holder),
        Flow::V3Pool { pool, is_token0 } => v3_swap_totals(logs, pool, is_token0),
        Flow::V4Pool { pool_manager, router, pool, currency } => {
            v4_swap_totals(logs, pool_manager, router, &pool, currency)
        }
    }
}

fn transfer_totals(logs: &[Log], token: Address, owner: Address) -> Option<SideTotals> {
    let mut moved = SideTotals::default();
    for event in events::<IErc20::Transfer>(logs, token) {
        let event = event?;
        if event.to == owner {
            moved.add_inward(event.value)?;
        }
        if event.from == owner {
            moved.add_outward(event.value)?;
        }
    }
    Some(moved)
}

/// Returns the coins that `holder` unwrapped and wrapped.
///
/// Canonical wrapped coins emit deposits and withdrawals. Arbitrum's contract emits transfers from and to the zero
/// address instead. If a contract emits both, their amounts must be equal.
fn wrap_totals(logs: &[Log], wrapped_native: Address, holder: Address) -> Option<SideTotals> {
    let mut wrapped = SideTotals::default();
    for event in events::<IWrappedNative::Withdrawal>(logs, wrapped_native) {
        let event = event?;
        if event.src == holder {
            wrapped.add_inward(event.wad)?;
        }
    }
    for event in events::<IWrappedNative::Deposit>(logs, wrapped_native) {
        let event = event?;
        if event.dst == holder {
            wrapped.add_outward(event.wad)?;
        }
    }
    let mut minted = SideTotals::default();
    for event in events::<IErc20::Transfer>(logs, wrapped_native) {
        let event = event?;
        if event.from == holder && event.to.is_zero() {
            minted.add_inward(event.value)?;
        }
        if event.from.is_zero() && event.to == holder {
            minted.add_outward(event.value)?;
        }
    }
    match (wrapped == SideTotals::default(), minted == SideTotals::default()) {
        (true, _) => Some(minted),
        (_, true) => Some(wrapped),
        (false, false) => (wrapped == minted).then_some(wrapped),
    }
}

/// Sums the swaps of a v3 pool, seen from the swapper. The pool reports amounts from its own side: a negative amount
/// goes to the swapper.
fn v3_swap_totals(logs: &[Log], pool: Address, is_token0: bool) -> Option<SideTotals> {
    let mut moved = SideTotals::default();
    for event in events::<IV3PoolEvents::Swap>(logs, pool) {
        let event = event?;
        let amount = if is_token0 { event.amount0 } else { event.amount1 };
        if amount.is_negative() {
            moved.add_inward(amount.unsigned_abs())?;
        } else {
            moved.add_outward(amount.unsigned_abs())?;
        }
    }
    Some(moved)
}

/// Sums one currency of the router's swaps in a v4 pool. The pool reports amounts from the swapper's side: a positive
/// amount goes to the swapper. The event does not include changes by a hook.
fn v4_swap_totals(
    logs: &[Log],
    pool_manager: Address,
    router: Address,
    pool: &PoolKey,
    currency: Currency,
) -> Option<SideTotals> {
    let is_0 = pool.currency0() == currency;
    if pool.hook_permissions().changes_amounts() || !(is_0 || pool.currency1() == currency) {
        return None;
    }
    let mut moved = SideTotals::default();
    for event in events::<IPoolManager::Swap>(logs, pool_manager) {
        let event = event?;
        if event.id != pool.id() || event.sender != router {
            continue;
        }
        let signed = if is_0 { event.amount0 } else { event.amount1 };
        let amount = U256::from(signed.unsigned_abs());
        if signed.is_negative() {
            moved.add_outward(amount)?;
        } else {
            moved.add_inward(amount)?;
        }
    }
    Some(moved)
}

/// Returns the events `E` of a contract; `None` for each event with this topic that cannot be decoded.
fn events<E: SolEvent>(logs: &[Log], contract: Address) -> impl Iterator<Item = Option<E>> {
    let named =
        move |log: &&Log| log.address == contract && log.topics.first() == Some(&E::SIGNATURE_HASH);
    logs.iter()
        .filter(named)
        .map(|log| E::decode_raw_log_validate(log.topics.iter().copied(), &log.data).ok())
}

fn to_signed_positive(amount: U256) -> Option<U256> {
    (!amount.is_zero()).then_some(amount)
}

#[cfg(test)]
mod tests;
