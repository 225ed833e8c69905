//! Compares this machine's clock with the newest block of each network. The clock decides which authorizations are
//! valid.

use std::sync::Arc;

use bursar_chain::chain_clock::{clock_lead_ms, is_wrong};
use bursar_chain::ports::Clock;
use bursar_core::limits::CHAIN_TIME_INTERVAL_MS;
use bursar_serve::wait::pause;
use tokio_util::sync::CancellationToken;

use crate::health::ServiceHealth;
use crate::network::NetworkContext;

/// Interval of comparisons while a clock is wrong. It is short, so that a correction is noticed soon.
const WRONG_CLOCK_INTERVAL_MS: u64 = 30_000;

#[derive(Debug)]
pub(crate) struct ClockWatch {
    pub(crate) networks: Vec<Arc<NetworkContext>>,
    pub(crate) health: Arc<ServiceHealth>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ClockWatch {
    pub(crate) async fn run(self, stopping: CancellationToken) {
        loop {
            // cancel-safe: a comparison changes nothing but the report.
            let any_wrong = tokio::select! {
                () = stopping.cancelled() => return,
                any_wrong = self.compare() => any_wrong,
            };
            let pause_ms = if any_wrong { WRONG_CLOCK_INTERVAL_MS } else { CHAIN_TIME_INTERVAL_MS };
            if !pause(&*self.clock, pause_ms, &stopping).await {
                return;
            }
        }
    }

    /// Compares the clock with all networks. Returns whether the newest block of any network shows that it is wrong.
    async fn compare(&self) -> bool {
        let each = self.networks.iter().map(|network| self.compare_with(network));
        futures::future::join_all(each).await.contains(&true)
    }

    async fn compare_with(&self, network: &NetworkContext) -> bool {
        let chain = network.contracts.chain;
        // The probe reports a node that is down, and an idle chain proves nothing about the clock.
        let ahead_ms = clock_lead_ms(&*network.chain, &*self.clock).await.unwrap_or_default();
        let was_wrong = self.health.clock_ahead_ms(chain).is_some_and(is_wrong);
        self.health.set_clock(chain, ahead_ms);
        let wrong = ahead_ms.is_some_and(is_wrong);
        let seconds_ahead = ahead_ms.unwrap_or_default() / 1_000;
        if wrong && !was_wrong {
            tracing::error!(
                network = %network.table_row().caip2(), seconds_ahead,
                "this machine's clock differs from the newest block: set it, because payments are judged by it"
            );
        } else if was_wrong && !wrong {
            tracing::info!(network = %network.table_row().caip2(), "this machine's clock is right again");
        }
        wrong
    }
}
