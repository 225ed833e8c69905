//! The signer of a test's service.

use alloy_primitives::{Address, B256, keccak256};
use bursar_chain::ports::BoxFuture;
use bursar_chain::tx_driver::SignOutcome;
use bursar_outbox::service::Signer;
use bursar_submit::OutboxKey;
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;

/// A private key in memory.
pub struct ServiceKey(SigningKey);

impl std::fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServiceKey")
    }
}

impl ServiceKey {
    /// Parses a private key in hex.
    pub fn from_hex(text: &str) -> Self {
        let bytes = hex::decode(text).expect("hex");
        Self(SigningKey::from_slice(&bytes).expect("a key"))
    }

    /// Returns the key's address.
    pub fn address(&self) -> Address {
        let point = self.0.verifying_key().to_encoded_point(false);
        Address::from_word(keccak256(&point.as_bytes()[1..]))
    }
}

impl Signer for ServiceKey {
    fn sign(&self, _key: OutboxKey, digest: B256) -> BoxFuture<'_, SignOutcome> {
        let (scalars, id) = self.0.sign_prehash_recoverable(digest.as_slice()).expect("signed");
        let (r, s) = scalars.split_bytes();
        let (r, s) = (B256::from_slice(&r), B256::from_slice(&s));
        let signature = Signature65::new(r, s, id.to_byte()).expect("a signature");
        Box::pin(async move { SignOutcome::Signed(signature) })
    }
}
