//! The HTTP side: 402 with an offer, or the goods with a receipt, in the headers of the resource's x402 version.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::B256;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::book::{Outcome, ReceivedPayment};
use super::payment::{self, Payment, Refusal};
use super::shop::{PricedResource, Shop};
use super::version::Version;
use crate::stable::Authorization;

const OFFER_HEADER: &str = "payment-required";

/// The text that every sale without a chain contains, so that no reader believes that money moved.
const VERIFIED_ONLY: &str = "only the signature was verified; no money moved";

pub(super) fn router(shop: Arc<Shop>) -> Router {
    Router::new().fallback(answer).with_state(shop)
}

async fn answer(State(shop): State<Arc<Shop>>, request: Request<Body>) -> Response {
    let path = request.uri().path().to_owned();
    let Some(item) = shop.goods.get(&path).copied() else {
        return reply(StatusCode::NOT_FOUND, &json!({ "error": "nothing is sold here" }));
    };
    if request.method() != Method::GET {
        return reply(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": "GET only" }));
    }
    let Some(payment) = read_payment(request.headers(), item.version) else {
        return shop.require_payment(&path, item, "Payment required", &json!({}));
    };
    // The sale runs in a separate task, so that a payer who disconnects does not stop a settlement halfway.
    let sale = tokio::spawn(async move { shop.sell(&path, item, &payment).await });
    sale.await.unwrap_or_else(|_died| {
        reply(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": "the sale broke off" }))
    })
}

/// Returns the payment header. Two payment headers count as one malformed header.
fn read_payment(headers: &HeaderMap, version: Version) -> Option<Vec<u8>> {
    let all = headers.get_all(version.payment_header());
    let all: Vec<&[u8]> = all.iter().map(|value| value.as_bytes()).collect();
    if all.is_empty() { None } else { Some(all.join(&b',')) }
}

impl Shop {
    /// Processes a payment, records it, and responds.
    async fn sell(&self, path: &str, item: PricedResource, header: &[u8]) -> Response {
        let payload = payment::decode(header);
        let checked =
            payload.clone().and_then(|json| payment::check(self, (path, item), json, now_s()));
        let outcome = match checked {
            Ok(payment) => {
                let offered = self.requirement(path, item);
                let payload = payload.clone().unwrap_or_default();
                self.charge(item.version, payment, &payload, &offered).await
            }
            Err(refusal) => Outcome::Refused { reason: refusal.to_string() },
        };
        let response = match &outcome {
            Outcome::Settled { terms, transaction } => {
                self.deliver(path, item.version, terms, Some(*transaction))
            }
            Outcome::VerifiedOnly { terms } => self.deliver(path, item.version, terms, None),
            Outcome::Refused { reason } => self.refuse(path, item, reason),
        };
        let path = path.to_owned();
        self.book.record(ReceivedPayment { path, payload: payload.ok(), outcome });
        response
    }

    /// Ensures that an authorization buys only once, and settles it if there is a chain.
    async fn charge(
        &self,
        version: Version,
        payment: Payment,
        payload: &Value,
        offered: &Value,
    ) -> Outcome {
        if !self.book.claim(&payment.terms) {
            return Outcome::Refused { reason: Refusal::Nonce(payment.terms.nonce).to_string() };
        }
        let Some(settling) = &self.settle else {
            return Outcome::VerifiedOnly { terms: payment.terms };
        };
        match settling.settle(version, &payment.terms, &payment.signature, payload, offered).await {
            Ok(transaction) => Outcome::Settled { terms: payment.terms, transaction },
            Err(reason) => {
                self.book.release(&payment.terms);
                Outcome::Refused { reason: Refusal::Settlement(reason).to_string() }
            }
        }
    }

    fn deliver(
        &self,
        path: &str,
        version: Version,
        terms: &Authorization,
        transaction: Option<B256>,
    ) -> Response {
        let hash = transaction.map(|hash| hash.to_string());
        let payer = terms.from.to_checksum(None);
        let network = version.name_of(self.network);
        let mut receipt = json!({
            "success": true, "transaction": hash.as_deref().unwrap_or_default(),
            "network": network, "payer": payer,
        });
        let mut goods = json!({
            "content": format!("What you paid for at {path}."), "paid": terms.value.to_string(),
            "payer": payer, "network": network, "settled": transaction.is_some(), "transaction": hash,
        });
        if transaction.is_none() {
            receipt["extra"] = json!({ "settled": false, "note": VERIFIED_ONLY });
            goods["note"] = json!(VERIFIED_ONLY);
        }
        let receipt = (version.receipt_header(), encode_header(&receipt));
        let headers = [receipt, (header::CACHE_CONTROL.as_str(), "private".into())];
        (headers, reply(StatusCode::OK, &goods)).into_response()
    }

    /// Responds with 402, the offer again, a failed receipt, and the reason.
    fn refuse(&self, path: &str, item: PricedResource, reason: &str) -> Response {
        let receipt = json!({
            "success": false, "transaction": "", "network": item.version.name_of(self.network),
            "errorReason": reason,
        });
        let challenge = self.require_payment(path, item, reason, &json!({ "error": reason }));
        ([(item.version.receipt_header(), encode_header(&receipt))], challenge).into_response()
    }

    /// Sends the challenge: in the body for version 1, and in a header for version 2, whose body is free.
    fn require_payment(
        &self,
        path: &str,
        item: PricedResource,
        error: &str,
        body: &Value,
    ) -> Response {
        let challenge = self.challenge(path, item, error);
        let fresh = [(header::CACHE_CONTROL, "no-store")];
        match item.version {
            Version::V1 => (fresh, reply(StatusCode::PAYMENT_REQUIRED, &challenge)).into_response(),
            Version::V2 => {
                let offer = [(OFFER_HEADER, encode_header(&challenge))];
                (offer, fresh, reply(StatusCode::PAYMENT_REQUIRED, body)).into_response()
            }
        }
    }
}

fn reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Encodes JSON for a header.
fn encode_header(value: &Value) -> String {
    STANDARD.encode(value.to_string())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the merchant stands for a stranger's machine, whose clock is not ours to inject"
)]
fn now_s() -> u64 {
    // With a clock before 1970, every authorization counts as not yet valid and is refused.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
