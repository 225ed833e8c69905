//! A proxy for tests, in this process or in its own, and customers that build their payments by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, address};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bursar_chain::failpoints::NoFailpoints;
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_proxy::config::Config;
use bursar_proxy::service::{Running, StartFault};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::payer::{Payer, PaymentTerms, TransferMethod, now_s};
use crate::service::ServiceProcess;
use crate::upstream::KEY;

/// The address that receives payments.
pub const SELLER: Address = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");

/// Timeout of a wait; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A proxy's folder: settings and store.
#[derive(Debug)]
pub struct ProxyHome {
    folder: TempDir,
}

impl ProxyHome {
    /// Writes settings and adds `more` to them. Unless `more` sets `rpc`, no node is used.
    pub fn new(upstream: &str, facilitator: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = if more.contains("rpc =") { "" } else { "rpc = \"off\"" };
        let text = format!(
            "listen = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:0\"\nwallet_address = \"{SELLER}\"\n\
             upstream_url = \"{upstream}\"\nfacilitator_url = \"{facilitator}\"\n\
             upstream_api_key_file = \"key\"\n{node}\n{more}\n"
        );
        std::fs::write(folder.path().join("proxy.toml"), text).expect("written");
        std::fs::write(folder.path().join("key"), KEY).expect("written");
        Self { folder }
    }

    /// Returns the folder with settings and store.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the settings file.
    pub fn settings(&self) -> PathBuf {
        self.folder.path().join("proxy.toml")
    }

    /// Loads the settings, ignoring the environment.
    pub fn config(&self) -> Config {
        Config::load(Some(&self.settings()), &|_name| None).expect("good settings")
    }

    /// Starts the proxy in this process.
    pub async fn start(&self) -> Proxy {
        let started = async {
            loop {
                match Running::start(self.config(), Arc::new(NoFailpoints)).await {
                    // A child process that another test just forked holds the previous store's file descriptor until
                    // exec.
                    Err(StartFault::Store(why)) if why.to_string().contains("already open") => {
                        tokio::task::yield_now().await;
                    }
                    other => return other.expect("started"),
                }
            }
        };
        let running = tokio::time::timeout(TIMEOUT, started).await.expect("the file is free");
        Proxy { url: format!("http://{}", running.address), running }
    }

    /// Starts the proxy as a separate process, which kills itself at `fault`, written `<point>:<n>`.
    pub fn start_process(&self, fault: Option<&str>) -> ServiceProcess {
        ServiceProcess::start("bursar-test-proxy", &self.settings(), "info", fault)
    }
}

/// A proxy in this process.
#[derive(Debug)]
pub struct Proxy {
    pub url: String,
    pub running: Running,
}

impl Proxy {
    /// Stops the proxy gracefully.
    pub async fn stop(self) {
        self.running.stop().await;
    }

    /// Returns the metrics as text.
    pub async fn metrics(&self) -> String {
        let address = self.running.metrics_address.expect("metrics");
        let request = client().get(format!("http://{address}/metrics"));
        request.send().await.expect("answered").text().await.expect("text")
    }
}

/// Returns an HTTP client that does not go through any HTTP proxy.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Builds a chat request with one message.
pub fn chat(text: &str) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    json!({ "model": "toy", "messages": messages, "max_completion_tokens": 100 })
}

/// Builds a streaming chat request with one message.
pub fn streaming_chat(text: &str) -> Value {
    let mut body = chat(text);
    body["stream"] = json!(true);
    body
}

/// The offers of a 402 response.
#[derive(Debug, Clone)]
pub struct PaymentRequired {
    /// The x402 v1 offers, from the body.
    pub v1: Value,
    /// The x402 v2 offers, from the header.
    pub v2: Value,
}

impl PaymentRequired {
    /// Reads the offers of a response, which must have status 402.
    pub async fn read(answer: Response) -> Self {
        assert_eq!(answer.status(), 402);
        let header = answer.headers().get("payment-required").expect("an offer").clone();
        let v2 = STANDARD.decode(header.as_bytes()).expect("base64");
        let v2 = serde_json::from_slice(&v2).expect("JSON");
        Self { v1: answer.json().await.expect("JSON"), v2 }
    }
}

/// A payment header.
#[derive(Debug, Clone)]
pub struct PaymentHeader {
    pub name: &'static str,
    pub value: String,
    pub terms: PaymentTerms,
}

/// A customer of one proxy.
#[derive(Debug)]
pub struct Customer {
    pub client: reqwest::Client,
    pub url: String,
    pub payer: Payer,
    pub network: &'static Network,
}

impl Customer {
    /// Creates a customer that pays on Base.
    pub fn of(url: &str, payer: Payer) -> Self {
        let network = by_chain(ChainId(8453)).expect("a row");
        Self { client: client(), url: url.to_owned(), payer, network }
    }

    /// Builds a chat request without a payment.
    pub fn request(&self, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}/v1/chat/completions", self.url)).json(body)
    }

    /// Sends a chat request without a payment and returns the offers.
    pub async fn ask(&self, body: &Value) -> PaymentRequired {
        PaymentRequired::read(self.request(body).send().await.expect("answered")).await
    }

    /// Asks for the price and signs the offer, in an x402 version.
    pub async fn sign(&self, version: u64, body: &Value) -> PaymentHeader {
        let challenge = self.ask(body).await;
        self.sign_with(version, &challenge, |_terms| {})
    }

    /// Signs the offer of a 402 response, with terms that the test changes before signing.
    pub fn sign_with(
        &self,
        version: u64,
        challenge: &PaymentRequired,
        change: impl FnOnce(&mut PaymentTerms),
    ) -> PaymentHeader {
        let (list, key) = match version {
            1 => (&challenge.v1["accepts"], "maxAmountRequired"),
            _two => (&challenge.v2["accepts"], "amount"),
        };
        let names = |offer: &&Value| {
            let network = offer["network"].as_str().expect("a network");
            network == self.network.caip2() || self.network.v1_names.contains(&network)
        };
        let offer = list.as_array().expect("offers").iter().find(names).expect("an offer");
        let amount: u64 = offer[key].as_str().expect("an amount").parse().expect("digits");
        let mut terms = self.payer.terms(self.network, SELLER, amount);
        terms.valid_before_s = now_s() + offer["maxTimeoutSeconds"].as_u64().expect("seconds");
        change(&mut terms);
        let paid = self.payer.pay(TransferMethod::Eip3009, &terms);
        let payment = match version {
            1 => json!({
                "x402Version": 1, "scheme": "exact", "network": offer["network"],
                "payload": paid.payload,
            }),
            _two => json!({
                "x402Version": 2, "accepted": offer, "resource": challenge.v2["resource"],
                "payload": paid.payload,
            }),
        };
        let name = if version == 1 { "x-payment" } else { "payment-signature" };
        PaymentHeader { name, value: STANDARD.encode(payment.to_string()), terms }
    }

    /// Sends a chat request with a payment.
    pub async fn send(&self, body: &Value, header: &PaymentHeader) -> Response {
        let request = self.request(body).header(header.name, &header.value);
        request.send().await.expect("answered")
    }

    /// Asks for the price, pays and returns the response.
    pub async fn buy(&self, version: u64, body: &Value) -> Response {
        let header = self.sign(version, body).await;
        self.send(body, &header).await
    }
}

/// Decodes the receipt of a response.
pub fn receipt(answer: &Response) -> Value {
    let header = answer.headers().get("payment-response").expect("a receipt");
    let text = STANDARD.decode(header.as_bytes()).expect("base64");
    serde_json::from_slice(&text).expect("JSON")
}
