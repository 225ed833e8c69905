//! The client of the facilitator. It trusts the facilitator about money and nothing else. An answer that contradicts
//! the request counts as no answer.

mod route;

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use bursar_chain::ports::Clock;
use bursar_core::json::{self, Object, Value};
use bursar_core::networks::{Network, by_id_or_v1_name};
use bursar_core::time::Utc;
use bursar_outbound::{
    Bytes, Client, HeaderMap, HeaderValue, Method, OutboundRequest, SendFailure, Target,
};
use bursar_serve::wait::with_timeout;
use bursar_x402::settlement::REPEATED_HEADER;

use self::route::{Route, SETTLE, SUPPORTED, VERIFY};
use crate::book::sale_key::SaleKey;
use crate::user_agent::USER_AGENT;

/// Maximum size of an answer. A verdict takes a few hundred bytes; unknown extensions may follow.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 32;
/// Maximum length of a text that is passed on from the facilitator, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// Header with the sale's key. It distinguishes our retry from another caller's copy of the payment.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Verifies and settles payments.
#[derive(Debug)]
pub struct Facilitator {
    client: Client,
    base: Target,
    headers: HeaderMap,
    clock: Arc<dyn Clock>,
}

/// An answer of the facilitator.
struct FacilitatorAnswer {
    status: u16,
    body: Value,
    repeated: bool,
}

/// Result of `/verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    Invalid {
        reason: String,
        message: String,
    },
    /// The facilitator returned no verdict. Contains the reason.
    Unavailable(String),
}

/// The result of `/settle`; receipts are sent to the customer as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// `repeated` means that the success belongs to an earlier request, by any caller.
    Settled {
        receipt: String,
        repeated: bool,
    },
    /// The settlement is not final. `hash` is its transaction, if the facilitator names one.
    Pending {
        receipt: String,
        hash: Option<B256>,
    },
    Failed {
        receipt: String,
        reason: String,
    },
    /// Another caller received the success, because the first request had another key.
    SettledForOther {
        receipt: String,
    },
    /// The facilitator rejected the request for its own reasons, and accepted nothing. The payment is unchanged.
    Declined(String),
    /// The request was not sent or not processed: nothing was settled.
    NotProcessed(String),
    /// The payment may have been settled.
    Unknown(String),
}

impl SettleOutcome {
    /// Returns the name of the outcome in metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Settled { .. } => "settled",
            Self::Pending { .. } => "pending",
            Self::Failed { .. } => "failed",
            Self::SettledForOther { .. } => "elsewhere",
            Self::Declined(_) => "declined",
            Self::NotProcessed(_) => "unasked",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns why the payment was not settled, if that is known.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Settled { .. } | Self::Pending { .. } | Self::SettledForOther { .. } => None,
            Self::Failed { reason, .. } => Some(reason),
            Self::Declined(why) | Self::NotProcessed(why) | Self::Unknown(why) => Some(why),
        }
    }
}

/// The sale that a request is about.
#[derive(Debug, Clone, Copy)]
pub struct SaleContext {
    pub network: &'static Network,
    pub payer: Address,
    /// The key that identifies the sale to the facilitator; `None` for a sale that was stored before keys existed.
    pub key: Option<SaleKey>,
}

/// Rejections that concern the facilitator and not the payment.
const DECLINED_REASONS: [&str; 3] = ["facilitator_out_of_gas", "gas_budget_spent", "gas_too_high"];

const CONTRADICTION_MESSAGE: &str = "its answer contradicts the request";

impl Facilitator {
    /// Creates a client; `key` is the authorization header, if the facilitator needs one.
    pub fn new(
        client: Client,
        base: Target,
        key: Option<HeaderValue>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        if let Some(key) = key {
            headers.insert("authorization", key);
        }
        Self { client, base, headers, clock }
    }

