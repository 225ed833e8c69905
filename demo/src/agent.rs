//! An agent that signs its requests to the wallet and pays a paywall with the returned header. Shares no code
//! with the wallet. Its HMAC covers a message that `serde_json` writes with sorted keys. In ASCII form, and for
//! the numbers used here, that text is canonical.

mod wallet;

use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use wallet::Wallet;

pub use wallet::RetryPolicy;

/// Interval between two polls of a held request.
const POLL: Duration = Duration::from_millis(300);

/// An agent's credentials.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    /// `AT_` and 64 hex digits.
    pub token: String,
    pub bearer: bool,
}

/// The result of paying for a resource.
#[derive(Debug, Clone)]
pub struct Purchase {
    /// The status of the merchant's last answer.
    pub status: u16,
    pub body: Value,
    /// Whether the operator had to approve the request.
    pub waited: bool,
    /// The seller's report about the settlement, if there is one.
    pub receipt: Option<Value>,
}

/// A resource to buy.
#[derive(Debug, Clone, Copy)]
pub struct PurchaseRequest<'a> {
    pub url: &'a str,
    /// JSON to post; `None` means a GET request.
    pub body: Option<&'a str>,
}

impl<'a> From<&'a str> for PurchaseRequest<'a> {
    fn from(url: &'a str) -> Self {
        Self { url, body: None }
    }
}

impl<'a> From<&'a String> for PurchaseRequest<'a> {
    fn from(url: &'a String) -> Self {
        Self { url, body: None }
    }
}

impl PurchaseRequest<'_> {
    fn to_http(self, client: &reqwest::Client) -> reqwest::RequestBuilder {
        match self.body {
            None => client.get(self.url),
            Some(body) => client
                .post(self.url)
                .header("content-type", "application/json")
                .body(body.to_owned()),
        }
    }
}

impl Agent {
    /// Reads the credentials from the environment variables that the wallet printed.
    ///
    /// # Errors
    /// A variable is not set.
    pub fn from_environment() -> anyhow::Result<Self> {
        let read = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        Ok(Self {
            id: read("WALLET_AGENT_ID")?,
            token: read("WALLET_AGENT_TOKEN")?,
            bearer: read("WALLET_AUTH_MODE")? == "bearer",
        })
    }

    /// Returns the `signature` field for a message.
    pub fn sign(&self, timestamp: i64, fields: &Map<String, Value>) -> String {
        if self.bearer {
            return self.token.clone();
        }
        let mut message = fields.clone();
        message.insert("agent_id".into(), json!(self.id));
        message.insert("timestamp".into(), json!(timestamp));
        // The default map of `serde_json` is sorted.
        let text = escape_non_ascii(&Value::Object(message).to_string());
        let key = self.token.strip_prefix("AT_").and_then(|digits| hex::decode(digits).ok());
        let digest = Hmac::<Sha256>::new_from_slice(&key.unwrap_or_default())
            .map(|mac| hex::encode(mac.chain_update(text).finalize().into_bytes()));
        format!("SIG:{timestamp}:{}", digest.unwrap_or_default())
    }

    /// Returns a `/sign` body.
    pub fn ask(&self, timestamp: i64, header: &str, request_url: Option<&str>) -> Value {
        let mut fields = Map::new();
        fields.insert("payment_required".into(), json!(header));
        if let Some(url) = request_url {
            fields.insert("request_url".into(), json!(url));
        }
        self.body(timestamp, fields)
    }

    /// Returns a `/sign` body for version 1 of x402, whose offer is an object.
    pub fn ask_v1(&self, timestamp: i64, offer: &Value, request_url: Option<&str>) -> Value {
        let mut fields = Map::new();
        fields.insert("x402_data".into(), offer.clone());
        if let Some(url) = request_url {
            fields.insert("request_url".into(), json!(url));
        }
        self.body(timestamp, fields)
    }

    /// Returns a `/callback` body: flat, although its signed message nests the three fields.
    pub fn report(&self, timestamp: i64, id: &str, event: &str, tx_hash: Option<&str>) -> Value {
        let fields = json!({ "transaction_id": id, "event": event, "tx_hash": tx_hash });
        let signature =
            self.sign(timestamp, &Map::from_iter([("callback".into(), fields.clone())]));
        let mut body = fields;
        body["agent_id"] = json!(self.id);
        body["signature"] = json!(signature);
        body
    }

    /// Returns the body for an endpoint that only reads.
    pub fn read(&self, timestamp: i64) -> Value {
        let mut fields = Map::new();
        fields.insert("action".into(), json!("agent_read"));
        let mut body = self.body(timestamp, fields);
        if let Value::Object(fields) = &mut body {
            fields.remove("action");
        }
        body
    }

    fn body(&self, timestamp: i64, mut fields: Map<String, Value>) -> Value {
        let signature = self.sign(timestamp, &fields);
        fields.insert("agent_id".into(), json!(self.id));
        fields.insert("signature".into(), json!(signature));
        Value::Object(fields)
    }

    /// Requests a resource, pays for it through the wallet at `wallet`, and requests it again. `tell` receives
    /// a message for each step. `retry` bounds the wait for a wallet that does not answer.
    ///
    /// # Errors
    /// The seller asked for no payment, the wallet refused, or one of them did not answer.
    pub async fn buy(
        &self,
        wallet: &str,
        request: impl Into<PurchaseRequest<'_>>,
        retry: RetryPolicy,
        tell: &(dyn Fn(&str) + Sync),
    ) -> anyhow::Result<Purchase> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let request = request.into();
        let url = request.url;
        let first = request.to_http(&client).send().await?;
        if first.status() != 402 {
            bail!("{url} answered {} and does not ask for a payment", first.status());
        }
        let header =
            first.headers().get("payment-required").context("no offer in the 402 answer")?;
        let header = header.to_str()?.to_owned();
        tell("402 Payment Required: forwarding the offer to the wallet");
        let now = jiff::Timestamp::now().as_second();
        let body = self.ask(now, &header, Some(url));
        let mut wallet =
            Wallet { client: client.clone(), url: wallet, retry, tell, was_away: false };
        let mut answer = wallet.call("/sign", Some(&body)).await?;
        let waited = answer.1["status"] == "pending";
        if waited {
            tell("held until the operator decides: polling");
        }
        while answer.0 == 202 {
            let id = answer.1["request_id"].as_str().context("no request_id")?.to_owned();
            tokio::time::sleep(POLL).await;
            answer = wallet.call(&format!("/sign/status/{id}"), None).await?;
        }
        let (name, value) = (answer.1["header_name"].as_str(), answer.1["header_value"].as_str());
        let (Some(name), Some(value)) = (name, value) else {
            bail!("the wallet refused: {}", answer.1);
        };
        tell("the wallet signed: repeating the request with the payment");
        let paid = request.to_http(&client).header(name, value).send().await?;
        let status = paid.status().as_u16();
        let receipt = paid.headers().get("payment-response").and_then(decode_receipt);
        Ok(Purchase { status, body: paid.json().await.unwrap_or(Value::Null), waited, receipt })
    }
}

/// Decodes a receipt header: base64 JSON.
fn decode_receipt(header: &reqwest::header::HeaderValue) -> Option<Value> {
    let text = base64::engine::general_purpose::STANDARD.decode(header.as_bytes()).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Escapes every non-ASCII character of a JSON text.
fn escape_non_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='~' => escaped.push(character),
            _non_ascii => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped
}
