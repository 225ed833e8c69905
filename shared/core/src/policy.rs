//! The policy of an agent: limits of the three lanes, networks and domains. Pure data. [`Policy::loosens`] compares two
//! policies, because only a loosening change needs an unlocked wallet.

mod changes;
mod contracts;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::card::ByLane;
use crate::hosts::HostLists;
use crate::money::{Bps, Usd, Wei};
use crate::networks::ChainId;

pub use contracts::Contracts;

/// An agent's policy (wallet specification, Policy).
///
/// A maximum of zero allows nothing; it never means "no limit".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    pub networks: AllowedNetworks,
    pub payments: PaymentPolicy,
    pub trading: TradingPolicy,
    pub lending: LendingPolicy,
}

/// The networks that an agent may use, among those that the operator has enabled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AllowedNetworks {
    #[default]
    AllEnabled,
    Only(BTreeSet<ChainId>),
}

impl AllowedNetworks {
    /// Returns whether the policy allows a network; it must also be enabled.
    pub fn allows(&self, chain: ChainId) -> bool {
        match self {
            AllowedNetworks::AllEnabled => true,
            AllowedNetworks::Only(chains) => chains.contains(&chain),
        }
    }

    fn allows_more_than(&self, old: &Self) -> bool {
        match (self, old) {
            (_, AllowedNetworks::AllEnabled) => false,
            (AllowedNetworks::AllEnabled, AllowedNetworks::Only(_)) => true,
            (AllowedNetworks::Only(new), AllowedNetworks::Only(old)) => !new.is_subset(old),
        }
    }
}

/// The policy for x402 payments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentPolicy {
    pub enabled: bool,
    /// Maximum value that may be spent of one daily allowance.
    pub daily: Usd,
    /// Larger payments are refused.
    pub per_request: Usd,
    /// Smaller payments are signed without approval; zero means that every payment needs approval.
    pub auto_below: Usd,
    pub hosts: HostLists,
}

impl Default for PaymentPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            daily: Usd::dollars(100),
            per_request: Usd::dollars(10),
            auto_below: Usd::ZERO,
            hosts: HostLists::default(),
        }
    }
}

/// The policy for swaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TradingPolicy {
    pub enabled: bool,
    pub daily: Usd,
    pub per_trade: Usd,
    pub auto_below: Usd,
    /// A trade is refused if it would leave the paying address with less than this of the native coin, after value
    /// and gas.
    pub min_native: Wei,
    /// Largest difference between the final fill and our quote.
    pub max_slippage: Bps,
    /// Largest difference between the fill and the pool's own rate, including the fee, without approval.
    pub max_impact: Bps,
    /// Tokens that may be bought without approval, on any network, besides those of our table.
    pub tokens: Contracts,
    /// Hooks whose pools may be used without approval, on any network.
    pub hooks: Contracts,
}

impl Default for TradingPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            daily: Usd::dollars(500),
            per_trade: Usd::dollars(100),
            auto_below: Usd::ZERO,
            min_native: Wei(100_000_000_000_000),
            max_slippage: Bps(300),
            max_impact: Bps(500),
            tokens: Contracts::default(),
            hooks: Contracts::default(),
        }
    }
}

/// The policy for lending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingPolicy {
    pub enabled: bool,
    pub max_deposit: Usd,
    /// Maximum value that may be lent at all venues together.
    pub max_total: Usd,
    /// Maximum share of liquid and lent funds that may be lent; the lower of this limit and `max_total` applies.
    pub max_share: Option<Bps>,
    pub auto_below: Usd,
    pub operations_per_day: u32,
    pub curated_only: bool,
}

impl Default for LendingPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            max_deposit: Usd::dollars(100),
            max_total: Usd::dollars(500),
            max_share: None,
            auto_below: Usd::ZERO,
            operations_per_day: 20,
            curated_only: true,
        }
    }
}

impl Policy {
    /// Returns the daily limit of each lane.
    ///
    /// Lending has a ceiling and a number of operations instead.
    pub fn daily(&self) -> ByLane<Usd> {
        ByLane { payment: self.payments.daily, trade: self.trading.daily, loan: Usd::ZERO }
    }

