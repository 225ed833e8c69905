//! Checks that the addresses of agents that trade or lend can pay for gas. Facilitators pay the gas of payments.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, Chain};
use bursar_control::answers::CheckAnswer;
use bursar_core::money::Wei;
use bursar_core::networks::Network;
use bursar_domain::State;

/// An address from which agents may trade or lend on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Payer {
    label: String,
    /// The minimum native balance that the agents' policies require on the address.
    native_min: Wei,
}

/// Checks the native balance of each address that needs gas on a network.
///
/// An address that several agents use is checked once.
pub(super) async fn check(row: &Network, state: &State, chain: &dyn Chain) -> Vec<CheckAnswer> {
    let mut checks = Vec::new();
    for (address, payer) in payers(row, state) {
        // If the node does not answer, another check reports it.
        if let Ok(balance) = chain.balance(address, BlockTag::Latest).await {
            checks.extend(judge(row, address, &payer, balance));
        }
    }
    checks
}

fn payers(row: &Network, state: &State) -> BTreeMap<Address, Payer> {
    let mut payers: BTreeMap<Address, Payer> = BTreeMap::new();
    for agent in state.agents.values() {
        let (Some(given), Some(policy)) = (&agent.commission, state.policy_of(agent)) else {
            continue;
        };
        let trades = policy.trading.enabled && row.exchange.is_some();
        let lends = policy.lending.enabled && row.lending.is_some();
        if !policy.networks.allows(row.chain) || !(trades || lends) {
            continue;
        }
        let Some(from) = state.wallet.as_ref().and_then(|wallet| wallet.address(&given.label))
        else {
            continue;
        };
        let least = if trades { policy.trading.min_native } else { Wei(0) };
        let payer = payers
            .entry(from.address)
            .or_insert_with(|| Payer { label: given.label.as_str().to_owned(), native_min: least });
        payer.native_min = payer.native_min.max(least);
    }
    payers
}

fn judge(row: &Network, address: Address, payer: &Payer, balance: U256) -> Option<CheckAnswer> {
    let title = format!("gas of {} on {}", payer.label, row.title);
    let least = U256::from(payer.native_min.0);
    let finding = if balance.is_zero() {
        format!("{address} has no ETH, so agents cannot trade or lend there")
    } else if balance <= least {
        format!(
            "{address} has no ETH beyond the {} that must stay, so trades are refused",
            payer.native_min.as_coins()
        )
    } else {
        return None;
    };
    let advice =
        format!("send some ETH to {address} on {}, or take the network from the policy", row.title);
    Some(CheckAnswer::warn(title, finding, advice))
}

#[cfg(test)]
mod tests {
    use bursar_core::networks::{ChainId, by_chain};

    use super::*;

    #[test]
    fn an_address_without_gas_is_reported_until_it_has_more_than_must_stay() {
        let base = by_chain(ChainId(8453)).unwrap();
        let payer = Payer { label: "main".to_owned(), native_min: Wei(100) };
        let found = |balance: u64| judge(base, Address::ZERO, &payer, U256::from(balance));
        assert!(found(0).unwrap().finding.contains("has no ETH"));
        assert!(found(100).unwrap().finding.contains("must stay"));
        assert!(found(101).is_none());
    }
}
