//! The header of a payment, in both versions of x402. It is built from stored pieces, so that a restarted wallet writes
//! the same text again. This module never signs.

use bursar_core::json::Value;
use bursar_core::limits::ECHO_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::authorization::Authorization;
use crate::error::X402Error;
use crate::header;
use crate::offer::Offer;
use crate::required::{PaymentRequired, Version};
use crate::signature::Signature65;

/// The parts of a challenge that the wallet sends back with the payment, as compact JSON.
///
/// Servers compare them with their offer, so the wallet changes no value in them.
///
/// The fields are private because [`payment_header`] joins the texts without parsing them: only JSON values can
/// become an echo. An echo from the journal is not checked again, because a stricter check must not make an old
/// journal unreadable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo(EchoParts);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum EchoParts {
    Nothing,
    /// Version 1 sends back the network in the offer's own spelling.
    V1 {
        network: String,
    },
    /// Version 2 sends back the whole offer, and the resource and extensions of the challenge.
    V2 {
        accepted: String,
        resource: Option<String>,
        extensions: Option<String>,
    },
}

impl Echo {
    /// Returns an echo without any parts.
    pub fn none() -> Self {
        Self(EchoParts::Nothing)
    }

    /// Takes the parts of a challenge that a payment for `offer` sends back.
    ///
    /// # Errors
    /// `InvalidFormat` if the parts together are longer than [`ECHO_BYTES_MAX`].
    pub fn new(challenge: &PaymentRequired, offer: &Offer) -> Result<Self, X402Error> {
        let compact = |value: &Option<Value>| value.as_ref().map(Value::to_compact);
        let echo = match challenge.version {
            Version::V1 => {
                let network = offer.raw.get("network").map(Value::to_compact);
                Self(EchoParts::V1 { network: network.unwrap_or_default() })
            }
            Version::V2 => Self(EchoParts::V2 {
                accepted: offer.raw.to_compact(),
                resource: compact(&challenge.resource),
                extensions: compact(&challenge.extensions),
            }),
        };
        if echo.byte_count() > ECHO_BYTES_MAX {
            return Err(X402Error::format("offer, resource and extensions are longer than 16 KiB"));
        }
        Ok(echo)
    }

    /// Returns an echo of the same version without the parts.
    ///
    /// The request's record has the parts, so other records can leave them out.
    #[must_use]
    pub fn without_parts(&self) -> Self {
        match self.0 {
            EchoParts::V1 { .. } => Self(EchoParts::V1 { network: String::new() }),
            EchoParts::Nothing | EchoParts::V2 { .. } => Self::none(),
        }
    }

    /// Returns whether the echo has no parts to send back.
    pub fn is_stripped(&self) -> bool {
        *self == self.without_parts()
    }

    /// Returns the x402 version of the payment.
    pub fn version(&self) -> Version {
        match self.0 {
            EchoParts::V1 { .. } => Version::V1,
            EchoParts::Nothing | EchoParts::V2 { .. } => Version::V2,
        }
    }

    /// Returns the name of the payment's header.
    pub fn header_name(&self) -> &'static str {
        match self.version() {
            Version::V1 => "X-PAYMENT",
            Version::V2 => "PAYMENT-SIGNATURE",
        }
    }

    fn byte_count(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match &self.0 {
            EchoParts::Nothing => 0,
            EchoParts::V1 { network } => network.len(),
            EchoParts::V2 { accepted, resource, extensions } => {
                let rest = length(resource).saturating_add(length(extensions));
                accepted.len().saturating_add(rest)
            }
        }
    }
}

/// Returns the value of the payment's header.
pub fn payment_header(
    echo: &Echo,
    authorization: &Authorization,
    signature: &Signature65,
) -> String {
    header::encode(&payment_json(echo, authorization, signature))
}

/// Returns the header's JSON, before base64.
///
/// The parts are joined as text, so that the echoed parts remain identical byte for byte. The other parts are hex and
/// decimal digits, which need no escapes.
fn payment_json(echo: &Echo, authorization: &Authorization, signature: &Signature65) -> String {
    let payload = payload_json(authorization, signature);
    match &echo.0 {
        EchoParts::Nothing => format!("{{\"x402Version\":2,\"payload\":{payload}}}"),
        EchoParts::V1 { network } => format!(
            "{{\"x402Version\":1,\"scheme\":\"exact\",\"network\":{network},\"payload\":{payload}}}"
        ),
        EchoParts::V2 { accepted, resource, extensions } => {
            let member = |key: &str, json: &Option<String>| {
                json.as_ref().map(|json| format!(",\"{key}\":{json}")).unwrap_or_default()
            };
            format!(
                "{{\"x402Version\":2,\"accepted\":{accepted},\"payload\":{payload}{}{}}}",
                member("resource", resource),
                member("extensions", extensions),
            )
        }
    }
}

