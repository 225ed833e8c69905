//! The time according to the chains. This machine's clock decides the validity of payments, so while it differs too
//! much from a chain, payments, trades and loans need approval. A chain is probed only while agents use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::{BoxFuture, Chain, Clock};
use bursar_core::limits::{
    CHAIN_IDLE_AFTER_MS, CHAIN_TIME_INTERVAL_MS, CHAIN_TIME_VALID_MS, CLOCK_OFF_CHAIN_WARN_MS,
};
use bursar_core::networks::ChainId;
use bursar_core::time::{LocalDay, Moment, Utc};

/// The machine's clock, with the chains' time added as [`Moment::chain_hint`].
#[derive(Debug, Clone)]
pub struct HintedClock {
    machine: Arc<dyn Clock>,
    // A mutex instead of an owning task: every reading of the clock takes it, and it is never held across an
    // await.
    chains: Arc<Mutex<BTreeMap<ChainId, Probe>>>,
}

/// The latest probe of one chain.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// The time of the probe, on the clock of [`Moment::age_clock_ms`].
    probed_at_ms: u64,
    /// The time of the newest block, and when we saw it, on the clock of [`Moment::age_clock_ms`].
    block: Option<(Utc, u64)>,
}

impl HintedClock {
    /// Creates the clock; no chain has been probed yet.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, chains: Arc::default() }
    }

    /// Whether `chain` is due for a probe.
    ///
    /// After `true` the caller must call [`HintedClock::probe`]; other callers receive `false`.
    pub fn is_due(&self, chain: ChainId, now: &Moment) -> bool {
        let now_ms = now.age_clock_ms();
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let known = chains.get(&chain);
        let due = known.is_none_or(|probe| {
            now_ms.saturating_sub(probe.probed_at_ms) >= CHAIN_TIME_INTERVAL_MS
        });
        if due {
            let block = known.and_then(|probe| probe.block);
            chains.insert(chain, Probe { probed_at_ms: now_ms, block });
        }
        due
    }

    fn store_probe(&self, chain: ChainId, block: Option<(Utc, u64)>) {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(probe) = chains.get_mut(&chain) {
            probe.block = block;
        }
    }

    /// Probes the time of the newest block.
    ///
    /// An old block may only mean an idle chain. So a block counts against our clock only if it lies in our
    /// future, or if another block follows it.
    pub async fn probe(&self, chain: ChainId, node: &dyn Chain) {
        let Ok(first) = node.block_time().await else { return };
        let now = self.machine.now();
        let apart = now.utc.since_ms(first);
        if apart.abs() <= CLOCK_OFF_CHAIN_WARN_MS {
            return self.store_probe(chain, Some((first, now.age_clock_ms())));
        }
        self.machine.sleep_until(now.mono_ms.saturating_add(CHAIN_IDLE_AFTER_MS)).await;
        let Ok(second) = node.block_time().await else { return };
        let awake = second > first || apart < 0;
        let block_and_age = awake.then(|| (second, self.machine.now().age_clock_ms()));
        if block_and_age.is_some() {
            tracing::warn!(
                network = %chain,
                seconds = apart / 1000,
                "this machine's clock differs from the chain's"
            );
        }
        self.store_probe(chain, block_and_age);
    }

    /// Returns the newest chain time, extrapolated to now; `None` if no probe found a usable block recently.
    fn hint(&self, now_ms: u64) -> Option<Utc> {
        let chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = chains.values().filter_map(|probe| probe.block);
        let lately = blocks.filter_map(|(block, seen_ms)| {
            let since = now_ms.saturating_sub(seen_ms);
            (since <= CHAIN_TIME_VALID_MS)
                .then(|| block.plus_ms(i64::try_from(since).unwrap_or(i64::MAX)))
        });
        lately.max()
    }
}

impl Clock for HintedClock {
    fn now(&self) -> Moment {
        let moment = self.machine.now();
        Moment { chain_hint: self.hint(moment.age_clock_ms()), ..moment }
    }

    fn mono_ms(&self) -> u64 {
        self.machine.mono_ms()
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        self.machine.midnight(earliest, day)
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        self.machine.sleep_until(mono_ms)
    }
}
