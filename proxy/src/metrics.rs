//! Prometheus metrics for the operator. Times are in seconds.

use std::sync::atomic::AtomicI64;

use alloy_primitives::Address;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::book::Usage;

/// Histogram bounds in seconds, from short answers to long ones.
const DURATION_BUCKETS_S: [f64; 12] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    /// For chats: `quoted`, `payment_refused`, `whole`, `streamed`, `replayed`, `refused_upstream`, or a code.
    /// Upstream calls and settlements have their own values.
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MoneyLabels {
    /// CAIP-2 id.
    network: String,
    asset: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    /// Name from the table of models, or `other`, because customers choose all other names.
    model: String,
    kind: &'static str,
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    chats: Family<ResultLabel, Counter>,
    upstream_calls: Family<ResultLabel, Counter>,
    upstream_seconds: Histogram,
    settlements: Family<ResultLabel, Counter>,
    revenue: Family<MoneyLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    /// Streams that broke after their first chunk and are not refunded.
    pub streams_broken: Counter,
    /// Streams whose customer left before the end.
    pub streams_abandoned: Counter,
    /// Delivered answers whose pending settlement failed or expired.
    pub unpaid_answers: Counter,
    /// Payments in progress.
    pub busy: Gauge<i64, AtomicI64>,
    /// Payments whose settlement is pending.
    pub pending: Gauge<i64, AtomicI64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("bursar_proxy");
        let this = Self {
            chats: Family::default(),
            upstream_calls: Family::default(),
            upstream_seconds: Histogram::new(DURATION_BUCKETS_S),
            settlements: Family::default(),
            revenue: Family::default(),
            tokens: Family::default(),
            streams_broken: Counter::default(),
            streams_abandoned: Counter::default(),
            unpaid_answers: Counter::default(),
            busy: Gauge::default(),
            pending: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("chats", "Chat completions by result", this.chats.clone());
        let help = "Requests to the upstream by result";
        registry.register("upstream_calls", help, this.upstream_calls.clone());
        let help =
            "Seconds until the head of a whole answer, or the first event of a stream with content";
        registry.register("upstream_seconds", help, this.upstream_seconds.clone());
        let help = "Settle requests to the facilitator, by outcome";
        registry.register("settlements", help, this.settlements.clone());
        let help = "Settled payments, in the smallest unit of the asset";
        registry.register("revenue_atoms", help, this.revenue.clone());
        let help = "Tokens used, by model and kind";
        registry.register("tokens", help, this.tokens.clone());
        let help = "Streams that broke after their first chunk and are not refunded";
        registry.register("streams_broken", help, this.streams_broken.clone());
        let help = "Streams whose customer left before the end";
        registry.register("streams_left", help, this.streams_abandoned.clone());
        let help = "Answers delivered before their pending settlement failed";
        registry.register("unpaid_answers", help, this.unpaid_answers.clone());
        registry.register("busy_payments", "Payments in progress", this.busy.clone());
        let help = "Payments whose settlement is pending";
        registry.register("pending_settlements", help, this.pending.clone());
        Self { registry, ..this }
    }
}

impl Metrics {
    /// Counts a chat completion by result.
    pub fn count_chat(&self, result: &'static str) {
        self.chats.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts a request to the upstream, and the milliseconds until its response began or failed.
    pub fn count_upstream_call(&self, result: &'static str, took_ms: u64) {
        self.upstream_calls.get_or_create(&ResultLabel { result }).inc();
        self.upstream_seconds.observe(seconds(took_ms));
    }

    /// Counts a settle request by outcome.
    pub fn count_settlement(&self, result: &'static str) {
        self.settlements.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts revenue in the asset's smallest unit.
    ///
    /// Skips amounts over 64 bits. With 18 decimals these are amounts over 18.4 dollars.
    pub fn add_revenue(&self, chain: u64, asset: Address, atoms: &str) {
        if let Ok(atoms) = atoms.parse() {
            let labels =
                MoneyLabels { network: format!("eip155:{chain}"), asset: asset.to_string() };
            self.revenue.get_or_create(&labels).inc_by(atoms);
        }
    }

    /// Counts the tokens of an answer. `None` counts as `other`.
    pub fn add_tokens(&self, model: Option<&str>, usage: Usage) {
        for (kind, count) in [("prompt", usage.prompt), ("completion", usage.completion)] {
            let model = model.unwrap_or("other").to_owned();
            self.tokens.get_or_create(&TokenLabels { model, kind }).inc_by(count);
        }
    }

    /// Returns all metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _written = encode(&mut text, &self.registry);
        text
    }
}

#[expect(clippy::float_arithmetic, reason = "seconds for display, not money")]
fn seconds(ms: u64) -> f64 {
    f64::from(u32::try_from(ms).unwrap_or(u32::MAX)) / 1_000.0
}
