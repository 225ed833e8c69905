//! Which signers are paused because another program uses their key.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;

/// How long a signer takes no new payments after its last foreign nonce, in milliseconds.
const SIGNER_PAUSE_MS: u64 = 10 * 60_000;

/// The last foreign nonce of each signer.
#[derive(Debug, Default)]
pub(super) struct PausedSigners {
    // The lock is held for a single lookup.
    last_nonces: Mutex<BTreeMap<Address, LastNonce>>,
}

#[derive(Debug, Clone, Copy)]
struct LastNonce {
    nonce: u64,
    /// The monotonic time at which the nonce was reported, in milliseconds.
    at_ms: u64,
}

impl PausedSigners {
    /// Records a foreign nonce. Returns `false` if it, or a higher one, was recorded before.
    pub(super) fn record(&self, signer: Address, nonce: u64, at_ms: u64) -> bool {
        let mut last = self.last_nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(&signer).is_some_and(|last| last.nonce >= nonce) {
            return false;
        }
        last.insert(signer, LastNonce { nonce, at_ms });
        true
    }

    pub(super) fn is_paused(&self, signer: Address, now_ms: u64) -> bool {
        let last = self.last_nonces.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&signer).is_some_and(|last| now_ms.saturating_sub(last.at_ms) < SIGNER_PAUSE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_is_paused_for_ten_minutes_after_its_last_foreign_nonce() {
        let (all, signer) = (PausedSigners::default(), Address::repeat_byte(1));
        assert!(!all.is_paused(signer, 0));
        assert!(all.record(signer, 7, 1_000));
        assert!(!all.record(signer, 7, 2_000), "it is reported once");
        assert!(!all.record(signer, 6, 2_000), "it is older");
        assert!(all.is_paused(signer, 1_000 + SIGNER_PAUSE_MS - 1));
        assert!(!all.is_paused(Address::repeat_byte(2), 1_000));
        assert!(!all.is_paused(signer, 1_000 + SIGNER_PAUSE_MS), "the pause ends");
        assert!(all.record(signer, 8, 5_000));
        assert!(all.is_paused(signer, 1_000 + SIGNER_PAUSE_MS));
    }
}
