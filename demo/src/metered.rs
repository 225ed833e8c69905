//! A shop that sells a text by the character, in the scheme `upto`.
//!
//! The buyer authorizes the maximum price of a text, and the shop settles the actual price. Its answers are only for
//! the demonstration's own buyer.

use std::sync::Arc;

use alloy_primitives::Address;
use anyhow::{Context, anyhow};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bursar_core::networks::{ChainId, by_chain};
use bursar_x402::header;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The price of a character in dollars.
pub(crate) const CHARACTER_USD: &str = "0.0001";
/// The price of a character, and the maximum price of a text, in smallest units of the dollar token.
const CHARACTER_PRICE: u64 = 100;
const TEXT_PRICE_MAX: u64 = 50_000;

const TEXT: &str = "A meter runs while the work is done: the buyer signs the most it may cost, and pays for what it was.";

/// A running shop, which stops when dropped.
#[derive(Debug)]
pub(crate) struct MeteredShop {
    url: String,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shop {
    facilitator: String,
    client: reqwest::Client,
    /// The only offer of the shop.
    offer: Value,
}

impl MeteredShop {
    /// Sells to buyers on this network. The facilitator at the URL settles the payments to `pay_to`.
    pub(crate) async fn serve(
        facilitator: &str,
        chain: ChainId,
        pay_to: Address,
    ) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let supported: Value =
            client.get(format!("{facilitator}/supported")).send().await?.json().await?;
        let offer = offer(&supported, chain, pay_to)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/text", listener.local_addr()?);
        let shop = Shop { facilitator: facilitator.to_owned(), client, offer };
        let app = Router::new().route("/text", get(sell)).with_state(Arc::new(shop));
        let server = tokio::spawn(async move {
            let _ended = axum::serve(listener, app).await;
        });
        Ok(Self { url, server })
    }

    /// Returns the URL of the text.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for MeteredShop {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns the offer in the scheme `upto`. The buyer must name the account that the facilitator reports.
fn offer(supported: &Value, chain: ChainId, pay_to: Address) -> anyhow::Result<Value> {
    let network = by_chain(chain).context("the network is unknown")?;
    let is_ours = |kind: &&Value| kind["scheme"] == "upto" && kind["network"] == network.caip2();
    let kind = supported["kinds"].as_array().and_then(|kinds| kinds.iter().find(is_ours));
    let kind = kind.context("the facilitator does not offer the scheme upto")?;
    let coin = &network.stablecoin;
    Ok(json!({
        "scheme": "upto", "network": network.caip2(), "amount": TEXT_PRICE_MAX.to_string(),
        "asset": coin.address, "payTo": pay_to, "maxTimeoutSeconds": 60,
        "extra": {
            "name": coin.domain_name, "version": coin.domain_version,
            "assetTransferMethod": "permit2",
            "facilitatorAddress": kind["extra"]["facilitatorAddress"],
        },
    }))
}

async fn sell(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> Response {
    let Some(payment) = headers.get("payment-signature") else {
        return shop.require_payment("payment required");
    };
    let payment = payment.to_str().ok().and_then(|text| header::decode(text).ok());
    let Some(payment) = payment.and_then(|json| serde_json::from_str(&json.to_compact()).ok())
    else {
        return shop.require_payment("the payment is not valid");
    };
    match shop.charge(&payment).await {
        Ok(receipt) => {
            let receipt = [("payment-response", header::encode(&receipt.to_string()))];
            (receipt, json!({ "text": TEXT }).to_string()).into_response()
        }
        Err(reason) => shop.require_payment(&reason.to_string()),
    }
}

impl Shop {
    /// Verifies the payment for the maximum price, and settles the actual price. Returns the receipt.
    async fn charge(&self, payment: &Value) -> anyhow::Result<Value> {
        let verdict = self.ask_facilitator("verify", payment, &self.offer).await?;
        if verdict["isValid"] != true {
            return Err(anyhow!("{}", verdict["invalidReason"]));
        }
        // A real shop would now do the work that it bills.
        let characters = u64::try_from(TEXT.chars().count())?;
        let mut used = self.offer.clone();
        used["amount"] =
            json!(characters.saturating_mul(CHARACTER_PRICE).min(TEXT_PRICE_MAX).to_string());
        let receipt = self.ask_facilitator("settle", payment, &used).await?;
        if receipt["success"] == true {
            Ok(receipt)
        } else {
            Err(anyhow!("{}", receipt["errorReason"]))
        }
    }

    async fn ask_facilitator(
        &self,
        what: &str,
        payment: &Value,
        required: &Value,
    ) -> anyhow::Result<Value> {
        let body = json!({
            "x402Version": 2, "paymentPayload": payment, "paymentRequirements": required,
        });
        let request = self.client.post(format!("{}/{what}", self.facilitator)).json(&body);
        Ok(request.send().await?.json().await?)
    }

    fn require_payment(&self, error: &str) -> Response {
        let challenge = json!({ "x402Version": 2, "error": error, "accepts": [self.offer] });
        let offer = [("payment-required", header::encode(&challenge.to_string()))];
        (StatusCode::PAYMENT_REQUIRED, offer, json!({ "error": error }).to_string()).into_response()
    }
}
