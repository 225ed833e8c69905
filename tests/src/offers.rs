//! Payment offers as a merchant sends them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_core::networks::{self, ChainId};
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::{Signature65, recover};
use bursar_x402::typed_data::TokenDomain;
use serde_json::{Value, json};

/// Base, whose stablecoin most tests pay with.
pub const BASE: ChainId = ChainId(8453);

/// The receiving address of the offers.
pub const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// Returns an x402 v2 challenge for `atoms` smallest units of the chain's stablecoin, for `url`.
pub fn challenge(chain: ChainId, atoms: u64, url: &str) -> Value {
    let coin = networks::by_chain(chain).expect("a network of the table").stablecoin;
    json!({
        "x402Version": 2,
        "error": "payment required",
        "resource": {"url": url, "description": "a test", "mimeType": "application/json"},
        "accepts": [{
            "scheme": "exact",
            "network": format!("eip155:{chain}"),
            "amount": atoms.to_string(),
            "asset": coin.address.to_checksum(None),
            "payTo": PAY_TO,
            "maxTimeoutSeconds": 60,
            "extra": {"name": coin.domain_name, "version": coin.domain_version},
        }],
    })
}

/// Encodes a challenge as the header's value (base64).
pub fn header(challenge: &Value) -> String {
    STANDARD.encode(challenge.to_string())
}

/// Returns a challenge header on Base that is different for every `n`.
pub fn offer(atoms: u64, n: u64) -> String {
    header(&challenge(BASE, atoms, &format!("https://api.example.com/{n}")))
}

/// Decodes the JSON inside a payment header.
pub fn decode_header(header_value: &str) -> Value {
    let bytes = STANDARD.decode(header_value).expect("base64");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Returns the terms in a payment header and the address that signed them.
///
/// The signature is checked under the domain of our table's stablecoin on [`BASE`].
pub fn signed_terms(header_value: &str) -> (Authorization, String) {
    let payload = decode_header(header_value);
    let terms = &payload["payload"]["authorization"];
    let text = |name: &str| terms[name].as_str().expect("a string").to_owned();
    let authorization = Authorization {
        from: text("from").parse().expect("an address"),
        to: text("to").parse().expect("an address"),
        value: text("value").parse().expect("a number"),
        valid_after: text("validAfter").parse().expect("a number"),
        valid_before: text("validBefore").parse().expect("a number"),
        nonce: text("nonce").parse().expect("32 bytes"),
    };
    let signature = payload["payload"]["signature"].as_str().expect("a string");
    let signature: Signature65 = signature.parse().expect("a signature");
    let network = networks::by_chain(BASE).expect("a network of the table");
    let digest = TokenDomain::of_stablecoin(network).digest(&authorization);
    (authorization, recover(digest, &signature).expect("a signer").to_string())
}
