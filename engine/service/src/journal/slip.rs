//! The right to one signature.

use alloy_primitives::{Address, B256};
use bursar_core::ids::RequestId;
use bursar_domain::Request;

use super::Committed;

/// Allows the vault to sign exactly one digest with exactly one key, while its epoch lasts. It exists only
/// for what the journal holds: `Slip::issue` takes the proof of a commit or of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    request: RequestId,
    signer: Address,
    digest: B256,
    epoch: u64,
}

impl Slip {
    /// The slip of an authorized request; `None` if the request is not authorized.
    pub(crate) fn issue(_on_disk: &Committed, request: &Request, epoch: u64) -> Option<Self> {
        let digest = request.digest()?;
        Some(Self { request: request.id, signer: request.from, digest, epoch })
    }

    pub fn request(&self) -> RequestId {
        self.request
    }

    pub fn signer(&self) -> Address {
        self.signer
    }

    pub fn digest(&self) -> B256 {
        self.digest
    }

    /// The vault's epoch when the slip was issued: a freeze or lock since then makes it worthless.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
