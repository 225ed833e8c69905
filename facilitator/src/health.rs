//! The state of the service, as `/health`, `/readyz` and `status` report it. A task probes nodes and signers every few
//! seconds, so a request only copies the last result. Only `/readyz` asks whether the store accepts writes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_chain::chain_clock::is_wrong;
use bursar_core::networks::ChainId;
use serde_json::{Map, Value, json};

/// The state of one network at the last probe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkHealth {
    /// Whether a node answers.
    pub node_answers: bool,
    /// The newest block.
    pub block: u64,
    /// Whether new blocks arrive.
    ///
    /// While no payment is open, it is true on every reachable network.
    pub blocks_advance: bool,
    /// Whether a signer has enough coin for a payment.
    pub has_coin: bool,
    /// Whether a signer accepts payments.
    ///
    /// It is false if all signers are paused. A signer is paused if another program uses its key, or if 256 of its
    /// transactions are open because no node reports which ones are final.
    pub has_free_signer: bool,
    /// Whether nodes report which transactions are final.
    ///
    /// If they do not, payments are settled, but their records stay open.
    pub is_finality_known: bool,
    /// The balance of each signer, in wei.
    pub signers: BTreeMap<Address, U256>,
    /// Gas paid today (UTC), in wei.
    pub spent_today: U256,
}

impl NetworkHealth {
    fn serves(&self) -> bool {
        self.node_answers && self.has_coin && self.blocks_advance && self.has_free_signer
    }
}

/// The state of the service at the last probe.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Snapshot {
    /// Whether a probe has completed.
    is_known: bool,
    /// Whether the store accepted the last write.
    store_accepts_writes: bool,
    /// Whether there is room for more payments.
    has_room: bool,
    open_payments: usize,
    networks: BTreeMap<ChainId, NetworkHealth>,
    /// By how many milliseconds this machine's clock is ahead of the newest block of a network.
    clocks: BTreeMap<ChainId, i64>,
}

impl Snapshot {
    fn serves(&self, chain: ChainId, health: &NetworkHealth) -> bool {
        health.serves() && !self.clocks.get(&chain).copied().is_some_and(is_wrong)
    }
}

/// The result of the last probe.
#[derive(Debug)]
pub struct ServiceHealth(Mutex<Snapshot>);

impl Default for ServiceHealth {
    fn default() -> Self {
        Self(Mutex::new(Snapshot {
            is_known: false,
            // The store was opened for writing, so it counts as writable.
            store_accepts_writes: true,
            has_room: false,
            open_payments: 0,
            networks: BTreeMap::new(),
            clocks: BTreeMap::new(),
        }))
    }
}

impl ServiceHealth {
    /// Stores the result of a probe.
    ///
    /// `open` is the number of open payments, and `has_room` whether more are accepted.
    pub fn update(&self, open: usize, has_room: bool, networks: BTreeMap<ChainId, NetworkHealth>) {
        let mut snapshot = self.snapshot();
        (snapshot.is_known, snapshot.open_payments, snapshot.has_room) = (true, open, has_room);
        snapshot.networks = networks;
    }

    /// Stores whether the store accepted the last write, for the next report.
    pub fn set_store(&self, accepts_writes: bool) {
        self.snapshot().store_accepts_writes = accepts_writes;
    }

    /// Stores by how many milliseconds this machine's clock is ahead of a network's newest block.
    ///
    /// `None` means that the difference is not known.
    pub fn set_clock(&self, chain: ChainId, ahead_ms: Option<i64>) {
        let mut snapshot = self.snapshot();
        match ahead_ms {
            Some(ahead_ms) => snapshot.clocks.insert(chain, ahead_ms),
            None => snapshot.clocks.remove(&chain),
        };
    }

    /// By how many milliseconds this machine's clock is ahead of a network's newest block, if that is known.
    pub fn clock_ahead_ms(&self, chain: ChainId) -> Option<i64> {
        self.snapshot().clocks.get(&chain).copied()
    }

