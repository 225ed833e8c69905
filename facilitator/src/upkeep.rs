//! What is done now and then: looks at balances and at what waits, and forgets what is old.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::time::Utc;
use tokio_util::sync::CancellationToken;

use crate::book::ledger::Ledger;
use crate::book::store::Payments;
use crate::metrics::{Metrics, OfNetwork, OfSigner, coins};
use crate::settle::dispatch::Settler;

/// How often it looks.
const LOOK_MS: u64 = 5_000;
/// How often it looks at balances, and forgets.
const BALANCES_EVERY: u64 = 6;
/// Records that are forgotten at a time: the writer is not held up for long.
const FORGET_MAX: usize = 1_000;
/// How often so many are forgotten at each look.
const FORGET_TIMES: usize = 20;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) settlers: Vec<Arc<Settler>>,
    pub(crate) ledger: Ledger,
    pub(crate) payments: Arc<dyn Payments>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    /// 0: for ever.
    pub(crate) retention_days: u32,
}

impl Upkeep {
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let mut looks: u64 = 0;
        loop {
            self.look();
            if looks.is_multiple_of(BALANCES_EVERY) {
                // cancel-safe: nothing of it is half done.
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = self.balances() => {}
                }
                self.forget().await;
            }
            looks = looks.wrapping_add(1);
            let wake = self.clock.mono_ms().saturating_add(LOOK_MS);
            // cancel-safe: both only wait.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.clock.sleep_until(wake) => {}
            }
        }
    }

    fn look(&self) {
        let now = self.clock.now().utc;
        let (open, oldest) = self.ledger.waiting();
        self.metrics.open.set(i64::try_from(open).unwrap_or(i64::MAX));
        self.metrics.oldest_queued.set(oldest.map_or(0.0, |then| seconds(now, then)));
        for settler in &self.settlers {
            for (signer, teller) in &settler.tellers {
                let desk = teller.desk.desk();
                let unmined = desk.open.values().filter(|one| one.newest().is_some());
                let waits =
                    unmined.filter(|one| matches!(one.place, bursar_submit::Place::Waiting));
                let oldest = waits.filter_map(|one| Some(one.attempts.first()?.at)).min();
                let age = oldest.map_or(0.0, |then| seconds(now, then));
                self.metrics.oldest_unmined.get_or_create(&of(settler, *signer)).set(age);
            }
        }
    }

    async fn balances(&self) {
        for settler in &self.settlers {
            let looked = settler.look_up_price().await;
            let up = looked.is_ok();
            match looked {
                Ok(price) => {
                    for (signer, wei) in &price.balances {
                        let label = of(settler, *signer);
                        let low = *wei < settler.served.config.min_signer_balance;
                        self.metrics.balance.get_or_create(&label).set(coins(*wei));
                        self.metrics.balance_low.get_or_create(&label).set(i64::from(low));
                        if low {
                            tracing::warn!(%signer, network = %label.network, "a signer is short of coin");
                        }
                    }
                }
                Err(fault) => tracing::warn!(%fault, "what signers have is not known"),
            }
            let network = settler.served.row().caip2();
            self.metrics.node_up.get_or_create(&OfNetwork { network }).set(i64::from(up));
        }
    }

    async fn forget(&self) {
        if self.retention_days == 0 {
            return;
        }
        let kept_ms = i64::from(self.retention_days).saturating_mul(DAY_MS);
        let before = self.clock.now().utc.plus_ms(kept_ms.saturating_neg());
        for _some in 0..FORGET_TIMES {
            match self.payments.prune(before, FORGET_MAX).await {
                Ok(0) => return,
                Ok(count) => tracing::info!(count, "old payments were forgotten"),
                Err(fault) => {
                    tracing::warn!(%fault, "old payments could not be forgotten");
                    return;
                }
            }
        }
    }
}

fn of(settler: &Settler, signer: alloy_primitives::Address) -> OfSigner {
    OfSigner { network: settler.served.row().caip2(), signer: signer.to_string() }
}

#[expect(clippy::float_arithmetic, reason = "seconds for looking at, no money")]
fn seconds(now: Utc, then: Utc) -> f64 {
    let ms = u32::try_from(now.since_ms(then).max(0)).unwrap_or(u32::MAX);
    f64::from(ms) / 1_000.0
}
