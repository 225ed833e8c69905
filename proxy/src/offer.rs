//! The price of an answer in both versions of x402.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_core::json::{Object, Value};
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::Network;
use bursar_x402::{Version, header};

/// How a token is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Eip3009,
    Permit2,
}

/// Terms that all offers of a network share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub network: &'static Network,
    pub asset: Address,
    pub decimals: u8,
    pub pay_to: Address,
    pub method: Method,
    /// Name in the token's EIP-712 domain.
    pub name: String,
    pub version: String,
    pub max_timeout_seconds: u64,
}

/// The price of one answer on one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub terms: Arc<Terms>,
    /// Amount in the asset's smallest unit.
    pub amount: U256,
    /// URL of the resource.
    pub resource: Arc<str>,
}

/// The estimate behind the price, shown with the offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    pub model: Option<String>,
    pub prompt_tokens: u64,
    pub completion_tokens_max: u64,
    /// Dollars as a plain decimal.
    pub usd: String,
}

const DESCRIPTION: &str = "One chat completion, priced by its tokens";
const OFFER_MIME_TYPE: &str = "application/json";

impl Offer {
    /// Returns the `PaymentRequirements` of a version.
    pub fn requirements(&self, version: Version) -> Object {
        let terms = &self.terms;
        let network = match version {
            Version::V1 => terms.network.v1_names.first().copied().unwrap_or_default().to_owned(),
            Version::V2 => terms.network.caip2(),
        };
        let amount = match version {
            Version::V1 => "maxAmountRequired",
            Version::V2 => "amount",
        };
        let mut extra = Object::new();
        match terms.method {
            Method::Eip3009 => {
                extra.insert("name", terms.name.as_str());
                extra.insert("version", terms.version.as_str());
            }
            Method::Permit2 => {
                extra.insert("assetTransferMethod", "permit2");
            }
        }
        let object = Object::new()
            .with("scheme", "exact")
            .with("network", network)
            .with(amount, self.amount.to_string())
            .with("asset", terms.asset.to_checksum(None))
            .with("payTo", terms.pay_to.to_checksum(None))
            .with("maxTimeoutSeconds", terms.max_timeout_seconds);
        let object = match version {
            Version::V1 => object
                .with("resource", &*self.resource)
                .with("description", DESCRIPTION)
                .with("mimeType", OFFER_MIME_TYPE),
            Version::V2 => object,
        };
        object.with("extra", extra)
    }

    /// Returns the body of `/verify` and `/settle` for a payment, as JSON.
    pub fn facilitator_request(&self, version: Version, payment: &Value) -> String {
        let facilitator_request = Object::new()
            .with("x402Version", version.number())
            .with("paymentPayload", payment.clone())
            .with("paymentRequirements", self.requirements(version));
        facilitator_request.to_compact()
    }

    /// Returns the amount in dollars as a plain decimal.
    ///
    /// One token counts as one dollar.
    pub fn usd(&self) -> String {
        TokenAmount { atoms: Atoms(self.amount), decimals: self.terms.decimals }.plain()
    }
}

/// A request for payment (402 or 412): the header `PAYMENT-REQUIRED` for version 2 clients, the body for version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    pub header: String,
    pub body: String,
}

