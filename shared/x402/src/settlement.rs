//! The body that a resource server sends to a facilitator's `/verify` and `/settle`. It covers x402 v1 and v2, and the
//! short form of older clients, which lacks all values that a facilitator can look up.

use alloy_primitives::{Address, U256};
use bursar_core::json::{Object, Value};

use crate::error::X402Error;
use crate::fields::Fields;
use crate::offer::{Extra, V1_AMOUNT, V2_AMOUNT};
use crate::required::Version;

/// The response header that marks a repeated success: an earlier request got the same success.
///
/// A server that reads it can sell once per payment without storing payments itself.
pub const REPEATED_HEADER: &str = "x-settlement-repeated";

/// A body of `/verify` or `/settle`, parsed but not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlementRequest {
    pub version: Version,
    /// The payment that the payer must have signed.
    pub requirements: Requirements,
    /// The scheme that the payment itself names, if any.
    pub paid_scheme: Option<String>,
    /// The network that the payment itself names, if any, as written.
    pub paid_network: Option<String>,
    /// The signed data, in the form of the scheme.
    pub payload: Object,
    /// The protocol extensions that the payer's client sent; empty if it sent none.
    pub extensions: Object,
    /// Whether the requirements have no `extra`.
    ///
    /// Older clients send no `extra`, and check only the HTTP status of a response.
    pub lacks_extra: bool,
}

/// The payment that a resource server requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirements {
    pub scheme: String,
    /// The network as written, to send back.
    pub network: String,
    pub asset: Address,
    pub pay_to: Address,
    /// In the smallest unit of the asset.
    pub amount: U256,
    pub extra: Extra,
    /// The members of `extra` that only payment channels have.
    pub channel: ChannelExtra,
}

/// The terms of a payment channel that a resource server requires.
///
/// An invalid member counts as absent, because other schemes may use its name with another meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelExtra {
    pub receiver_authorizer: Option<Address>,
    /// In seconds.
    pub withdraw_delay: Option<u64>,
}

impl ChannelExtra {
    fn parse(extra: Option<&Object>) -> Self {
        let Some(extra) = extra.map(|extra| Fields::new(extra, "")) else { return Self::default() };
        Self {
            receiver_authorizer: extra.address("receiverAuthorizer").ok(),
            withdraw_delay: extra.count("withdrawDelay").ok().flatten(),
        }
    }
}

/// Why a body is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettlementFault {
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The versions are invalid or differ. The rest of the body was not read.
    #[error(
        "`x402Version` must be 1 or 2, and equal to `paymentPayload.x402Version` if the body has both"
    )]
    Version,
}

impl SettlementRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// [`SettlementFault`]; the texts name the member.
    pub fn parse(body: &Value) -> Result<Self, SettlementFault> {
        let object = body.as_object().ok_or_else(|| X402Error::format("it is not an object"))?;
        let top = Fields::new(object, "");
        let paid = top.required("paymentPayload", top.object("paymentPayload")?)?;
        let paid = Fields::new(paid, "paymentPayload.");
        let wanted = top.required("paymentRequirements", top.object("paymentRequirements")?)?;
        let wanted = Fields::new(wanted, "paymentRequirements.");
        let version = version(top.count("x402Version")?, paid.count("x402Version")?)?;
        let accepted = paid.object("accepted")?;
        let accepted = accepted.map(|object| Fields::new(object, "paymentPayload.accepted."));
        let named = accepted.as_ref().unwrap_or(&paid);
        Ok(Self {
            version,
            requirements: Requirements::parse(&wanted)?,
            paid_scheme: named.text("scheme")?.map(str::to_owned),
            paid_network: named.digits("network")?.map(str::to_owned),
            payload: paid.required("payload", paid.object("payload")?)?.clone(),
            extensions: paid.object("extensions").ok().flatten().cloned().unwrap_or_default(),
            lacks_extra: wanted.value("extra").is_none(),
        })
    }
}

impl SettlementRequest {
    /// Builds a request of version 2 without `extra`, whose payment names no scheme and no network.
    pub fn from_bare_payload(requirements: Requirements, payload: Object) -> Self {
        Self {
            version: Version::V2,
            requirements,
            paid_scheme: None,
            paid_network: None,
            payload,
            extensions: Object::default(),
            lacks_extra: true,
        }
    }
}

impl Requirements {
    fn parse(fields: &Fields<'_>) -> Result<Self, X402Error> {
        Ok(Self {
            scheme: fields.required("scheme", fields.text("scheme")?)?.to_owned(),
            network: fields.required("network", fields.digits("network")?)?.to_owned(),
            asset: fields.address("asset")?,
            pay_to: fields.address("payTo")?,
            amount: amount(fields)?,
            extra: Extra::parse(fields.object("extra")?, "paymentRequirements.")?,
            channel: ChannelExtra::parse(fields.object("extra")?),
        })
    }
}

fn version(top: Option<u64>, paid: Option<u64>) -> Result<Version, SettlementFault> {
    let declared = match (top, paid) {
        (Some(top), Some(paid)) if top != paid => return Err(SettlementFault::Version),
        (Some(declared), _) | (None, Some(declared)) => declared,
        (None, None) => {
            return Err(X402Error::format("x402Version is missing").into());
        }
    };
    match declared {
        1 => Ok(Version::V1),
        2 => Ok(Version::V2),
        _other => Err(SettlementFault::Version),
    }
}

