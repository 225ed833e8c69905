//! The wallet's agent endpoints: `/sign`, `/sign/status/{id}` and `/callback`.
//!
//! If `/sign` gives no usable response, the call is repeated with the same bytes, for which the wallet returns the
//! same response.

use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{self, Object, Value};
use bursar_core::limits::{AGENT_REPLY_BYTES_MAX, BODY_DEPTH_MAX, HANDLER_TIMEOUT_MS};
use bursar_core::money::Usd;
use bursar_core::text::quoted;
use bursar_outbound::{Client, HeaderName, HeaderValue, Reply};
use bursar_x402::header;

use crate::agent::Agent;
use crate::offer::RawOffer;

/// Timeout of a call, in milliseconds. The wallet itself ends a call after [`HANDLER_TIMEOUT_MS`].
const CALL_TIMEOUT_MS: u64 = HANDLER_TIMEOUT_MS + 5_000;
/// Pauses before the retries, in milliseconds.
///
/// All retries end well within the five minutes for which a proof is valid by default.
const RETRY_PAUSES_MS: &[u64] = &[250, 500, 1_000];

/// A payment that the wallet signed: the one header to send to the server.
pub(crate) struct Payment {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
    /// `value` as text, for decoding.
    pub(crate) text: String,
    /// The wallet's `transaction_id`.
    pub(crate) id: RequestId,
}

impl Payment {
    /// Returns how long a server can still settle the payment; zero if the payment cannot be read.
    pub(crate) fn time_to_settle(&self, now_s: i64) -> Duration {
        let value = header::decode(&self.text).ok();
        let terms = value.as_ref().and_then(|value| value.get("payload")?.get("authorization"));
        let before = terms.and_then(|terms| match terms.get("validBefore")? {
            Value::String(text) => text.parse::<u64>().ok(),
            other => other.as_number().and_then(json::Number::as_u64),
        });
        let now = u64::try_from(now_s).unwrap_or(0);
        Duration::from_secs(before.unwrap_or(0).saturating_sub(now))
    }
}

/// What a held request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    Approval,
    /// The operator's hardware device.
    Device,
    /// The wallet is signing.
    Wallet,
}

/// The wallet's answer to a request to sign.
pub(crate) enum SignStatus {
    Signed(Payment),
    /// The request waits: for the operator's decision, for the device, or for the wallet that is signing.
    Held(RequestId, WaitsFor),
    /// The status is not available now: ask again after this delay.
    Unknown(Duration),
    /// The request will not be paid.
    Refused(Fault),
}

pub(crate) struct Wallet {
    client: Client,
    agent: Agent,
}

impl Wallet {
    pub(crate) fn of(agent: Agent) -> Result<Self, Fault> {
        let client = Client::new(CALL_TIMEOUT_MS)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(Self { client, agent })
    }

    /// Asks the wallet to pay an offer made at `url`.
    pub(crate) async fn sign(&self, offer: &RawOffer, url: &str) -> Result<SignStatus, Fault> {
        let content = match offer {
            RawOffer::Header(text) => Object::new().with("payment_required", text.as_str()),
            RawOffer::Body(json) => Object::new().with("x402_data", json.clone()),
        };
        let body = self.agent.sign_body(content, url)?;
        let mut pauses = RETRY_PAUSES_MS.iter();
        loop {
            let reply = self.post("sign", &body).await;
            let status = reply.as_ref().map(|reply| self.status(reply));
            let again = matches!(status, Err(_) | Ok(SignStatus::Unknown(_)));
            match (pauses.next(), status) {
                (Some(pause), _) if again => {
                    tokio::time::sleep(Duration::from_millis(*pause)).await
                }
                (_, Ok(SignStatus::Unknown(_))) => {
                    return Ok(self.unpaid_status(reply.as_ref().ok()));
                }
                (_, Ok(status)) => return Ok(status),
                (_, Err(why)) => {
                    let message = format!(
                        "The wallet at {} does not answer: {why}. No payment was sent to the server.",
                        self.agent.wallet.label()
                    );
                    return Err(Fault::because(Code::EngineDown, message));
                }
            }
        }
    }

    /// Returns the status of a held request, or [`SignStatus::Unknown`] if the wallet does not answer.
    pub(crate) async fn poll(&self, id: RequestId) -> SignStatus {
        let at = self.agent.wallet.with_segments(&["sign", "status", &id.to_string()]);
        match self.client.get(&at, AGENT_REPLY_BYTES_MAX).await {
            Ok(reply) => self.status(&reply),
            Err(_away) => SignStatus::Unknown(Duration::ZERO),
        }
    }

    /// Reports the transaction that settled a payment.
    ///
    /// The error contains the reason why the wallet did not record it.
    pub(crate) async fn report_settled(
        &self,
        id: RequestId,
        transaction: &str,
    ) -> Result<(), String> {
        let told = Object::new()
            .with("transaction_id", id.to_string())
            .with("event", "settled")
            .with("tx_hash", transaction);
        let body = self.agent.callback_body(told).map_err(|fault| fault.message)?;
        let reply = self.post("callback", &body).await?;
        if reply.status.is_success() { Ok(()) } else { Err(self.refusal(Some(&reply)).message) }
    }