    /// Verifies a payment, or returns [`Verdict::Unavailable`] on a timeout.
    pub async fn verify(&self, facilitator_request: &str, context: SaleContext) -> Verdict {
        match self.send(VERIFY, facilitator_request, context.key).await {
            Ok(answer) => verdict(answer.status, &answer.body, context),
            Err(SendFailure::NotSent(why) | SendFailure::Lost(why)) => Verdict::Unavailable(why),
        }
    }

    /// Settles a payment, or returns [`SettleOutcome::Unknown`] on a timeout.
    pub async fn settle(&self, facilitator_request: &str, context: SaleContext) -> SettleOutcome {
        match self.send(SETTLE, facilitator_request, context.key).await {
            Ok(answer) => outcome(&answer, context),
            Err(SendFailure::NotSent(why)) => SettleOutcome::NotProcessed(why),
            Err(SendFailure::Lost(why)) => SettleOutcome::Unknown(why),
        }
    }

    /// Returns the answer of `/supported`.
    ///
    /// # Errors
    /// Why the facilitator returned no list.
    pub async fn supported(&self) -> Result<Value, String> {
        match self.send(SUPPORTED, "", None).await {
            Ok(FacilitatorAnswer { status: 200, body, .. }) => Ok(body),
            Ok(FacilitatorAnswer { status, .. }) => Err(format!("it answers HTTP {status}")),
            Err(fault) => Err(fault.to_string()),
        }
    }

    /// Returns by how many milliseconds our clock is ahead of the header `Date` of the facilitator's answer, or `None`
    /// if there is no answer or no such header.
    pub async fn clock_ahead_ms(&self) -> Option<i64> {
        let target = self.base.with_segments(&["supported"]);
        let (headers, body) = (self.headers.clone(), Bytes::new());
        let request = OutboundRequest { method: Method::GET, target: &target, headers, body };
        let answer =
            with_timeout(&*self.clock, SUPPORTED.wait_ms, self.client.open(request)).await?.ok()?;
        let date = httpdate::parse_http_date(answer.headers.get("date")?.to_str().ok()?).ok()?;
        let since_epoch = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        let date = Utc(i64::try_from(since_epoch.as_millis()).ok()?);
        Some(self.clock.utc().since_ms(date))
    }

    /// Returns the name of the facilitator for logs: scheme, host and port.
    pub fn label(&self) -> &str {
        self.base.label().as_str()
    }

    async fn send(
        &self,
        route: Route,
        facilitator_request: &str,
        key: Option<SaleKey>,
    ) -> Result<FacilitatorAnswer, SendFailure> {
        let Route { method, path, wait_ms } = route;
        let target = self.base.with_segments(&[path]);
        let body = Bytes::copy_from_slice(facilitator_request.as_bytes());
        let mut headers = self.headers.clone();
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(&key.text()).ok()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let request = OutboundRequest { method, target: &target, headers, body };
        let exchange = async {
            let response = self.client.open(request).await?;
            let status = response.status.as_u16();
            // Status 429 means that the request was not processed, whatever the body contains.
            if status == 429 {
                let why = "it answers 429: too many requests";
                return Err(SendFailure::NotSent(why.to_owned()));
            }
            let repeated = response.headers.contains_key(REPEATED_HEADER);
            let body = response.read_to_end(ANSWER_BYTES_MAX).await.map_err(SendFailure::Lost)?;
            let value = json::parse_few(&body, DEPTH_MAX, 4_096);
            let value = value.map_err(|fault| {
                SendFailure::Lost(format!("HTTP {status} with an invalid answer: {fault}"))
            })?;
            Ok(FacilitatorAnswer { status, body: value, repeated })
        };
        match with_timeout(&*self.clock, wait_ms, exchange).await {
            Some(answer) => answer,
            None => Err(SendFailure::Lost("no answer in time".to_owned())),
        }
    }
}