/// Returns the signature and the signed terms as JSON.
///
/// All numbers are decimal strings: strict facilitators accept nothing else, and JSON readers that use doubles would
/// change a 256-bit number. Addresses are checksummed (EIP-55).
fn payload_json(terms: &Authorization, signature: &Signature65) -> String {
    let Authorization { from, to, value, valid_after, valid_before, nonce } = terms;
    format!(
        "{{\"signature\":\"{}\",\"authorization\":{{\
         \"from\":\"{from}\",\"to\":\"{to}\",\"value\":\"{value}\",\
         \"validAfter\":\"{valid_after}\",\"validBefore\":\"{valid_before}\",\"nonce\":\"{nonce}\"}}}}",
        signature.to_hex()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, U256, address};
    use bursar_core::json;

    const OFFER: &str = "{\"scheme\":\"exact\",\"network\":\"eip155:8453\",\"amount\":10000,\
        \"asset\":\"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913\",\
        \"payTo\":\"0x209693bc6afc0c5328ba36faf03c514ef312287c\",\"maxTimeoutSeconds\":60,\
        \"extra\":{\"version\":\"2\",\"name\":\"USD Coin\",\"z\":1.50,\"é\":\"\\u0007\\\"\\\\\"}}";

    fn challenge(more: &str) -> PaymentRequired {
        let text = format!("{{\"x402Version\":2,\"accepts\":[{OFFER}]{more}}}");
        PaymentRequired::parse(&json::parse(text.as_bytes(), 32).unwrap()).unwrap()
    }

    fn echo(more: &str) -> Result<Echo, X402Error> {
        let challenge = challenge(more);
        Echo::new(&challenge, challenge.offers.first().unwrap())
    }

    fn authorization() -> Authorization {
        Authorization {
            from: address!("0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a"),
            to: Address::repeat_byte(0xab),
            value: U256::MAX,
            valid_after: 0,
            valid_before: u64::MAX,
            nonce: B256::repeat_byte(0xcd),
        }
    }

    fn signature() -> Signature65 {
        let word = B256::with_last_byte(1);
        Signature65::new(word, word, 27).unwrap()
    }

    #[test]
    fn the_v2_header_has_exactly_these_members() {
        let top =
            ",\"resource\":{\"url\":\"https://a.example\"},\"extensions\":{\"b\":{\"info\":[]}}";
        let one = "0000000000000000000000000000000000000000000000000000000000000001";
        let max = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        let payload = format!(
            "{{\"signature\":\"0x{one}{one}1b\",\"authorization\":{{\
             \"from\":\"0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A\",\
             \"to\":\"0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB\",\"value\":\"{max}\",\
             \"validAfter\":\"0\",\"validBefore\":\"18446744073709551615\",\"nonce\":\"0x{}\"}}}}",
            "cd".repeat(32)
        );
        for (more, rest) in [("", ""), (top, top), (",\"resource\":null,\"extensions\":null", "")] {
            let json = payment_json(&echo(more).unwrap(), &authorization(), &signature());
            let wanted =
                format!("{{\"x402Version\":2,\"accepted\":{OFFER},\"payload\":{payload}{rest}}}");
            assert_eq!(json, wanted);
            let header = payment_header(&echo(more).unwrap(), &authorization(), &signature());
            assert_eq!(header::decode(&header).unwrap().to_compact(), wanted);
        }
    }

    #[test]
    fn version_1_names_scheme_and_network_as_they_were_offered() {
        for network in ["\"base\"", "\"BASE\"", "\"eip155:8453\"", "8453"] {
            let text = format!(
                "{{\"x402Version\":1,\"accepts\":[{{\"scheme\":\"exact\",\"network\":{network},\
                 \"maxAmountRequired\":\"1\",\"asset\":\"a\",\"payTo\":\"b\"}}]}}"
            );
            let challenge =
                PaymentRequired::parse(&json::parse(text.as_bytes(), 32).unwrap()).unwrap();
            let echo = Echo::new(&challenge, challenge.offers.first().unwrap()).unwrap();
            assert_eq!((echo.version(), echo.header_name()), (Version::V1, "X-PAYMENT"));
            let v1 = payment_json(&echo, &authorization(), &signature());
            let begin = format!(
                "{{\"x402Version\":1,\"scheme\":\"exact\",\"network\":{network},\"payload\":"
            );
            let payload = payload_json(&authorization(), &signature());
            assert_eq!(v1, format!("{begin}{payload}}}"));
        }
    }

    #[test]
    fn a_restarted_wallet_writes_the_same_header() {
        let whole =
            (echo(",\"resource\":\"https://a.example\"").unwrap(), authorization(), signature());
        let stored = postcard::to_allocvec(&whole).unwrap();
        let (echo, terms, signature): (Echo, Authorization, Signature65) =
            postcard::from_bytes(&stored).unwrap();
        let first = payment_header(&whole.0, &whole.1, &whole.2);
        assert_eq!(payment_header(&echo, &terms, &signature), first);
    }

    #[test]
    fn sixteen_kibibytes_are_kept_and_one_byte_more_is_not() {
        let room = ECHO_BYTES_MAX - OFFER.len();
        let of = |bytes: usize| {
            // Several strings, because one string may have at most 4 KiB.
            let parts = ["a".repeat(4050), "b".repeat(4050), "c".repeat(4050)];
            let json = |fill: usize| {
                let last = "d".repeat(fill);
                format!("[\"{}\",\"{last}\"]", parts.join("\",\""))
            };
            json(bytes - json(0).len() - 6)
        };
        let whole = |bytes| echo(&format!(",\"extensions\":{{\"x\":{}}}", of(bytes)));
        assert_eq!(whole(room).unwrap().byte_count(), ECHO_BYTES_MAX);
        assert!(matches!(whole(room + 1), Err(X402Error::InvalidFormat(_))));
    }
}
