//! A merchant's server built from official packages, and its answers.

use std::fmt::Debug;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_tests::offers::decode_header;
use bursar_tests::payer::SignedPayment;
use bursar_tests::sdk::{Framework, Script};
use serde_json::{Value, json};

const CONTENT: &str = "what was paid for";

/// A running server that sells one item.
#[derive(Debug)]
pub(crate) struct Merchant {
    pub(crate) framework: Framework,
    script: Script,
    client: reqwest::Client,
}

impl Merchant {
    /// Starts a server with its settings: facilitator, payee and the item sold at `/thing`.
    pub(crate) async fn start(framework: Framework, settings: &Value) -> Self {
        let script = framework.start(settings).await;
        // Node closes an idle connection after five seconds, even if a request is in flight, so keep none open.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.build().expect("a client");
        Self { framework, script, client }
    }

    /// Returns the server's host and port.
    pub(crate) fn authority(&self) -> &str {
        self.script.ready_text.trim_start_matches("http://")
    }

    fn url(&self) -> String {
        format!("{}/thing", self.script.ready_text)
    }

    /// Returns how often the paid handler ran.
    pub(crate) async fn paid_handler_runs(&self) -> u64 {
        let response = self.client.get(format!("{}/served", self.script.ready_text)).send().await;
        let served: Value = response.expect("an answer").json().await.expect("JSON");
        served["served"].as_u64().unwrap_or_else(|| panic!("{served}"))
    }

    /// Returns the `PAYMENT-SIGNATURE` value that pays for this merchant's offer.
    pub(crate) async fn header(&self, paid: &SignedPayment) -> String {
        let response = self.client.get(self.url()).send().await.expect("an answer");
        assert_eq!(response.status(), 402, "{:?}", self.framework);
        let offer = response.headers().get("payment-required").expect("an offer");
        let offer = decode_header(offer.to_str().expect("text"));
        let payment = json!({
            "x402Version": 2, "resource": offer["resource"], "accepted": offer["accepts"][0],
            "payload": paid.payload,
        });
        STANDARD.encode(payment.to_string())
    }

    /// Sends a payment to the merchant.
    pub(crate) async fn pay(&self, header: &str) -> MerchantAnswer {
        let response = self.client.get(self.url()).header("payment-signature", header);
        MerchantAnswer::of(self.framework, CONTENT, response.send().await.expect("an answer")).await
    }
}

/// A seller's answer to a payment: the content, or 402 without it.
#[derive(Debug, Clone)]
pub(crate) struct MerchantAnswer {
    pub(crate) delivered: bool,
    /// The code of a refusal.
    pub(crate) reason: String,
    /// The hash in the receipt of a delivery.
    pub(crate) transaction: String,
}

impl MerchantAnswer {
    /// Reads the answer of a seller whose content contains `content`.
    pub(crate) async fn of(seller: impl Debug, content: &str, answer: reqwest::Response) -> Self {
        let status = answer.status().as_u16();
        let header = |name| {
            let value = answer.headers().get(name)?;
            Some(decode_header(value.to_str().expect("text")))
        };
        let (receipt, refusal) = (header("payment-response"), header("payment-required"));
        let text = answer.text().await.expect("a body");
        let delivered = status == 200;
        assert!(delivered || status == 402, "{seller:?} answers {status}: {text}");
        assert_eq!(text.contains(content), delivered, "{seller:?} answers {status}: {text}");
        let receipt = receipt.unwrap_or_default();
        if delivered {
            assert_eq!(receipt["success"], true, "{seller:?}: {receipt}");
            let transaction = receipt["transaction"].as_str().expect("a hash").to_owned();
            return Self { delivered, reason: String::new(), transaction };
        }
        let refusal = refusal.unwrap_or_default();
        let reason = receipt["errorReason"].as_str().or(refusal["error"].as_str());
        let reason = reason.unwrap_or_else(|| panic!("{seller:?} gives no reason: {text}"));
        Self { delivered, reason: reason.to_owned(), transaction: String::new() }
    }
}