fn verdict(status: u16, answer: &Value, context: SaleContext) -> Verdict {
    match answer.get("isValid").and_then(Value::as_bool) {
        Some(true) if status == 200 && payer_matches(answer, context) => Verdict::Valid,
        Some(true) => Verdict::Unavailable(CONTRADICTION_MESSAGE.to_owned()),
        Some(false) if is_declined(answer, "invalidReason") => {
            let reason = text_member(answer, "invalidReason").unwrap_or_default();
            Verdict::Unavailable(format!("it cannot settle now: {reason}"))
        }
        // A 5xx status is a failure of the facilitator, whatever the body contains.
        Some(false) if status < 500 => Verdict::Invalid {
            reason: text_member(answer, "invalidReason")
                .unwrap_or_else(|| "invalid_payment".to_owned()),
            message: text_member(answer, "invalidMessage").unwrap_or_default(),
        },
        // Facilitators answer 400 without a verdict if they cannot parse the payment.
        None if status == 400 => Verdict::Invalid {
            reason: "invalid_payload".to_owned(),
            message: text_member(answer, "error").unwrap_or_default(),
        },
        Some(false) | None => {
            Verdict::Unavailable(format!("it answers HTTP {status} without a verdict"))
        }
    }
}

fn outcome(response: &FacilitatorAnswer, context: SaleContext) -> SettleOutcome {
    let FacilitatorAnswer { status, body: answer, repeated } = response;
    let (status, repeated) = (*status, *repeated);
    let receipt = || receipt(answer, context.network).to_compact();
    let hash = hash_in(answer);
    match answer.get("success").and_then(Value::as_bool) {
        Some(true)
            if status == 200
                && hash.is_some()
                && payer_matches(answer, context)
                && network_matches(answer, context) =>
        {
            SettleOutcome::Settled { receipt: receipt(), repeated }
        }
        Some(true) => SettleOutcome::Unknown(CONTRADICTION_MESSAGE.to_owned()),
        Some(false) => {
            let reason = text_member(answer, "errorReason").unwrap_or_default();
            let fits =
                || payer_matches(answer, context) && network_matches_or_absent(answer, context);
            if reason == "settlement_pending" && !fits() {
                SettleOutcome::Unknown(CONTRADICTION_MESSAGE.to_owned())
            } else if reason == "settlement_pending" {
                SettleOutcome::Pending { receipt: receipt(), hash }
            } else if hash.is_none() && is_declined(answer, "errorReason") {
                SettleOutcome::Declined(reason)
            // A facilitator that compares keys names the transaction in `extra`. Without it, the rejection may refer to
            // our own earlier request.
            } else if reason == "duplicate_settlement"
                && context.key.is_some()
                && hash.is_none()
                && answer.get("extra").and_then(hash_in).is_some()
            {
                SettleOutcome::SettledForOther { receipt: receipt() }
            // A definite failure. In the remaining cases the facilitator itself failed, perhaps after a broadcast.
            } else if status < 500
                && hash.is_none()
                && !reason.is_empty()
                && !reason.starts_with("unexpected")
            {
                SettleOutcome::Failed { receipt: receipt(), reason }
            } else {
                SettleOutcome::Unknown(format!("it answers HTTP {status}: {reason}"))
            }
        }
        None => SettleOutcome::Unknown(format!("it answers HTTP {status} without an outcome")),
    }
}

/// Whether the answer names the sale's payer or no payer.
fn payer_matches(answer: &Value, context: SaleContext) -> bool {
    match answer.get("payer") {
        None | Some(Value::Null) => true,
        Some(payer) => {
            let payer = payer.as_str().and_then(|text| text.parse::<Address>().ok());
            payer == Some(context.payer)
        }
    }
}

fn network_matches(answer: &Value, context: SaleContext) -> bool {
    let network = answer.get("network").and_then(Value::as_str);
    network.and_then(by_id_or_v1_name) == Some(context.network)
}

/// Whether a pending answer names the sale's network, or none.
fn network_matches_or_absent(answer: &Value, context: SaleContext) -> bool {
    matches!(answer.get("network"), None | Some(Value::Null)) || network_matches(answer, context)
}

/// Returns the member `transaction`, if it is a hash.
fn hash_in(answer: &Value) -> Option<B256> {
    let text = answer.get("transaction").and_then(Value::as_str)?;
    text.strip_prefix("0x").filter(|digits| digits.len() == 64)?.parse().ok()
}