    /// Returns the policy's maximum for one payment, if the wallet answers.
    pub(crate) async fn payment_maximum(&self) -> Option<Usd> {
        let body = self.agent.mandate_body().ok()?;
        let reply = self.post("mandate", &body).await.ok()?;
        let answer = read(&reply);
        let maximum = answer.get("policy")?.get("per_request_max_micro")?.as_number()?;
        maximum.as_u64().map(Usd)
    }

    async fn post(&self, path: &str, body: &str) -> Result<Reply, String> {
        let at = self.agent.wallet.with_segments(&[path]);
        self.client.post(&at, body.as_bytes().to_vec(), AGENT_REPLY_BYTES_MAX).await
    }

    fn status(&self, reply: &Reply) -> SignStatus {
        let answer = read(reply);
        let text = |key: &str| answer.get(key).and_then(Value::as_str);
        let id = |key: &str| text(key).and_then(|id| id.parse::<RequestId>().ok());
        match (reply.status.as_u16(), text("status")) {
            (200, Some("success")) => match payment(&answer) {
                Some(payment) => SignStatus::Signed(payment),
                // The payment was signed earlier, and has expired since.
                None if text("code") == Some(Code::AlreadySigned.text()) => {
                    SignStatus::Refused(Fault::new(Code::PaymentExpired))
                }
                None => self.unpaid_status(Some(reply)),
            },
            (202, Some(status @ ("pending" | "executing"))) => match id("request_id") {
                Some(id) => SignStatus::Held(id, waits_for(status, text("waits_for"))),
                None => self.unpaid_status(Some(reply)),
            },
            (429 | 503, _) if is_transient(text("code")) => {
                let seconds = answer.get("retry_after").and_then(Value::as_number);
                let seconds = seconds.and_then(json::Number::as_u64).unwrap_or(5).min(60);
                SignStatus::Unknown(Duration::from_secs(seconds))
            }
            _refused => self.unpaid_status(Some(reply)),
        }
    }

    /// Returns the refusal of a request for which nothing was paid.
    fn unpaid_status(&self, reply: Option<&Reply>) -> SignStatus {
        let fault = self.refusal(reply);
        SignStatus::Refused(Fault {
            message: format!("{} Nothing was paid.", fault.message),
            ..fault
        })
    }

    /// Returns the wallet's refusal in its own words, with its code if known.
    fn refusal(&self, reply: Option<&Reply>) -> Fault {
        let answer = reply.map_or(Value::Null, read);
        let text = |key: &str| answer.get(key).and_then(Value::as_str);
        let rejected = text("status") == Some("rejected");
        let known =
            text("code").and_then(|code| Code::ALL.iter().find(|known| known.text() == code));
        let code = match known {
            Some(code) => *code,
            None if rejected => Code::RequestDenied,
            None => Code::InternalError,
        };
        let said = text("error").or_else(|| text("reason")).map(|said| quoted(said, 300));
        let said = said.unwrap_or_else(|| match reply {
            Some(reply) => format!("HTTP {}", reply.status.as_u16()),
            None => "no answer".to_owned(),
        });
        let mut message = match code {
            Code::RequestDenied => format!("The operator denied the request: {said}."),
            Code::RequestExpired => "The operator did not approve in time.".to_owned(),
            Code::InternalError => {
                format!(
                    "{} is not a wallet or answered with an error: {said}.",
                    self.agent.wallet.label()
                )
            }
            _wallets_own => format!("The wallet refused ({code}): {said}."),
        };
        if code == Code::AuthFailed && !self.agent.is_bearer() {
            message.push_str(
                " With hmac, possible causes are a wrong agent id or token, a wrong clock, and a locked wallet.",
            );
        }
        Fault::because(code, message)
    }
}

fn waits_for(status: &str, said: Option<&str>) -> WaitsFor {
    match (status, said) {
        (_any, Some("device")) => WaitsFor::Device,
        ("executing", _) => WaitsFor::Wallet,
        _pending => WaitsFor::Approval,
    }
}

/// Parses the body of a reply. An invalid body counts as null.
fn read(reply: &Reply) -> Value {
    json::parse(&reply.body, BODY_DEPTH_MAX).unwrap_or(Value::Null)
}

/// Returns whether a refusal is temporary. A locked wallet's refusal is not: a person must open the wallet.
fn is_transient(code: Option<&str>) -> bool {
    [Code::Busy, Code::RateLimitExceeded].iter().any(|known| code == Some(known.text()))
}

fn payment(answer: &Value) -> Option<Payment> {
    let text = |key: &str| answer.get(key).and_then(Value::as_str);
    let name = match text("header_name")? {
        "PAYMENT-SIGNATURE" => HeaderName::from_static("payment-signature"),
        "X-PAYMENT" => HeaderName::from_static("x-payment"),
        _other => return None,
    };
    let text_of = text("header_value")?;
    let mut value = HeaderValue::from_str(text_of).ok()?;
    value.set_sensitive(true);
    let id = text("transaction_id")?.parse().ok()?;
    Some(Payment { name, value, text: text_of.to_owned(), id })
}
