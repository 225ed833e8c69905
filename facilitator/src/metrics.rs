//! The Prometheus metrics. Times are in seconds.

use std::sync::atomic::{AtomicI64, AtomicU64};

use alloy_primitives::{Address, U256};
use bursar_core::networks::Network;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the duration buckets, in seconds: from answers that need no node to answers that wait for a block.
const DURATION_BUCKETS_S: [f64; 12] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values as they are written")]
pub enum Route {
    verify,
    settle,
}

/// The labels of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabels {
    pub route: Route,
    /// `good`, `malformed`, or the reason code.
    pub result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: Route,
}

/// The labels of a signer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SignerLabels {
    /// The CAIP-2 id.
    pub network: String,
    pub signer: String,
}

/// The label of a network.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NetworkLabel {
    /// The CAIP-2 id.
    pub network: String,
}

/// All metrics. Counting is cheap, and the periodic probes set the gauges.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    answers: Family<AnswerLabels, Counter>,
    answer_seconds: Family<RouteLabel, Histogram>,
    /// Payments that have not ended.
    pub open: Gauge<i64, AtomicI64>,
    /// How long the oldest queued payment has waited for a transaction.
    pub oldest_queued: Gauge<f64, AtomicU64>,
    /// The balance of each signer in whole coins; rounded, for display only.
    pub balance: Family<SignerLabels, Gauge<f64, AtomicU64>>,
    /// 1 if a signer has less than `min_signer_balance`.
    pub balance_low: Family<SignerLabels, Gauge<i64, AtomicI64>>,
    /// How long the oldest transaction of a signer has waited for a block.
    pub oldest_unmined: Family<SignerLabels, Gauge<f64, AtomicU64>>,
    /// Transactions of a signer that have not ended: not in a block, or in one that is not final yet.
    pub unfinished: Family<SignerLabels, Gauge<i64, AtomicI64>>,
    /// 1 if no node reports which transactions of a signer are final.
    pub finality_unknown: Family<SignerLabels, Gauge<i64, AtomicI64>>,
    /// 1 if a node of the network answered at the last probe.
    pub node_up: Family<NetworkLabel, Gauge<i64, AtomicI64>>,
    gas_spent: Family<NetworkLabel, Counter<f64, AtomicU64>>,
    reorganised: Family<NetworkLabel, Counter>,
    charged_after_refusal: Family<NetworkLabel, Counter>,
    foreign_nonces: Family<SignerLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("facilitator");
        let answers = Family::<AnswerLabels, Counter>::default();
        registry.register("answers", "Responses by route and result", answers.clone());
        let histogram = || Histogram::new(DURATION_BUCKETS_S);
        let seconds = Family::<RouteLabel, Histogram>::new_with_constructor(histogram);
        registry.register("answer_seconds", "Duration of responses", seconds.clone());
        let open = Gauge::default();
        registry.register("open_payments", "Open payments", open.clone());
        let oldest_queued = Gauge::default();
        registry.register(
            "oldest_queued_seconds",
            "Time the oldest payment has waited for a transaction",
            oldest_queued.clone(),
        );
        let balance = Family::default();
        registry.register("signer_balance", "Balance of a signer, in whole coins", balance.clone());
        let balance_low = Family::default();
        registry.register(
            "signer_balance_low",
            "1 if a signer has less than min_signer_balance",
            balance_low.clone(),
        );
        let oldest_unmined = Family::default();
        registry.register(
            "oldest_unmined_seconds",
            "Time the oldest transaction of a signer has waited for a block",
            oldest_unmined.clone(),
        );
        let unfinished = Family::default();
        registry.register(
            "unfinished_transactions",
            "Transactions of a signer that are not final",
            unfinished.clone(),
        );
        let finality_unknown = Family::default();
        registry.register(
            "finality_unknown",
            "1 if no node reports which transactions of a signer are final",
            finality_unknown.clone(),
        );
        let node_up = Family::default();
        registry.register("node_up", "1 if nodes of a network answer", node_up.clone());
        let gas_spent = Family::default();
        registry.register("gas_spent_coins", "Gas paid, in whole coins", gas_spent.clone());
        let reorganised = Family::default();
        registry.register(
            "reorganised_payments",
            "Settled payments whose block a reorganisation removed",
            reorganised.clone(),
        );
        let charged_after_refusal = Family::default();
        registry.register(
            "charged_after_refusal",
            "Withdrawn payments that were settled after all",
            charged_after_refusal.clone(),
        );
        let foreign_nonces = Family::default();
        registry.register(
            "foreign_nonces",
            "Nonces of a signer that transactions of another program used",
            foreign_nonces.clone(),
        );
        Self {
            registry,
            answers,
            answer_seconds: seconds,
            open,
            oldest_queued,
            balance,
            balance_low,
            oldest_unmined,
            unfinished,
            finality_unknown,
            node_up,
            gas_spent,
            reorganised,
            charged_after_refusal,
            foreign_nonces,
        }
    }
}

impl Metrics {
    /// Counts an answer and its duration in milliseconds.
    #[expect(clippy::float_arithmetic, reason = "seconds for display, not money")]
    pub fn count_answer(&self, route: Route, result: &'static str, took_ms: u64) {
        self.answers.get_or_create(&AnswerLabels { route, result }).inc();
        let seconds = u32::try_from(took_ms).map_or(f64::MAX, f64::from) / 1_000.0;
        self.answer_seconds.get_or_create(&RouteLabel { route }).observe(seconds);
    }

    /// Counts gas that was paid, in wei.
    pub fn count_gas_spent(&self, network: &Network, wei: U256) {
        self.gas_spent.get_or_create(&network_label(network)).inc_by(coins(wei));
    }

    /// Counts a settled payment that a reorganisation undid.
    pub fn count_reorganised(&self, network: &Network) {
        self.reorganised.get_or_create(&network_label(network)).inc();
    }

    /// How many settled payments reorganisations undid since the start.
    pub fn reorganised_count(&self, network: &Network) -> u64 {
        self.reorganised.get_or_create(&network_label(network)).get()
    }

    /// Counts a payment that was settled although it had been withdrawn.
    pub fn count_charged_after_refusal(&self, network: &Network) {
        self.charged_after_refusal.get_or_create(&network_label(network)).inc();
    }

    /// Counts a nonce of a signer that a transaction of another program used.
    pub fn count_foreign_nonce(&self, network: &Network, signer: Address) {
        let labels = SignerLabels { network: network.caip2(), signer: signer.to_string() };
        self.foreign_nonces.get_or_create(&labels).inc();
    }

    /// The metrics as text, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _written = encode(&mut text, &self.registry);
        text
    }
}

fn network_label(network: &Network) -> NetworkLabel {
    NetworkLabel { network: network.caip2() }
}

/// Converts wei to whole coins, for display only.
#[expect(clippy::float_arithmetic, reason = "for display, not money")]
pub fn coins(wei: U256) -> f64 {
    f64::from(wei) / 1e18
}
