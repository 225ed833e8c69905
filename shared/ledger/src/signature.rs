//! Signatures as the device returns them.

use alloy_primitives::{Address, B256};
use bursar_x402::signature::{Signature65, recover};

use crate::command::{AnswerFault, Fields};

/// The data of an answer with a signature: `v`, `r` and `s`.
///
/// `v` is 27 or 28 for typed data and personal messages, and 0 or 1 for typed transactions. For legacy transactions it
/// is the low byte of `chain id × 2 + 35 + parity`, so the parity is found by recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSignature {
    pub v: u8,
    pub r: B256,
    pub s: B256,
}

/// The device's signature is not a signature of the digest by the expected address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the Ledger signed something else, or with another key: the signature was discarded")]
pub struct WrongSigner;

impl DeviceSignature {
    /// Reads the data of an answer with a signature.
    ///
    /// # Errors
    /// [`AnswerFault::Malformed`].
    pub fn read(data: &[u8]) -> Result<Self, AnswerFault> {
        let mut fields = Fields(data);
        let [v] = *fields.take()?;
        let (r, s) = (*fields.take()?, *fields.take()?);
        fields.end()?;
        Ok(Self { v, r: B256::new(r), s: B256::new(s) })
    }

    /// Returns the signature with the parity for which `signer` is recovered from `digest`.
    ///
    /// # Errors
    /// [`WrongSigner`].
    pub fn verify(&self, signer: Address, digest: B256) -> Result<Signature65, WrongSigner> {
        let with = |parity| Signature65::new(self.r, self.s, parity).ok();
        let recovers =
            |signature: &Signature65| recover(digest, signature).is_ok_and(|found| found == signer);
        [0, 1].into_iter().filter_map(with).find(recovers).ok_or(WrongSigner)
    }
}
