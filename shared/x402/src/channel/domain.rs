//! Hashes of all messages under the escrow's EIP-712 domain: channel ids, vouchers, refunds and batches of claims.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::Eip712Domain;
use bursar_core::networks::ChainId;

use super::config::ChannelConfig;
use super::contract::IBatchSettlement;
use super::fault::ChannelFault;
use super::payload::ClaimRow;
use crate::typed_data::digest;

mod messages {
    alloy_sol_types::sol! {
        #[derive(Debug, PartialEq, Eq)]
        struct Voucher {
            bytes32 channelId;
            uint128 maxClaimableAmount;
        }

        #[derive(Debug, PartialEq, Eq)]
        struct Refund {
            bytes32 channelId;
            uint256 nonce;
            uint128 amount;
        }

        #[derive(Debug, PartialEq, Eq)]
        struct ClaimEntry {
            bytes32 channelId;
            uint128 maxClaimableAmount;
            uint128 totalClaimed;
        }

        #[derive(Debug, PartialEq, Eq)]
        struct ClaimBatch {
            ClaimEntry[] claims;
        }
    }
}

pub use messages::{ClaimBatch, ClaimEntry, Refund, Voucher};

/// The `name` of the escrow's domain.
pub const DOMAIN_NAME: &str = "x402 Batch Settlement";
/// The `version` of the escrow's domain.
pub const DOMAIN_VERSION: &str = "1";

/// The EIP-712 domain of one escrow contract on one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EscrowDomain {
    separator: B256,
}

impl EscrowDomain {
    /// Computes the domain of the contract at `escrow`.
    pub fn new(chain: ChainId, escrow: Address) -> Self {
        let domain = Eip712Domain {
            name: Some(Cow::Borrowed(DOMAIN_NAME)),
            version: Some(Cow::Borrowed(DOMAIN_VERSION)),
            chain_id: Some(U256::from(chain.0)),
            verifying_contract: Some(escrow),
            salt: None,
        };
        Self { separator: domain.separator() }
    }

    /// Returns the domain separator.
    pub fn separator(&self) -> B256 {
        self.separator
    }

    /// Returns the id of a channel, as the escrow's `getChannelId` does: a full EIP-712 digest, not a struct hash.
    pub fn channel_id(&self, config: &ChannelConfig) -> B256 {
        digest(self.separator, &IBatchSettlement::ChannelConfig::from(config))
    }

    /// Checks that `claimed` is the id of `config`.
    ///
    /// # Errors
    /// [`ChannelFault::ChannelIdMismatch`].
    pub fn check_channel_id(
        &self,
        config: &ChannelConfig,
        claimed: B256,
    ) -> Result<(), ChannelFault> {
        if self.channel_id(config) == claimed {
            Ok(())
        } else {
            Err(ChannelFault::ChannelIdMismatch)
        }
    }

    /// Returns the digest of a voucher, which the channel's voucher signer signs.
    ///
    /// `max_claimable` is cumulative, in the smallest unit of the token. A voucher has no nonce and no expiry.
    pub fn voucher_digest(&self, channel_id: B256, max_claimable: u128) -> B256 {
        let message = Voucher { channelId: channel_id, maxClaimableAmount: max_claimable };
        digest(self.separator, &message)
    }

    /// Returns the digest of a refund of `amount`, which the receiver's authorizer signs.
    ///
    /// `nonce` must be the escrow's `refundNonce` of the channel when the refund is mined.
    pub fn refund_digest(&self, channel_id: B256, nonce: U256, amount: u128) -> B256 {
        digest(self.separator, &Refund { channelId: channel_id, nonce, amount })
    }

    /// Returns the digest of a batch of claims, which the receivers' common authorizer signs.
    pub fn claim_batch_digest(&self, rows: &[ClaimRow]) -> B256 {
        let claims = rows.iter().map(|row| self.claim_entry(row)).collect();
        digest(self.separator, &ClaimBatch { claims })
    }

    /// Returns the form of a row that the digest of the batch contains.
    pub fn claim_entry(&self, row: &ClaimRow) -> ClaimEntry {
        ClaimEntry {
            channelId: self.channel_id(&row.channel),
            maxClaimableAmount: row.max_claimable,
            totalClaimed: row.total_claimed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{b256, keccak256};
    use alloy_sol_types::SolStruct;

    #[test]
    fn the_types_are_those_of_the_contract() {
        let entry = "ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)";
        for (text, expected, published) in [
            (
                IBatchSettlement::ChannelConfig::eip712_encode_type(),
                "ChannelConfig(address payer,address payerAuthorizer,address receiver,\
                 address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
                    .to_owned(),
                b256!("0x1c9a06ceab9b0ebbd3301dc56c9111bb6d9af421356dc9ccb3b7084c755db308"),
            ),
            (
                Voucher::eip712_encode_type(),
                "Voucher(bytes32 channelId,uint128 maxClaimableAmount)".to_owned(),
                b256!("0x1e1bd6ff84c3e0d9029a292b212e039c0ca97ec497c55191a4a5874294609a69"),
            ),
            (
                Refund::eip712_encode_type(),
                "Refund(bytes32 channelId,uint256 nonce,uint128 amount)".to_owned(),
                b256!("0xbe23ad087435072cd69b49cc5b92de10ee610fce7ae0ab428307972d764bb216"),
            ),
            (
                ClaimEntry::eip712_encode_type(),
                entry.to_owned(),
                b256!("0x30b9a0367528fca13c3e8ec6134c3113f1887ebe7a1ad61de0955aac288b0cf5"),
            ),
            (
                ClaimBatch::eip712_encode_type(),
                format!("ClaimBatch(ClaimEntry[] claims){entry}"),
                b256!("0x42bd57c010b870c2e96203c66341f28a6a19b4d56a74533a8eb5f706b9fd6d57"),
            ),
        ] {
            assert_eq!(text, expected);
            assert_eq!(keccak256(text.as_bytes()), published, "{text}");
        }
    }
}
