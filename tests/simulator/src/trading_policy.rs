//! The parts of policies that trades are judged by.

use alloy_primitives::Address;
use bursar_auditor::observations::TradingPolicy;

use crate::evm::notes::text;
use crate::evm::{HookKind, OTHERS, hook};

/// Limits of trades, in millionths of a dollar.
struct TradingLimits {
    enabled: bool,
    daily: u64,
    per_trade: u64,
    auto_below: u64,
    slippage_bps: u32,
    impact_bps: u32,
    /// Whether unlisted tokens need no approval; `hooks`: whether pools with hooks need none.
    trusts_unlisted_tokens: bool,
    trusts_hooks: bool,
}

const DOLLAR: u64 = 1_000_000;
/// The default of `--min-eth`, in wei.
const MIN_NATIVE: u128 = 100_000_000_000_000;

const PLAIN: TradingLimits = TradingLimits {
    enabled: true,
    daily: 500 * DOLLAR,
    per_trade: 100 * DOLLAR,
    auto_below: 60 * DOLLAR,
    slippage_bps: 300,
    impact_bps: 500,
    trusts_unlisted_tokens: true,
    trusts_hooks: false,
};

const VARIANTS: [TradingLimits; 7] = [
    PLAIN,
    TradingLimits {
        daily: 150 * DOLLAR,
        per_trade: 150 * DOLLAR,
        auto_below: 150 * DOLLAR,
        trusts_hooks: true,
        ..PLAIN
    },
    TradingLimits { auto_below: 0, ..PLAIN },
    TradingLimits {
        slippage_bps: 100,
        impact_bps: 200,
        auto_below: 100 * DOLLAR,
        trusts_hooks: true,
        ..PLAIN
    },
    TradingLimits { auto_below: 200 * DOLLAR, per_trade: 400 * DOLLAR, ..PLAIN },
    TradingLimits {
        daily: 60 * DOLLAR,
        auto_below: 110 * DOLLAR,
        trusts_unlisted_tokens: false,
        ..PLAIN
    },
    TradingLimits { enabled: false, ..PLAIN },
];

fn dollars(micros: u64) -> String {
    format!("{}.{:06}", micros / DOLLAR, micros % DOLLAR)
}

fn percent(bps: u32) -> String {
    format!("{}.{:02}", bps / 100, bps % 100)
}

fn list(wanted: bool, addresses: &[Address]) -> Vec<String> {
    let named = addresses.iter().filter(|_address| wanted);
    named.map(|address| text(*address)).collect()
}

impl TradingLimits {
    fn tokens(&self) -> Vec<String> {
        list(self.trusts_unlisted_tokens, &OTHERS)
    }

    fn hooks(&self) -> Vec<String> {
        list(self.trusts_hooks, &[hook(HookKind::Harmless), hook(HookKind::Takes)])
    }
}

/// The limits of the agents that trade from the device.
const DEVICE: TradingLimits = TradingLimits { daily: 160 * DOLLAR, ..PLAIN };

/// Returns the command-line options of a variant.
pub(crate) fn options(variant: usize) -> String {
    options_of(&VARIANTS[variant % VARIANTS.len()])
}

/// Returns the command-line options of the agents that trade from the device.
pub(crate) fn device_options() -> String {
    options_of(&DEVICE)
}

fn options_of(one: &TradingLimits) -> String {
    format!(
        "{} --trade-daily {} --trade-max {} --trade-auto {} --max-slip {} --max-impact {} --trade-tokens \"{}\" --trade-hooks \"{}\"",
        if one.enabled { "--trading" } else { "--no-trading" },
        dollars(one.daily),
        dollars(one.per_trade),
        dollars(one.auto_below),
        percent(one.slippage_bps),
        percent(one.impact_bps),
        one.tokens().join(","),
        one.hooks().join(","),
    )
}

/// Returns a variant in the auditor's type.
pub(crate) fn auditor_policy(variant: usize) -> TradingPolicy {
    policy_of(&VARIANTS[variant % VARIANTS.len()])
}

/// Returns the policy of the agents that trade from the device, in the auditor's type.
pub(crate) fn device_policy() -> TradingPolicy {
    policy_of(&DEVICE)
}

fn policy_of(one: &TradingLimits) -> TradingPolicy {
    TradingPolicy {
        enabled: one.enabled,
        daily: one.daily,
        per_trade: one.per_trade,
        auto_below: one.auto_below,
        min_native: MIN_NATIVE,
        max_slippage_bps: one.slippage_bps,
        max_impact_bps: one.impact_bps,
        tokens: one.tokens(),
        hooks: one.hooks(),
    }
}
