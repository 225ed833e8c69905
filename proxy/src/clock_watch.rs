//! Compares this machine's clock with the newest block of each network that has a node, or with the facilitator's clock
//! if no network has one. This machine's clock decides which payments still last long enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::chain_clock::{self, is_wrong};
use bursar_chain::ports::Clock;
use bursar_core::limits::CHAIN_TIME_INTERVAL_MS;
use bursar_core::networks::Network;
use bursar_serve::wait::pause;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::facilitator::Facilitator;
use crate::node::Nodes;
use crate::sell::{Seller, SellerDeps};

/// Interval of comparisons while the clock is wrong. It is short, so that a correction is noticed soon.
const WRONG_CLOCK_INTERVAL_MS: u64 = 30_000;

/// By how many milliseconds our clock is ahead of each of the other clocks.
///
/// The key is the CAIP-2 id of a network, or `facilitator`. The value is `None` if it is unknown: there was no answer,
/// or the chain is idle.
pub type ClockComparison = BTreeMap<String, Option<i64>>;

/// Compares our clock with those of the networks, or of the facilitator if no node is set.
///
/// Takes some seconds longer if the newest block of a network seems old.
pub async fn compare(
    nodes: &Nodes,
    facilitator: &Facilitator,
    networks: &[&'static Network],
    clock: &dyn Clock,
) -> ClockComparison {
    let with_nodes = networks.iter().filter_map(|row| Some((row.caip2(), nodes.of(row.chain)?)));
    let each = with_nodes.map(|(name, chain)| async move {
        (name, chain_clock::clock_lead_ms(chain, clock).await.unwrap_or_default())
    });
    let comparison: ClockComparison = futures::future::join_all(each).await.into_iter().collect();
    if comparison.is_empty() {
        return BTreeMap::from([("facilitator".to_owned(), facilitator.clock_ahead_ms().await)]);
    }
    comparison
}

/// The last comparison.
#[derive(Debug, Default)]
pub struct ClockReport(Mutex<ClockComparison>);

impl ClockReport {
    /// Stores a comparison.
    pub fn set(&self, comparison: ClockComparison) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = comparison;
    }

    /// Whether the clock may be right: it agrees with at least one other clock, or it could not be compared with any.
    pub fn is_ready(&self) -> bool {
        let last = self.last();
        let mut known = last.values().flatten().peekable();
        known.peek().is_none() || known.any(|ahead_ms| !is_wrong(*ahead_ms))
    }

    /// Returns the comparison as JSON.
    pub fn checks(&self) -> Value {
        let check = |(name, ahead_ms): (String, Option<i64>)| {
            let seconds = ahead_ms.map(|ms| ms / 1_000);
            let right = !ahead_ms.is_some_and(is_wrong);
            (name, json!({ "clock": right, "clockAheadSeconds": seconds }))
        };
        Value::Object(self.last().into_iter().map(check).collect::<Map<_, _>>())
    }

    fn last(&self) -> ClockComparison {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The clocks to compare, and where to store the result.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    pub(crate) seller: Seller,
    pub(crate) networks: Vec<&'static Network>,
    pub(crate) report: Arc<ClockReport>,
}

impl ClockWatch {
    /// Compares at the start and every ten minutes, until the service stops.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let mut was_wrong = false;
        loop {
            let Self { seller, networks, report } = &self;
            let SellerDeps { nodes, facilitator, clock, .. } = seller.deps();
            // cancel-safe: a comparison changes nothing but the report.
            let comparison = tokio::select! {
                () = stopping.cancelled() => return,
                comparison = compare(nodes, facilitator, networks, &**clock) => comparison,
            };
            report.set(comparison);
            let wrong = !report.is_ready();
            if wrong && !was_wrong {
                tracing::error!(
                    clocks = %report.checks(),
                    "this machine's clock is wrong: set it, because payments are judged by it"
                );
            } else if was_wrong && !wrong {
                tracing::info!("this machine's clock is right again");
            }
            was_wrong = wrong;
            let pause_ms = if wrong { WRONG_CLOCK_INTERVAL_MS } else { CHAIN_TIME_INTERVAL_MS };
            if !pause(&**clock, pause_ms, &stopping).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::limits::CLOCK_OFF_CHAIN_MS_MAX;

    use super::*;

    #[test]
    fn a_clock_is_wrong_if_no_other_one_agrees() {
        const WRONG_CLOCK_LEAD_MS: i64 = CLOCK_OFF_CHAIN_MS_MAX + 1;
        let report = |all: &[Option<i64>]| {
            let report = ClockReport::default();
            report.set(all.iter().enumerate().map(|(n, ms)| (n.to_string(), *ms)).collect());
            report
        };
        for (all, ready) in [
            (&[][..], true),
            (&[None], true),
            (&[Some(CLOCK_OFF_CHAIN_MS_MAX)], true),
            (&[Some(WRONG_CLOCK_LEAD_MS)], false),
            (&[Some(-WRONG_CLOCK_LEAD_MS)], false),
            (&[Some(WRONG_CLOCK_LEAD_MS), None], false),
            // A single node may be behind or return a wrong time.
            (&[Some(WRONG_CLOCK_LEAD_MS), Some(0)], true),
        ] {
            assert_eq!(report(all).is_ready(), ready, "{all:?}");
        }
        let checks = report(&[Some(-WRONG_CLOCK_LEAD_MS), None]).checks();
        assert_eq!(checks["0"], json!({ "clock": false, "clockAheadSeconds": -600 }));
        assert_eq!(checks["1"], json!({ "clock": true, "clockAheadSeconds": null }));
    }
}
