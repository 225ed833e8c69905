//! A proxy between an upstream and a facilitator that the test controls.

use std::time::Duration;

use bursar_tests::node::FakeNode;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, Proxy, ProxyHome};
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use bursar_tests::upstream::{Behavior, Upstream, answer};
use reqwest::Response;
use serde_json::Value;

pub(crate) struct Stage {
    pub(crate) upstream: Upstream,
    pub(crate) facilitator: ScriptedFacilitator,
    pub(crate) node: FakeNode,
    pub(crate) home: ProxyHome,
    pub(crate) proxy: Proxy,
    pub(crate) customer: Customer,
}

impl Stage {
    pub(crate) async fn set_up(behavior: Behavior) -> Self {
        Self::with(behavior, "").await
    }

    /// Like `set`, with more settings.
    pub(crate) async fn with(behavior: Behavior, more: &str) -> Self {
        let upstream = Upstream::serve(behavior).await;
        let facilitator = ScriptedFacilitator::serve().await;
        let node = FakeNode::serve().await;
        let rpc =
            if more.contains("rpc =") { String::new() } else { format!("rpc = \"{}\"", node.url) };
        let home = ProxyHome::new(&upstream.url, &facilitator.url, &format!("{rpc}\n{more}"));
        let proxy = home.start().await;
        let customer = Customer::of(&proxy.url, Payer::random());
        Self { upstream, facilitator, node, home, proxy, customer }
    }

    /// Sets up an upstream whose answer is two words.
    pub(crate) async fn with_answer() -> Self {
        Self::set_up(Behavior::Whole(answer("hello world"))).await
    }

    /// Returns how often the upstream was called, and how often money moved.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.upstream.calls(), self.facilitator.settled())
    }

    /// Waits until the metrics contain a line.
    pub(crate) async fn wait_for_metric(&self, line: &str) {
        let counted = async {
            while !self.proxy.metrics().await.contains(line) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, counted).await.expect("it is counted");
    }

    /// Stops the proxy and starts it on the same store with other settings.
    pub(crate) async fn restart_with(self, more: &str) -> Self {
        let rpc = format!("rpc = \"{}\"", self.node.url);
        let other =
            ProxyHome::new(&self.upstream.url, &self.facilitator.url, &format!("{rpc}\n{more}"));
        let text = std::fs::read_to_string(other.settings()).expect("settings");
        std::fs::write(self.home.settings(), text).expect("written");
        self.restart().await
    }

    /// Stops the proxy and starts it on the same store.
    pub(crate) async fn restart(mut self) -> Self {
        let Stage { upstream, facilitator, node, home, proxy, mut customer } = self;
        proxy.stop().await;
        let proxy = home.start().await;
        customer.url = proxy.url.clone();
        self = Stage { upstream, facilitator, node, home, proxy, customer };
        self
    }
}

/// Timeout of every wait; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until a condition holds.
pub(crate) async fn wait_until(condition: impl Fn() -> bool) {
    let so = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, so).await.expect("it comes to be so");
}

/// Returns the status and the JSON body of an answer.
pub(crate) async fn status_and_json(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or(Value::Null))
}

/// Returns the status and the code of a refusal, whose body must have the right form.
pub(crate) async fn refusal(answer: Response) -> (u16, String) {
    let (status, body) = status_and_json(answer).await;
    let error = &body["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
    (status, error["code"].as_str().expect("a code").to_owned())
}