/// Reads the amount. Older clients use the field name of version 1 in every version.
fn amount(fields: &Fields<'_>) -> Result<U256, X402Error> {
    match (fields.amount(V1_AMOUNT)?, fields.amount(V2_AMOUNT)?) {
        (Some(old), Some(new)) if old != new => {
            Err(fields.error(V2_AMOUNT, "and maxAmountRequired differ"))
        }
        (Some(amount), _) | (None, Some(amount)) => Ok(amount),
        (None, None) => Err(fields.error(V2_AMOUNT, "is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::json::parse;

    const ASSET: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

    fn read(text: &str) -> Result<SettlementRequest, SettlementFault> {
        SettlementRequest::parse(&parse(text.as_bytes(), 32).unwrap())
    }

    fn body(version: &str, paid: &str, wanted: &str) -> String {
        format!(
            "{{{version}\"paymentPayload\":{{{paid}\"payload\":{{\"a\":1}}}},\"paymentRequirements\":\
             {{\"scheme\":\"exact\",\"asset\":\"{ASSET}\",\"payTo\":\"{PAY_TO}\",{wanted}}}}}"
        )
    }

    #[test]
    fn both_versions_and_the_short_form_are_read() {
        let v2 = body(
            "\"x402Version\":2,",
            "\"x402Version\":2,\"accepted\":{\"scheme\":\"exact\",\"network\":\"eip155:8453\"},",
            "\"network\":\"eip155:8453\",\"amount\":\"7\",\"extra\":{\"name\":\"USD Coin\"}",
        );
        let whole = read(&v2).unwrap();
        assert_eq!((whole.version, whole.lacks_extra), (Version::V2, false));
        assert_eq!(whole.requirements.amount, U256::from(7));
        assert_eq!(whole.requirements.extra.name.as_deref(), Some("USD Coin"));
        assert_eq!(whole.paid_network.as_deref(), Some("eip155:8453"));
        let v1 = body(
            "",
            "\"x402Version\":1,\"scheme\":\"exact\",\"network\":\"base\",",
            "\"network\":\"base\",\"maxAmountRequired\":\"7\"",
        );
        let whole = read(&v1).unwrap();
        assert_eq!((whole.version, whole.lacks_extra), (Version::V1, true));
        assert_eq!(whole.paid_scheme.as_deref(), Some("exact"));
        let short = body(
            "\"x402Version\":2,",
            "",
            "\"network\":8453,\"maxAmountRequired\":7,\"extra\":null",
        );
        let whole = read(&short).unwrap();
        assert_eq!((whole.version, whole.lacks_extra), (Version::V2, true));
        assert_eq!(whole.requirements.network, "8453");
    }

    #[test]
    fn an_invalid_settlement_request_is_refused_naming_the_member() {
        let good = |wanted: &str| body("\"x402Version\":1,", "", wanted);
        for (text, reason) in [
            ("[]".to_owned(), "it is not an object"),
            ("{}".to_owned(), "paymentPayload is missing"),
            ("{\"paymentPayload\":{}}".to_owned(), "paymentRequirements is missing"),
            (body("", "", "\"network\":\"base\",\"amount\":\"1\""), "x402Version is missing"),
            (
                body("\"x402Version\":\"1\",", "", "\"network\":\"base\",\"amount\":\"1\""),
                "x402Version is not a whole number",
            ),
            (good("\"network\":\"base\""), "paymentRequirements.amount is missing"),
            (good("\"amount\":\"1\""), "paymentRequirements.network is missing"),
            (good("\"network\":\"base\",\"amount\":\"-1\""), "paymentRequirements.amount"),
            (good("\"network\":\"base\",\"amount\":1.5"), "paymentRequirements.amount"),
            (good("\"network\":\"base\",\"amount\":\"1e3\""), "paymentRequirements.amount"),
            (good("\"network\":\"base\",\"amount\":\"0x10\""), "paymentRequirements.amount"),
            (
                good("\"network\":\"base\",\"amount\":\"1\",\"maxAmountRequired\":\"2\""),
                "and maxAmountRequired differ",
            ),
            (
                good("\"network\":\"base\",\"amount\":\"1\",\"extra\":[]"),
                "paymentRequirements.extra is not an object",
            ),
            (
                good("\"network\":\"base\",\"amount\":\"1\"").replace(PAY_TO, "merchant.eth"),
                "paymentRequirements.payTo is not 0x and 40 hex digits",
            ),
            (
                good("\"network\":\"base\",\"amount\":\"1\"")
                    .replace(PAY_TO, &PAY_TO.replace("Bc6", "bc6")),
                "paymentRequirements.payTo has a wrong checksum",
            ),
            (
                good("\"network\":\"base\",\"amount\":\"1\"")
                    .replace(ASSET, &ASSET.replace("fCD6", "fcD6")),
                "paymentRequirements.asset has a wrong checksum",
            ),
            (
                good("\"network\":\"base\",\"amount\":\"1\"").replace("{\"a\":1}", "[]"),
                "paymentPayload.payload is not an object",
            ),
        ] {
            let refused = read(&text).unwrap_err().to_string();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        for (top, paid) in [("3", "3"), ("0", "0"), ("1", "2")] {
            let text = body(
                &format!("\"x402Version\":{top},"),
                &format!("\"x402Version\":{paid},"),
                "\"network\":\"base\",\"amount\":\"1\"",
            );
            assert_eq!(read(&text), Err(SettlementFault::Version));
        }
    }
}
