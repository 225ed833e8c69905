//! How the merchant settles: by its own transaction on a local chain, or through a facilitator.

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::version::Version;
use crate::node::Devnet;
use crate::stable::Authorization;

/// The way in which payments are settled.
#[derive(Debug, Clone)]
pub enum SettlementMethod {
    /// By the merchant itself, on this chain.
    Chain(Devnet),
    /// By an x402 facilitator at this URL, without a trailing slash.
    Facilitator { url: String, client: reqwest::Client },
}

/// Maximum number of requests to a facilitator about one pending settlement.
const MAX_REQUESTS: usize = 5;

impl SettlementMethod {
    /// Settles a payment and returns the transaction, or the reason of the failure.
    pub(super) async fn settle(
        &self,
        version: Version,
        terms: &Authorization,
        signature: &[u8],
        payload: &Value,
        requirement: &Value,
    ) -> Result<B256, String> {
        match self {
            Self::Chain(devnet) => {
                devnet.settle(terms, signature).await.map_err(|error| error.to_string())
            }
            Self::Facilitator { url, client } => {
                let body = json!({
                    "x402Version": version.number(), "paymentPayload": payload,
                    "paymentRequirements": requirement,
                });
                settle_by_facilitator(client, &format!("{url}/settle"), &body).await
            }
        }
    }
}

async fn settle_by_facilitator(
    client: &reqwest::Client,
    url: &str,
    body: &Value,
) -> Result<B256, String> {
    let mut reason = "the facilitator gave no reason".to_owned();
    for _request in 0..MAX_REQUESTS {
        let response =
            client.post(url).json(body).send().await.map_err(|error| error.to_string())?;
        let answer: Value = response.json().await.map_err(|error| error.to_string())?;
        if answer["success"] == true {
            let hash = answer["transaction"].as_str().and_then(|text| text.parse().ok());
            return hash.ok_or_else(|| "the facilitator named no transaction".to_owned());
        }
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        reason = format!("{}: {}", text("errorReason"), text("errorMessage"));
        // The settlement is pending; repeating the request returns the outcome.
        if answer["errorReason"] != "settlement_pending" {
            break;
        }
    }
    Err(reason)
}
