//! The state of the service, as `/health`, `/readyz` and `status` report it. It is probed every few seconds, so a
//! request for it costs nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use serde_json::{Map, Value, json};

/// The state of one network at the last probe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkStanding {
    /// Whether a node answers.
    pub node: bool,
    /// The newest block.
    pub block: u64,
    /// Whether new blocks arrive. Always true while no payment waits for one.
    pub blocks_come: bool,
    /// Whether a signer can pay for a payment.
    pub coin: bool,
    /// The balance of each signer, in wei.
    pub signers: BTreeMap<Address, U256>,
    /// Gas paid today (UTC), in wei.
    pub spent_today: U256,
}

impl NetworkStanding {
    fn serves(&self) -> bool {
        self.node && self.coin && self.blocks_come
    }
}

/// The state of the service at the last probe. `store` is `None` before the first one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Look {
    store: Option<bool>,
    /// Whether there is room for more payments.
    queue: bool,
    open: usize,
    networks: BTreeMap<ChainId, NetworkStanding>,
}

/// The result of the last probe.
#[derive(Debug, Default)]
pub struct Standing(Mutex<Look>);

impl Standing {
    /// Stores the result of a probe. `open` is the number of open payments, `queue` whether there is room for more.
    pub fn found(
        &self,
        store: bool,
        (open, queue): (usize, bool),
        networks: BTreeMap<ChainId, NetworkStanding>,
    ) {
        *self.look() = Look { store: Some(store), queue, open, networks };
    }

    /// Whether a check fails. `false` before the first probe.
    pub fn is_degraded(&self) -> bool {
        let look = self.look();
        let all = look.networks.values().all(NetworkStanding::serves);
        look.store.is_some_and(|store| !store || !look.queue || !all)
    }

    /// Whether payments can be settled on at least one network.
    pub fn is_ready(&self) -> bool {
        let look = self.look();
        let any = look.networks.values().any(NetworkStanding::serves);
        look.store == Some(true) && look.queue && any
    }

    /// The checks behind [`Standing::is_ready`], as JSON.
    pub fn checks(&self) -> Value {
        let look = self.look();
        let network = |(chain, one): (&ChainId, &NetworkStanding)| {
            let told = json!({
                "node": one.node, "newestBlock": one.block, "blocksCome": one.blocks_come,
                "nativeCoin": one.coin,
            });
            (format!("eip155:{chain}"), told)
        };
        let networks: Map<String, Value> = look.networks.iter().map(network).collect();
        json!({ "store": look.store == Some(true), "queue": look.queue, "networks": networks })
    }

    /// The same checks with what only the operator sees: open payments, balances and the gas spent today.
    pub fn report(&self) -> Value {
        let mut report = self.checks();
        let look = self.look();
        report["openPayments"] = json!(look.open);
        for (chain, one) in &look.networks {
            let signers: Map<String, Value> = one
                .signers
                .iter()
                .map(|(signer, wei)| (signer.to_string(), json!(wei.to_string())))
                .collect();
            let at = &mut report["networks"][format!("eip155:{chain}")];
            at["signersWei"] = Value::Object(signers);
            at["gasSpentTodayWei"] = json!(one.spent_today.to_string());
        }
        report
    }

    fn look(&self) -> std::sync::MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> NetworkStanding {
        NetworkStanding { node: true, blocks_come: true, coin: true, ..NetworkStanding::default() }
    }

    fn standing(store: bool, queue: bool, networks: &[NetworkStanding]) -> Standing {
        let standing = Standing::default();
        let networks = (1..).map(ChainId).zip(networks.iter().cloned()).collect();
        standing.found(store, (0, queue), networks);
        standing
    }

    #[test]
    fn service_is_ready_with_one_working_network_and_degraded_with_one_failing() {
        let told = |standing: &Standing| (standing.is_ready(), standing.is_degraded());
        assert_eq!(told(&Standing::default()), (false, false), "before the first look");
        assert_eq!(told(&standing(true, true, &[well(), well()])), (true, false));
        let flaws = [
            NetworkStanding { node: false, ..well() },
            NetworkStanding { coin: false, ..well() },
            NetworkStanding { blocks_come: false, ..well() },
        ];
        for flaw in flaws {
            assert_eq!(told(&standing(true, true, &[well(), flaw.clone()])), (true, true));
            assert_eq!(told(&standing(true, true, &[flaw])), (false, true));
        }
        assert_eq!(told(&standing(false, true, &[well()])), (false, true));
        assert_eq!(told(&standing(true, false, &[well()])), (false, true));
    }
}
