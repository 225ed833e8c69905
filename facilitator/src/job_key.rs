//! The key of a job: of all jobs with the same key, the chain can carry out only one.

use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

use crate::payment::{MethodId, Terms};

/// Identifies a job: of all jobs with the same key, the chain can carry out only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey(pub B256);

impl JobKey {
    /// The key of a payment with these terms.
    pub fn of(chain: ChainId, method: MethodId, terms: &Terms) -> Self {
        match method {
            MethodId::Eip3009 => Self::of_eip3009(chain, terms.token, terms.payer, terms.nonce),
            MethodId::Prism => {
                let owner = [terms.token.as_slice(), terms.payer.as_slice()].concat();
                Self::seeded(chain, method.text(), &owner, terms.nonce)
            }
            MethodId::Permit2 | MethodId::UptoPermit2 | MethodId::UptoPermit2ByContract => {
                Self::of_permit2(chain, terms.payer, terms.nonce)
            }
        }
    }

    /// Returns the key of a job that uses a Permit2 nonce.
    ///
    /// Permit2 counts nonces by owner alone, over all tokens and all spenders.
    pub fn of_permit2(chain: ChainId, owner: Address, nonce: B256) -> Self {
        Self::seeded(chain, MethodId::Permit2.text(), owner.as_slice(), nonce)
    }

    /// Returns the key of a job that uses an EIP-3009 nonce of a token.
    ///
    /// Transfers and deposits share their nonces.
    pub fn of_eip3009(chain: ChainId, token: Address, authorizer: Address, nonce: B256) -> Self {
        let owner = [token.as_slice(), authorizer.as_slice()].concat();
        Self::seeded(chain, MethodId::Eip3009.text(), &owner, nonce)
    }

    /// The key of a batch of claims with this digest.
    pub fn of_claim(chain: ChainId, digest: B256) -> Self {
        Self::seeded(chain, "claim", &[], digest)
    }

    /// The key of a payout of everything that a receiver has claimed in a token.
    ///
    /// `total` is the claimed amount, in the token's smallest unit.
    pub fn of_sweep(chain: ChainId, receiver: Address, token: Address, total: u128) -> Self {
        let owner = [receiver.as_slice(), token.as_slice()].concat();
        Self::seeded(chain, "sweep", &owner, B256::from(U256::from(total)))
    }

    /// The key of the refund of a channel with this nonce.
    pub fn of_refund(chain: ChainId, channel_id: B256, nonce: U256) -> Self {
        Self::seeded(chain, "refund", channel_id.as_slice(), B256::from(nonce))
    }

    fn seeded(chain: ChainId, method: &str, owner: &[u8], nonce: B256) -> Self {
        let chain = chain.0.to_be_bytes();
        Self(keccak256([&chain[..], method.as_bytes(), owner, nonce.as_slice()].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: ChainId = ChainId(8453);

    fn terms() -> Terms {
        Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(7),
            nonce: B256::repeat_byte(4),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            facilitator: None,
        }
    }

    #[test]
    fn permit2_nonces_count_by_owner_over_schemes_and_tokens() {
        let exact = JobKey::of(CHAIN, MethodId::Permit2, &terms());
        let other_token = Terms { token: Address::repeat_byte(9), ..terms() };
        let facilitator = Some(Address::repeat_byte(8));
        for same in [
            JobKey::of(CHAIN, MethodId::Permit2, &other_token),
            JobKey::of(CHAIN, MethodId::UptoPermit2, &Terms { facilitator, ..terms() }),
            JobKey::of(
                CHAIN,
                MethodId::UptoPermit2ByContract,
                &Terms { facilitator, ..other_token },
            ),
            JobKey::of_permit2(CHAIN, terms().payer, terms().nonce),
        ] {
            assert_eq!(same, exact);
        }
        let other_payer = Terms { payer: Address::repeat_byte(9), ..terms() };
        let other_nonce = Terms { nonce: B256::repeat_byte(9), ..terms() };
        for other in [
            JobKey::of(CHAIN, MethodId::UptoPermit2, &other_payer),
            JobKey::of(CHAIN, MethodId::UptoPermit2, &other_nonce),
            JobKey::of(ChainId(4663), MethodId::UptoPermit2, &terms()),
            JobKey::of(CHAIN, MethodId::Eip3009, &terms()),
        ] {
            assert_ne!(other, exact);
        }
    }

    #[test]
    fn other_methods_count_nonces_by_payer_and_token() {
        for method in [MethodId::Eip3009, MethodId::Prism] {
            let key = JobKey::of(CHAIN, method, &terms());
            let other_token = Terms { token: Address::repeat_byte(9), ..terms() };
            assert_ne!(JobKey::of(CHAIN, method, &other_token), key);
            let other_amount = Terms { authorized_amount: U256::from(8), ..terms() };
            assert_eq!(JobKey::of(CHAIN, method, &other_amount), key);
        }
    }
}
