//! The state of the service, as `/health`, `/readyz` and `status` report it. A task probes it every few seconds, so a
//! request only copies the last result.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use serde_json::{Map, Value, json};

/// The state of one network at the last probe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkHealth {
    /// Whether a node answers.
    pub node: bool,
    /// The newest block.
    pub block: u64,
    /// Whether new blocks arrive. Always true on a reachable network while no payment is open.
    pub blocks_advance: bool,
    /// Whether a signer can pay for a payment.
    pub coin: bool,
    /// The balance of each signer, in wei.
    pub signers: BTreeMap<Address, U256>,
    /// Gas paid today (UTC), in wei.
    pub spent_today: U256,
}

impl NetworkHealth {
    fn serves(&self) -> bool {
        self.node && self.coin && self.blocks_advance
    }
}

/// The state of the service at the last probe. `store` is `None` before the first one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Snapshot {
    store: Option<bool>,
    /// Whether there is room for more payments.
    has_room: bool,
    open: usize,
    networks: BTreeMap<ChainId, NetworkHealth>,
}

/// The result of the last probe.
#[derive(Debug, Default)]
pub struct ServiceHealth(Mutex<Snapshot>);

impl ServiceHealth {
    /// Stores the result of a probe. `open` is the number of open payments, `has_room` whether more are accepted.
    pub fn update(
        &self,
        store: bool,
        (open, has_room): (usize, bool),
        networks: BTreeMap<ChainId, NetworkHealth>,
    ) {
        *self.snapshot() = Snapshot { store: Some(store), has_room, open, networks };
    }

    /// Whether a check fails. `false` before the first probe.
    pub fn is_degraded(&self) -> bool {
        let snapshot = self.snapshot();
        let all = snapshot.networks.values().all(NetworkHealth::serves);
        snapshot.store.is_some_and(|store| !store || !snapshot.has_room || !all)
    }

    /// Whether payments can be settled on at least one network.
    pub fn is_ready(&self) -> bool {
        let snapshot = self.snapshot();
        let any = snapshot.networks.values().any(NetworkHealth::serves);
        snapshot.store == Some(true) && snapshot.has_room && any
    }

    /// The checks behind [`ServiceHealth::is_ready`], as JSON.
    pub fn checks(&self) -> Value {
        let snapshot = self.snapshot();
        let network = |(chain, health): (&ChainId, &NetworkHealth)| {
            let checks = json!({
                "node": health.node, "newestBlock": health.block,
                "blocksCome": health.blocks_advance, "nativeCoin": health.coin,
            });
            (format!("eip155:{chain}"), checks)
        };
        let networks: Map<String, Value> = snapshot.networks.iter().map(network).collect();
        json!({ "store": snapshot.store == Some(true), "queue": snapshot.has_room, "networks": networks })
    }

    /// The checks, with values for the operator alone: open payments, balances and the gas spent today.
    pub fn report(&self) -> Value {
        let mut report = self.checks();
        let snapshot = self.snapshot();
        report["openPayments"] = json!(snapshot.open);
        for (chain, health) in &snapshot.networks {
            let signers: Map<String, Value> = health
                .signers
                .iter()
                .map(|(signer, wei)| (signer.to_string(), json!(wei.to_string())))
                .collect();
            let network = &mut report["networks"][format!("eip155:{chain}")];
            network["signersWei"] = Value::Object(signers);
            network["gasSpentTodayWei"] = json!(health.spent_today.to_string());
        }
        report
    }

    fn snapshot(&self) -> std::sync::MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> NetworkHealth {
        NetworkHealth { node: true, blocks_advance: true, coin: true, ..NetworkHealth::default() }
    }

    fn health(store: bool, queue: bool, networks: &[NetworkHealth]) -> ServiceHealth {
        let health = ServiceHealth::default();
        let networks = (1..).map(ChainId).zip(networks.iter().cloned()).collect();
        health.update(store, (0, queue), networks);
        health
    }

    #[test]
    fn service_is_ready_with_one_working_network_and_degraded_with_one_failing() {
        let checks = |health: &ServiceHealth| (health.is_ready(), health.is_degraded());
        assert_eq!(checks(&ServiceHealth::default()), (false, false), "before the first probe");
        assert_eq!(checks(&health(true, true, &[healthy(), healthy()])), (true, false));
        let flaws = [
            NetworkHealth { node: false, ..healthy() },
            NetworkHealth { coin: false, ..healthy() },
            NetworkHealth { blocks_advance: false, ..healthy() },
        ];
        for flaw in flaws {
            assert_eq!(checks(&health(true, true, &[healthy(), flaw.clone()])), (true, true));
            assert_eq!(checks(&health(true, true, &[flaw])), (false, true));
        }
        assert_eq!(checks(&health(false, true, &[healthy()])), (false, true));
        assert_eq!(checks(&health(true, false, &[healthy()])), (false, true));
    }
}