    /// Returns whether `self` may allow an agent something that `old` does not allow.
    ///
    /// Such a change needs an unlocked wallet; tightening is always allowed.
    pub fn loosens(&self, old: &Policy) -> bool {
        self.changes(old).iter().any(|change| change.loosens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::HostEntry;

    fn entry(text: &str) -> HostEntry {
        HostEntry::parse(text).unwrap()
    }

    #[test]
    fn a_policy_allows_named_networks_or_all_enabled_ones() {
        let (base, other) = (ChainId(8453), ChainId(1));
        let only = AllowedNetworks::Only([base].into());
        assert!(only.allows(base) && !only.allows(other));
        assert!(AllowedNetworks::AllEnabled.allows(other));
        assert!(!AllowedNetworks::Only([].into()).allows(base));
    }

    /// Applies each change separately. In each pair, the loosening change comes first.
    #[test]
    fn each_field_loosens_in_one_direction_only() {
        type Change = fn(&mut Policy);
        let base = || {
            let networks = AllowedNetworks::Only([ChainId(8453)].into());
            let mut policy = Policy { networks, ..Policy::default() };
            policy.payments.hosts.allowed = vec![entry("a.example"), entry("b.example")];
            policy.payments.hosts.blocked = vec![entry("c.example")];
            policy.payments.auto_below = Usd(5);
            policy.trading.auto_below = Usd(5);
            policy.lending.auto_below = Usd(5);
            policy.lending.max_share = Some(Bps(100));
            policy
        };
        let cases: &[(Change, Change)] = &[
            (
                |p| p.networks = AllowedNetworks::AllEnabled,
                |p| {
                    p.networks = AllowedNetworks::Only([].into());
                },
            ),
            (|p| p.payments.daily.0 += 1, |p| p.payments.daily.0 -= 1),
            (|p| p.payments.per_request.0 += 1, |p| p.payments.per_request.0 -= 1),
            (|p| p.payments.auto_below.0 += 1, |p| p.payments.auto_below.0 -= 1),
            (
                |p| p.payments.hosts.allowed.push(entry("d.example")),
                |p| {
                    p.payments.hosts.allowed.truncate(1);
                },
            ),
            (|p| p.payments.hosts.allowed.clear(), |_same| ()),
            (
                |p| p.payments.hosts.blocked.clear(),
                |p| {
                    p.payments.hosts.blocked.push(entry("d.example"));
                },
            ),
            (|p| p.trading.enabled = true, |p| p.payments.enabled = false),
            (|p| p.trading.daily.0 += 1, |p| p.trading.daily.0 -= 1),
            (|p| p.trading.per_trade.0 += 1, |p| p.trading.per_trade.0 -= 1),
            (|p| p.trading.auto_below.0 += 1, |p| p.trading.auto_below.0 -= 1),
            (|p| p.trading.min_native.0 -= 1, |p| p.trading.min_native.0 += 1),
            (|p| p.trading.max_slippage.0 += 1, |p| p.trading.max_slippage.0 -= 1),
            (|p| p.trading.max_impact.0 += 1, |p| p.trading.max_impact.0 -= 1),
            (|p| p.lending.enabled = true, |_same| ()),
            (|p| p.lending.max_deposit.0 += 1, |p| p.lending.max_deposit.0 -= 1),
            (|p| p.lending.max_total.0 += 1, |p| p.lending.max_total.0 -= 1),
            (|p| p.lending.max_share = None, |p| p.lending.max_share = Some(Bps(99))),
            (|p| p.lending.auto_below.0 += 1, |p| p.lending.auto_below.0 -= 1),
            (|p| p.lending.operations_per_day += 1, |p| p.lending.operations_per_day -= 1),
            (|p| p.lending.curated_only = false, |_same| ()),
        ];
        for (index, (looser, tighter)) in cases.iter().enumerate() {
            let (mut loose, mut tight) = (base(), base());
            looser(&mut loose);
            tighter(&mut tight);
            assert!(loose.loosens(&base()), "case {index} does not loosen");
            assert!(!tight.loosens(&base()), "case {index} does not tighten");
        }
    }

    #[test]
    fn policy_changes_have_field_old_and_new_value() {
        let mut old = Policy::default();
        old.payments.hosts.blocked = vec![entry("c.example")];
        let mut new = old.clone();
        new.payments.per_request = Usd::dollars(100);
        new.payments.daily = Usd::dollars(50);
        new.payments.hosts.blocked.push(entry("d.example"));
        new.networks = AllowedNetworks::Only([ChainId(8453)].into());
        let told: Vec<(String, bool)> =
            new.changes(&old).iter().map(|change| (change.text(), change.loosens)).collect();
        let text = |text: &str, loosens: bool| (text.to_owned(), loosens);
        assert_eq!(
            told,
            [
                text("networks all enabled -> Base", false),
                text("max per day 100.00 -> 50.00 USD", false),
                text("max per payment 10.00 -> 100.00 USD", true),
                text("blocked domains c.example -> c.example, d.example", false),
            ]
        );
        assert!(new.changes(&new).is_empty());
        let nowhere = Policy { networks: AllowedNetworks::Only([].into()), ..new.clone() };
        assert_eq!(nowhere.changes(&new)[0].text(), "networks Base -> none");
    }
}