    /// Whether a check fails; `false` before the first probe.
    pub fn is_degraded(&self) -> bool {
        let snapshot = self.snapshot();
        let all = snapshot.networks.iter().all(|(chain, health)| snapshot.serves(*chain, health));
        snapshot.is_known && !(snapshot.store_accepts_writes && snapshot.has_room && all)
    }

    /// Whether payments can be settled on at least one network.
    pub fn is_ready(&self) -> bool {
        let snapshot = self.snapshot();
        let any = snapshot.networks.iter().any(|(chain, health)| snapshot.serves(*chain, health));
        snapshot.is_known && snapshot.store_accepts_writes && snapshot.has_room && any
    }

    /// The checks behind [`ServiceHealth::is_ready`], as JSON.
    pub fn checks(&self) -> Value {
        let snapshot = self.snapshot();
        let network = |(chain, health): (&ChainId, &NetworkHealth)| {
            let ahead_ms = snapshot.clocks.get(chain).copied();
            let checks = json!({
                "node": health.node_answers, "newestBlock": health.block,
                "blocksCome": health.blocks_advance, "nativeCoin": health.has_coin,
                "clock": !ahead_ms.is_some_and(is_wrong),
                "clockAheadSeconds": ahead_ms.map(|ms| ms / 1_000),
                "freeSigner": health.has_free_signer, "finality": health.is_finality_known,
            });
            (format!("eip155:{chain}"), checks)
        };
        let networks: Map<String, Value> = snapshot.networks.iter().map(network).collect();
        json!({ "store": snapshot.store_accepts_writes, "queue": snapshot.has_room, "networks": networks })
    }

    /// The checks, with values for the operator alone: open payments, balances and the gas spent today.
    pub fn report(&self) -> Value {
        let mut report = self.checks();
        let snapshot = self.snapshot();
        report["openPayments"] = json!(snapshot.open_payments);
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
        NetworkHealth {
            node_answers: true,
            blocks_advance: true,
            has_coin: true,
            has_free_signer: true,
            ..NetworkHealth::default()
        }
    }

    fn health(store: bool, queue: bool, networks: &[NetworkHealth]) -> ServiceHealth {
        let health = ServiceHealth::default();
        let networks = (1..).map(ChainId).zip(networks.iter().cloned()).collect();
        health.set_store(store);
        health.update(0, queue, networks);
        health
    }

    #[test]
    fn service_is_ready_with_one_working_network_and_degraded_with_one_failing() {
        let checks = |health: &ServiceHealth| (health.is_ready(), health.is_degraded());
        assert_eq!(checks(&ServiceHealth::default()), (false, false), "before the first probe");
        assert_eq!(checks(&health(true, true, &[healthy(), healthy()])), (true, false));
        let flaws = [
            NetworkHealth { node_answers: false, ..healthy() },
            NetworkHealth { has_coin: false, ..healthy() },
            NetworkHealth { blocks_advance: false, ..healthy() },
            NetworkHealth { has_free_signer: false, ..healthy() },
        ];
        for flaw in flaws {
            assert_eq!(checks(&health(true, true, &[healthy(), flaw.clone()])), (true, true));
            assert_eq!(checks(&health(true, true, &[flaw])), (false, true));
        }
        assert_eq!(checks(&health(false, true, &[healthy()])), (false, true));
        assert_eq!(checks(&health(true, false, &[healthy()])), (false, true));
    }

    #[test]
    fn a_wrong_clock_is_reported_and_a_network_that_shows_it_does_not_count() {
        let health = health(true, true, &[healthy()]);
        for (ahead_ms, ready) in
            [(600_000, true), (-600_000, true), (600_001, false), (-600_001, false)]
        {
            health.set_clock(ChainId(1), Some(ahead_ms));
            assert_eq!((health.is_ready(), health.is_degraded()), (ready, !ready), "{ahead_ms}");
            let checks = &health.checks()["networks"]["eip155:1"];
            assert_eq!(checks["clock"], ready);
            assert_eq!(checks["clockAheadSeconds"], ahead_ms / 1_000);
        }
        health.set_clock(ChainId(1), None);
        assert!(health.is_ready(), "an idle chain proves nothing");
        assert_eq!(health.checks()["networks"]["eip155:1"]["clockAheadSeconds"], Value::Null);
    }
}
