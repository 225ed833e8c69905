//! The pools of a network, as agents name them.

use alloy_primitives::Address;

use super::contracts::{Contracts, HookKind, hook};

/// Tokens outside the wallet's table: a plain one, one with a transfer fee, one that rebases, and one with a single
/// pool.
pub(crate) const OTHERS: [Address; 4] = [
    Address::repeat_byte(0xa1),
    Address::repeat_byte(0xb2),
    Address::repeat_byte(0xc3),
    // The hook of this token's only pool takes a part of the output.
    Address::repeat_byte(0xd4),
];

/// A pool as an agent names it. The zero address is the native coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolName {
    pub(crate) a: Address,
    pub(crate) b: Address,
    pub(crate) fee: u32,
    /// Tick spacing and hooks of a v4 pool.
    pub(crate) v4: Option<(i32, Address)>,
    /// The depth in thousands of dollars on each side.
    pub(super) depth: u64,
    /// The part of an output that the pool's hook takes, in basis points.
    pub(super) hook_bps: u64,
}

/// Returns the pools of a network.
pub(crate) fn pools(contracts: &Contracts) -> Vec<PoolName> {
    let (dollar, weth) = (contracts.dollar(), contracts.weth());
    let [plain, fee, rebasing, single] = OTHERS;
    let v3 = |a, b, tier, depth| PoolName { a, b, fee: tier, v4: None, depth, hook_bps: 0 };
    let v4 = |a, b, tier, spacing, hooks, depth| PoolName {
        v4: Some((spacing, hooks)),
        ..v3(a, b, tier, depth)
    };
    let mut all = vec![
        v3(dollar, weth, 500, 900),
        v3(dollar, weth, 3_000, 60),
        v3(dollar, plain, 3_000, 40),
        v3(dollar, plain, 10_000, 1),
        v3(weth, plain, 3_000, 30),
        v3(weth, fee, 3_000, 50),
        v3(dollar, rebasing, 3_000, 50),
        v4(Address::ZERO, dollar, 500, 10, Address::ZERO, 500),
        v4(dollar, plain, 3_000, 60, Address::ZERO, 45),
        v4(dollar, weth, 3_000, 60, Address::ZERO, 80),
        v4(Address::ZERO, dollar, 3_000, 60, hook(HookKind::Harmless), 70),
        PoolName {
            hook_bps: 800,
            ..v4(Address::ZERO, dollar, 3_000, 60, hook(HookKind::Takes), 70)
        },
        PoolName { hook_bps: 800, ..v4(dollar, weth, 500, 10, hook(HookKind::Takes), 70) },
        PoolName { hook_bps: 800, ..v4(dollar, single, 3_000, 60, hook(HookKind::Takes), 90) },
    ];
    if let Some(other) = contracts.exchange.dollar_tokens.first() {
        all.push(v3(dollar, other.address, 100, 600));
    }
    all
}