impl Challenge {
    /// Builds the challenge of a 402 response.
    ///
    /// `error` is a string in both versions, because clients require one.
    pub fn new(offers: &[Offer], estimate: &Estimate, error: &str) -> Self {
        // Official version 1 clients refuse a list that contains a network that they do not know.
        let official = offers.iter().any(|offer| offer.terms.network.v1_official);
        let is_listed = |version, offer: &&Offer| {
            version == Version::V2 || !official || offer.terms.network.v1_official
        };
        let accepts = |version| {
            let all = offers.iter().filter(|offer| is_listed(version, offer));
            all.map(|offer| Value::from(offer.requirements(version))).collect::<Vec<_>>()
        };
        let resource = offers.first().map(|offer| &*offer.resource).unwrap_or_default();
        let second = Object::new()
            .with("x402Version", 2u64)
            .with("error", error)
            .with(
                "resource",
                Object::new()
                    .with("url", resource)
                    .with("description", DESCRIPTION)
                    .with("mimeType", OFFER_MIME_TYPE),
            )
            .with("accepts", accepts(Version::V2));
        let model = match &estimate.model {
            Some(model) => Value::from(model.as_str()),
            None => Value::Null,
        };
        let first = Object::new()
            .with("x402Version", 1u64)
            .with("error", error)
            .with("accepts", accepts(Version::V1))
            .with(
                "price",
                Object::new()
                    .with("usd", estimate.usd.as_str())
                    .with("prompt_tokens", estimate.prompt_tokens)
                    .with("completion_tokens_max", estimate.completion_tokens_max)
                    .with("model", model),
            );
        Self { header: header::encode(&second.to_compact()), body: first.to_compact() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::json::parse;
    use bursar_core::networks::{ChainId, by_chain};
    use bursar_x402::required::PaymentRequired;

    fn offer(chain: u64) -> Offer {
        let network = by_chain(ChainId(chain)).unwrap();
        let coin = network.stablecoin;
        let terms = Terms {
            network,
            asset: coin.address,
            decimals: coin.decimals,
            pay_to: Address::repeat_byte(0x11),
            method: Method::Eip3009,
            name: coin.domain_name.to_owned(),
            version: coin.domain_version.to_owned(),
            max_timeout_seconds: 600,
        };
        let resource = "https://llm.example/v1/chat/completions".into();
        Offer { terms: Arc::new(terms), amount: U256::from(1_044), resource }
    }

    #[test]
    fn both_x402_versions_offer_the_same_terms() {
        let offers = [offer(8453), offer(4663)];
        let estimate = Estimate {
            model: Some("gpt-\"x\"".to_owned()),
            prompt_tokens: 20,
            completion_tokens_max: 1_024,
            usd: offers[0].usd(),
        };
        assert_eq!(estimate.usd, "0.001044");
        let challenge = Challenge::new(&offers, &estimate, "payment required");
        let second = PaymentRequired::parse(&header::decode(&challenge.header).unwrap()).unwrap();
        let body = parse(challenge.body.as_bytes(), 32).unwrap();
        let first = PaymentRequired::parse(&body).unwrap();
        assert_eq!((first.version, second.version), (Version::V1, Version::V2));
        for (one, two) in first.offers.iter().zip(&second.offers) {
            assert_eq!(one.amount, two.amount);
            assert_eq!(one.network, two.network);
            assert_eq!(one.pay_to, two.pay_to);
            assert_eq!(one.max_timeout_seconds, two.max_timeout_seconds);
        }
        // Version 1 clients do not know Robinhood, and would refuse both offers.
        assert_eq!((first.offers.len(), second.offers.len()), (1, 2));
        let alone = Challenge::new(&offers[1..], &estimate, "payment required");
        let body_alone = parse(alone.body.as_bytes(), 32).unwrap();
        assert_eq!(PaymentRequired::parse(&body_alone).unwrap().offers.len(), 1);
        let price = body.get("price").unwrap();
        assert_eq!(price.get("model").and_then(Value::as_str), Some("gpt-\"x\""));
        assert_eq!(price.get("prompt_tokens").unwrap().to_compact(), "20");
        assert_eq!(price.get("completion_tokens_max").unwrap().to_compact(), "1024");
        assert_eq!(price.get("usd").and_then(Value::as_str), Some("0.001044"));
        let unnamed = Estimate { model: None, ..estimate };
        let body = Challenge::new(&offers, &unnamed, "payment required").body;
        assert!(body.contains("\"model\":null"), "{body}");
    }

    /// The JSON is compared exactly, because signers read every member.
    #[test]
    fn requirements_have_the_members_of_their_version() {
        let offer = offer(8453);
        let shared = "\"asset\":\"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\",\"payTo\":\
                      \"0x1111111111111111111111111111111111111111\",\"maxTimeoutSeconds\":600";
        let extra = "\"extra\":{\"name\":\"USD Coin\",\"version\":\"2\"}";
        assert_eq!(
            offer.requirements(Version::V2).to_compact(),
            format!(
                "{{\"scheme\":\"exact\",\"network\":\"eip155:8453\",\"amount\":\"1044\",{shared},{extra}}}"
            )
        );
        assert_eq!(
            offer.requirements(Version::V1).to_compact(),
            format!(
                "{{\"scheme\":\"exact\",\"network\":\"base\",\"maxAmountRequired\":\"1044\",{shared},\
                 \"resource\":\"https://llm.example/v1/chat/completions\",\
                 \"description\":\"One chat completion, priced by its tokens\",\
                 \"mimeType\":\"application/json\",{extra}}}"
            )
        );
        let permit = Terms { method: Method::Permit2, ..(*offer.terms).clone() };
        let permit = Offer { terms: Arc::new(permit), ..offer };
        let requirements = permit.requirements(Version::V2).to_compact();
        assert!(
            requirements.ends_with("\"extra\":{\"assetTransferMethod\":\"permit2\"}}"),
            "{requirements}"
        );
        // The request contains the payment unchanged, and the requirements.
        let payment = parse(b"{\"a\":[1]}", 8).unwrap();
        let facilitator_request = permit.facilitator_request(Version::V1, &payment);
        let rest = permit.requirements(Version::V1).to_compact();
        assert_eq!(
            facilitator_request,
            format!(
                "{{\"x402Version\":1,\"paymentPayload\":{{\"a\":[1]}},\"paymentRequirements\":{rest}}}"
            )
        );
    }
}
