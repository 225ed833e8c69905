//! Periodic work: probes nodes, balances and the queue, and deletes old records. Writes nothing while the service is
//! idle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use bursar_chain::ports::Clock;
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_serve::wait::pause;
use tokio_util::sync::CancellationToken;

use crate::book::ledger::Ledger;
use crate::book::reservation::GasReservation;
use crate::book::store::PaymentStore;
use crate::health::{NetworkHealth, ServiceHealth};
use crate::metrics::{Metrics, NetworkLabel, SignerLabels, coins};
use crate::schemes;
use crate::settle::intake::OPEN_PAYMENTS_MAX;
use crate::settle::price::SignerNeed;
use crate::settle::settler::Settler;
use crate::store_probe::StoreProbe;

/// Time between probes, in milliseconds.
const PROBE_INTERVAL_MS: u64 = 5_000;
/// Old records are deleted once per this many probes.
const PROBES_PER_PRUNE: u64 = 6;
/// A network counts as stalled if it has no new block for this many milliseconds while any payment is open.
const STALLED_NETWORK_MS: u64 = 120_000;
/// Maximum number of records per deletion, so that the writer is not blocked for long.
const PRUNED_RECORDS_MAX: usize = 1_000;
/// Maximum number of deletions in a row.
const PRUNES_IN_A_ROW_MAX: usize = 20;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A problem that can last. It is logged when it begins and when it ends, not at each probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    NoNode(ChainId),
    LowBalance(ChainId, Address),
}

#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) store: Arc<StoreProbe>,
    pub(crate) settlers: Vec<Arc<Settler>>,
    pub(crate) ledger: Ledger,
    pub(crate) payments: Arc<dyn PaymentStore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<ServiceHealth>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long records are kept, in days; 0 keeps them forever.
    pub(crate) retention_days: u32,
}

/// The newest block of each network, and the monotonic time in milliseconds of the probe that first saw it. While no
/// payment is open, each probe renews the time.
type Blocks = BTreeMap<ChainId, (u64, u64)>;

/// The state that one probe keeps for the next one.
#[derive(Debug, Default)]
struct ProbeState {
    blocks: Blocks,
    troubles: BTreeSet<Trouble>,
}

impl ProbeState {
    /// Records whether a problem exists. Returns whether that has changed.
    fn set_trouble(&mut self, trouble: Trouble, exists: bool) -> bool {
        if exists { self.troubles.insert(trouble) } else { self.troubles.remove(&trouble) }
    }
}

