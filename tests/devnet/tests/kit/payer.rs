//! A payer for tests, written by hand from the standards. It shares no code with the merchant or the wallet, so their
//! agreement is evidence that all are correct.

use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, B256, U256, keccak256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bursar_core::networks::Network;
use bursar_devnet::Authorization;
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};

/// A throw-away key.
pub(crate) struct Payer {
    key: SigningKey,
}

impl Payer {
    pub(crate) fn new(seed: u8) -> Self {
        Self { key: SigningKey::from_slice(&[seed; 32]).unwrap() }
    }

    pub(crate) fn address(&self) -> Address {
        let point = self.key.verifying_key().to_encoded_point(false);
        Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..])
    }

    /// Returns terms that are valid from a minute ago until a minute from now.
    pub(crate) fn terms(&self, to: Address, value: u64, nonce: u8) -> Authorization {
        Authorization {
            from: self.address(),
            to,
            value: U256::from(value),
            valid_after: U256::from(now_s() - 60),
            valid_before: U256::from(now_s() + 60),
            nonce: B256::repeat_byte(nonce),
        }
    }

    pub(crate) fn sign(&self, network: &Network, terms: &Authorization) -> Vec<u8> {
        let kind = "TransferWithAuthorization(address from,address to,uint256 value,\
                    uint256 validAfter,uint256 validBefore,bytes32 nonce)";
        let words = [
            keccak256(kind),
            terms.from.into_word(),
            terms.to.into_word(),
            terms.value.into(),
            terms.valid_after.into(),
            terms.valid_before.into(),
            terms.nonce,
        ];
        self.sign_struct(network, &words)
    }

    /// Signs an EIP-712 struct in the coin's domain; `words` are its type hash and its words.
    pub(crate) fn sign_struct(&self, network: &Network, words: &[B256]) -> Vec<u8> {
        self.sign_under(network.stablecoin.domain_separator, words)
    }

    /// Signs an EIP-712 struct in any domain.
    pub(crate) fn sign_under(&self, domain: B256, words: &[B256]) -> Vec<u8> {
        let digest = digest(domain, words);
        let (signature, recovery) = self.key.sign_prehash_recoverable(digest.as_slice()).unwrap();
        [&signature.to_bytes()[..], &[27 + recovery.to_byte()]].concat()
    }

    /// Returns the signed payment header for an offer.
    pub(crate) fn header(
        &self,
        network: &Network,
        accepted: &Value,
        terms: &Authorization,
    ) -> String {
        pack(&payload(accepted, terms, &self.sign(network, terms)))
    }

    /// Returns the header for version 1, which repeats only the network's name from the offer.
    pub(crate) fn header_v1(
        &self,
        network: &Network,
        named: &Value,
        terms: &Authorization,
    ) -> String {
        let signed = payload(&Value::Null, terms, &self.sign(network, terms));
        pack(&json!({
            "x402Version": 1, "scheme": "exact", "network": named, "payload": signed["payload"],
        }))
    }
}

/// Returns the EIP-712 digest of a struct.
pub(crate) fn digest(domain: B256, words: &[B256]) -> B256 {
    let content = keccak256(words.concat());
    keccak256([b"\x19\x01", domain.as_slice(), content.as_slice()].concat())
}

/// Returns the x402 payload of an authorization.
pub(crate) fn payload(accepted: &Value, terms: &Authorization, signature: &[u8]) -> Value {
    json!({
        "x402Version": 2,
        "accepted": accepted,
        "payload": {
            "signature": format!("0x{}", hex::encode(signature)),
            "authorization": {
                "from": terms.from, "to": terms.to, "value": terms.value.to_string(),
                "validAfter": terms.valid_after.to_string(),
                "validBefore": terms.valid_before.to_string(),
                "nonce": terms.nonce,
            },
        },
    })
}

pub(crate) fn pack(value: &Value) -> String {
    STANDARD.encode(value.to_string())
}

pub(crate) fn unpack(header: &str) -> Value {
    serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the chain and the merchant under test use it too")]
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