fn is_declined(answer: &Value, key: &str) -> bool {
    answer.get(key).and_then(Value::as_str).is_some_and(|reason| DECLINED_REASONS.contains(&reason))
}

/// Returns a receipt with the protocol's members only, each of bounded length.
fn receipt(answer: &Value, network: &Network) -> Object {
    let mut receipt = Object::new();
    receipt.insert("success", answer.get("success").and_then(Value::as_bool).unwrap_or(false));
    receipt.insert("transaction", text_member(answer, "transaction").unwrap_or_default());
    receipt.insert("network", text_member(answer, "network").unwrap_or_else(|| network.caip2()));
    for key in ["payer", "amount", "errorReason", "errorMessage"] {
        if let Some(text) = text_member(answer, key) {
            receipt.insert(key, text);
        }
    }
    receipt
}

fn text_member(answer: &Value, key: &str) -> Option<String> {
    let text = answer.get(key)?.as_str()?;
    // Customers and terminals display this text, so control characters are replaced.
    let plain = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    Some(text.chars().map(plain).take(TEXT_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::{ChainId, by_chain};

    const PAYER: &str = "0x1111111111111111111111111111111111111111";

    fn context() -> SaleContext {
        let network = by_chain(ChainId(8453)).unwrap();
        SaleContext { network, payer: PAYER.parse().unwrap(), key: Some(SaleKey([7; 16])) }
    }

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), 8).unwrap()
    }

    #[test]
    fn a_verdict_that_contradicts_its_request_is_ignored() {
        let judge = |status, text: &str| verdict(status, &value(text), context());
        assert_eq!(judge(200, "{\"isValid\":true}"), Verdict::Valid);
        assert_eq!(
            judge(200, &format!("{{\"isValid\":true,\"payer\":\"{PAYER}\"}}")),
            Verdict::Valid
        );
        for (status, text) in [
            (500, "{\"isValid\":true}"),
            (200, "{\"isValid\":true,\"payer\":\"0x2222222222222222222222222222222222222222\"}"),
            (200, "{\"isValid\":true,\"payer\":7}"),
            (200, "{\"isValid\":\"true\"}"),
            (200, "{}"),
            (200, "[]"),
            (503, "{\"isValid\":false,\"invalidReason\":\"unexpected_verify_error\"}"),
            // These reasons do not concern the payment, so the proxy does not request another payment.
            (200, "{\"isValid\":false,\"invalidReason\":\"facilitator_out_of_gas\"}"),
            (503, "{\"isValid\":false,\"invalidReason\":\"gas_budget_spent\"}"),
        ] {
            assert!(matches!(judge(status, text), Verdict::Unavailable(_)), "{status} {text}");
        }
        let bad = judge(200, "{\"isValid\":false,\"invalidReason\":\"insufficient_balance\"}");
        assert!(matches!(bad, Verdict::Invalid { reason, .. } if reason == "insufficient_balance"));
        let bad = judge(400, "{\"isValid\":false}");
        assert!(matches!(bad, Verdict::Invalid { reason, .. } if reason == "invalid_payment"));
    }

    #[test]
    fn settle_answers_are_classified() {
        let hash = format!("0x{}", "ab".repeat(32));
        let judge = |status, text: &str| {
            let body = value(&text.replace("HASH", &hash));
            outcome(&FacilitatorAnswer { status, body, repeated: false }, context())
        };
        let good = "{\"success\":true,\"transaction\":\"HASH\",\"network\":\"eip155:8453\"}";
        assert!(matches!(judge(200, good), SettleOutcome::Settled { .. }));
        assert!(matches!(
            judge(200, &good.replace("eip155:8453", "base")),
            SettleOutcome::Settled { .. }
        ));
        for (status, text) in [
            (200, good.replace("8453", "4663")),
            (200, good.replace("HASH", "")),
            (200, good.replace("HASH", "0x12")),
            (200, good.replace("\"network\":\"eip155:8453\"", "\"a\":1")),
            (200, good.replace("true", "1")),
            (201, good.to_owned()),
            (503, "{\"success\":false,\"errorReason\":\"unexpected_settle_error\"}".to_owned()),
            (200, "{}".to_owned()),
        ] {
            assert!(matches!(judge(status, &text), SettleOutcome::Unknown(_)), "{status} {text}");
        }
        let pending =
            "{\"success\":false,\"errorReason\":\"settlement_pending\",\"transaction\":\"HASH\"}";
        let named = |outcome| match outcome {
            SettleOutcome::Pending { hash, .. } => hash.map(|hash| hash.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(named(judge(200, pending)), Some(hash.clone()));
        assert_eq!(named(judge(500, &pending.replace("HASH", ""))), None);
        assert_eq!(named(judge(200, &pending.replace("HASH", "0x12"))), None);
        assert_eq!(named(judge(200, &pending.replace("HASH", &"ab".repeat(32)))), None);
        // Payer and network may be absent. If present they must match, as in a success.
        let with =
            |members: &str| pending.replace("\"success\"", &format!("{members},\"success\""));
        for members in [
            format!("\"payer\":\"{PAYER}\",\"network\":\"base\""),
            "\"payer\":null,\"network\":null".to_owned(),
        ] {
            assert_eq!(named(judge(200, &with(&members))), Some(hash.clone()), "{members}");
        }
        for members in [
            "\"payer\":\"0x2222222222222222222222222222222222222222\"",
            "\"payer\":7",
            "\"network\":\"eip155:4663\"",
            "\"network\":\"nowhere\"",
            "\"network\":7",
        ] {
            assert!(matches!(judge(200, &with(members)), SettleOutcome::Unknown(_)), "{members}");
        }
        for reason in DECLINED_REASONS {
            for status in [200, 402, 429, 503] {
                let text = format!(
                    "{{\"success\":false,\"errorReason\":\"{reason}\",\"transaction\":\"\"}}"
                );
                assert_eq!(judge(status, &text), SettleOutcome::Declined(reason.to_owned()));
            }
        }
        let sent = "{\"success\":false,\"errorReason\":\"gas_too_high\",\"transaction\":\"HASH\"}";
        assert!(matches!(judge(200, sent), SettleOutcome::Unknown(_)), "something was sent");
        // Another caller received the success only if we sent a key and the answer names the other transaction.
        let used = "{\"success\":false,\"errorReason\":\"duplicate_settlement\",\"transaction\":\"\",\
                    \"extra\":{\"transaction\":\"HASH\"}}";
        assert!(matches!(judge(200, used), SettleOutcome::SettledForOther { .. }));
        for text in [used.replace("HASH", ""), used.replace("extra", "other")] {
            assert!(matches!(judge(200, &text), SettleOutcome::Failed { .. }), "{text}");
        }
        let keyless = SaleContext { key: None, ..context() };
        let body = value(&used.replace("HASH", &hash));
        let answer = FacilitatorAnswer { status: 200, body, repeated: false };
        assert!(matches!(outcome(&answer, keyless), SettleOutcome::Failed { .. }));
        for text in [
            "{\"success\":false}",
            "{\"success\":false,\"errorReason\":\"unexpected_error\"}",
            "{\"success\":false,\"errorReason\":\"x\",\"transaction\":\"HASH\"}",
        ] {
            assert!(matches!(judge(200, text), SettleOutcome::Unknown(_)), "{text}");
        }
        let failed = "{\"success\":false,\"errorReason\":\"insufficient_balance\",\"transaction\":\"\",\
                      \"network\":\"base\",\"errorMessage\":\"a\\u001bb\",\"extra\":{\"a\":1}}";
        let SettleOutcome::Failed { receipt, reason } = judge(200, failed) else { panic!() };
        assert_eq!(reason, "insufficient_balance");
        assert!(!receipt.contains("extra") && !receipt.contains('\u{1b}'), "{receipt}");
    }
}