impl Upkeep {
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let mut probes: u64 = 0;
        let mut seen = ProbeState::default();
        loop {
            // cancel-safe: after an interrupted probe, the report of the previous one remains.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.probe(&mut seen) => {}
            }
            if probes.is_multiple_of(PROBES_PER_PRUNE) {
                self.prune().await;
            }
            probes = probes.wrapping_add(1);
            if !pause(&*self.clock, PROBE_INTERVAL_MS, &stopping).await {
                return;
            }
        }
    }

    async fn probe(&self, seen: &mut ProbeState) {
        let now = self.clock.utc();
        let (open, oldest) = self.ledger.backlog();
        self.metrics.open.set(i64::try_from(open).unwrap_or(i64::MAX));
        self.metrics.oldest_queued.set(oldest.map_or(0.0, |then| seconds(now, then)));
        let mut networks = BTreeMap::new();
        for settler in &self.settlers {
            self.probe_outboxes(settler, now);
            let chain = settler.network.contracts.chain;
            networks.insert(chain, self.probe_network(settler, seen, open > 0).await);
        }
        self.store.note_commits().await;
        self.health.update(open, open < OPEN_PAYMENTS_MAX, networks);
    }

    fn probe_outboxes(&self, settler: &Settler, now: Utc) {
        for (signer, slot) in &settler.signer_slots {
            let outbox = slot.outbox.outbox();
            let unmined = outbox.open.values().filter(|one| one.newest().is_some());
            let waiting =
                unmined.filter(|one| matches!(one.chain_state, bursar_submit::ChainState::Pending));
            let oldest = waiting.filter_map(|one| Some(one.attempts.first()?.at)).min();
            let age = oldest.map_or(0.0, |then| seconds(now, then));
            let labels = signer_labels(settler, *signer);
            self.metrics.oldest_unmined.get_or_create(&labels).set(age);
            let unfinished = i64::try_from(outbox.open.len()).unwrap_or(i64::MAX);
            self.metrics.unfinished.get_or_create(&labels).set(unfinished);
            let is_unknown = slot.outbox.is_finality_unknown();
            self.metrics.finality_unknown.get_or_create(&labels).set(i64::from(is_unknown));
        }
    }

    async fn probe_network(
        &self,
        settler: &Settler,
        seen: &mut ProbeState,
        is_waiting: bool,
    ) -> NetworkHealth {
        let result = settler.look_up_price().await;
        let network = settler.network.table_row().caip2();
        self.metrics
            .node_up
            .get_or_create(&NetworkLabel { network })
            .set(i64::from(result.is_ok()));
        let chain = settler.network.contracts.chain;
        let usage = self.ledger.gas_usage(chain, B256::ZERO, self.clock.utc());
        let mut slots = settler.signer_slots.values();
        let mut health = NetworkHealth {
            spent_today: usage.spent_total,
            is_finality_known: !slots.any(|slot| slot.outbox.is_finality_unknown()),
            ..NetworkHealth::default()
        };
        let price = match result {
            Ok(price) => price,
            Err(fault) => {
                if seen.set_trouble(Trouble::NoNode(chain), true) {
                    tracing::warn!(%fault, "could not read the gas price or the signers' balances");
                }
                return health;
            }
        };
        if seen.set_trouble(Trouble::NoNode(chain), false) {
            let network = settler.network.table_row().caip2();
            tracing::info!(%network, "the gas price and the signers' balances can be read again");
        }
        for (signer, wei) in &price.balances {
            let label = signer_labels(settler, *signer);
            let low = *wei < settler.network.config.min_signer_balance;
            self.metrics.balance.get_or_create(&label).set(coins(*wei));
            self.metrics.balance_low.get_or_create(&label).set(i64::from(low));
            if seen.set_trouble(Trouble::LowBalance(chain, *signer), low) && low {
                tracing::warn!(
                    %signer, network = %label.network,
                    "a signer's balance is below min_signer_balance: fund it"
                );
            }
        }
        let mono_ms = self.clock.mono_ms();
        let (block, since_ms) = seen.blocks.entry(chain).or_insert((price.block, mono_ms));
        if *block != price.block || !is_waiting {
            (*block, *since_ms) = (price.block, mono_ms);
        }
        schemes::look_for_contracts(&settler.network).await;
        health.node_answers = true;
        health.block = price.block;
        health.blocks_advance = mono_ms.saturating_sub(*since_ms) < STALLED_NETWORK_MS;
        health.has_free_signer = settler.has_free_signer();
        health.has_coin = price.can_pay(&SignerNeed::MIN, GasReservation::default());
        health.signers = price.balances.clone();
        health
    }

    async fn prune(&self) {
        if self.retention_days == 0 {
            return;
        }
        let kept_ms = i64::from(self.retention_days).saturating_mul(DAY_MS);
        let before = self.clock.utc().plus_ms(kept_ms.saturating_neg());
        for _some in 0..PRUNES_IN_A_ROW_MAX {
            match self.payments.prune(before, PRUNED_RECORDS_MAX).await {
                Ok(0) => return,
                Ok(count) => tracing::info!(count, "deleted old payments"),
                Err(fault) => {
                    tracing::warn!(%fault, "could not delete old payments");
                    return;
                }
            }
        }
    }
}

fn signer_labels(settler: &Settler, signer: Address) -> SignerLabels {
    SignerLabels { network: settler.network.table_row().caip2(), signer: signer.to_string() }
}

#[expect(clippy::float_arithmetic, reason = "seconds for display, not money")]
fn seconds(now: Utc, then: Utc) -> f64 {
    let ms = u32::try_from(now.since_ms(then).max(0)).unwrap_or(u32::MAX);
    f64::from(ms) / 1_000.0
}
