//! Permit2: allowances that expire, given by a transaction or by a signature.

use std::borrow::Cow;

use alloy_primitives::aliases::{U48, U160};
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{Eip712Domain, SolCall, SolStruct};
use bursar_x402::signature::{Signature65, recover};

use super::abi;
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_error};
use super::state::Permit2Right;

mod typed {
    //! The EIP-712 types, with the names that their hashes need.
    alloy_sol_types::sol! {
        struct PermitDetails { address token; uint160 amount; uint48 expiration; uint48 nonce; }
        struct PermitSingle { PermitDetails details; address spender; uint256 sigDeadline; }
    }
}

const GAS: u64 = 28_000;

fn max_amount() -> U256 {
    U256::from(U160::MAX)
}

impl Machine<'_> {
    fn domain(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(Cow::Borrowed("Permit2")),
            version: None,
            chain_id: Some(U256::from(self.env.contracts.network.chain.0)),
            verifying_contract: Some(self.env.contracts.exchange.permit2),
            salt: None,
        }
    }

    pub(super) fn permit2(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let data = &message.data[..];
        if is_call::<abi::Permit2::DOMAIN_SEPARATORCall>(data) {
            return Ok(Bytes::copy_from_slice(self.domain().separator().as_slice()));
        }
        if is_call::<abi::Permit2::allowanceCall>(data) {
            let abi::Permit2::allowanceCall { user, token, spender } = arguments(data)?;
            let right = self.state.right(user, token, spender);
            let answer = abi::Permit2::allowanceReturn {
                amount: U160::from(right.amount),
                expiration: U48::from(right.expiration),
                nonce: U48::from(right.nonce),
            };
            return Ok(abi::Permit2::allowanceCall::abi_encode_returns(&answer).into());
        }
        if is_call::<abi::Permit2::approveCall>(data) {
            let abi::Permit2::approveCall { token, spender, amount, expiration } = arguments(data)?;
            self.gas += GAS;
            let until: u64 = expiration.to();
            let until = if until == 0 { self.env.time } else { until };
            let owner = message.from;
            let right = self.state.rights.entry((owner, token, spender)).or_default();
            *right =
                Permit2Right { amount: U256::from(amount), expiration: until, nonce: right.nonce };
            let event = abi::Permit2::Approval { owner, token, spender, amount, expiration };
            self.emit(message.to, &event);
            return Ok(Bytes::new());
        }
        Err(Bytes::new())
    }

    /// Applies a signed permit of `owner`.
    pub(super) fn permit(
        &mut self,
        owner: Address,
        single: &abi::Single,
        signature: &Bytes,
    ) -> Result<(), Reverted> {
        self.gas += GAS;
        if U256::from(self.env.time) > single.sigDeadline {
            return Err(revert_error(&abi::Permit2::SignatureExpired {
                signatureDeadline: single.sigDeadline,
            }));
        }
        let details = &single.details;
        let signed = typed::PermitSingle {
            details: typed::PermitDetails {
                token: details.token,
                amount: details.amount,
                expiration: details.expiration,
                nonce: details.nonce,
            },
            spender: single.spender,
            sigDeadline: single.sigDeadline,
        };
        let digest = signed.eip712_signing_hash(&self.domain());
        let signature = signature.as_ref().try_into().ok();
        let signature = signature.and_then(|bytes: &[u8; 65]| Signature65::from_bytes(bytes).ok());
        let signer = signature.and_then(|signature| recover(digest, &signature).ok());
        if signer != Some(owner) {
            return Err(revert_error(&abi::Permit2::InvalidSigner {}));
        }
        let (token, spender) = (details.token, single.spender);
        let before = self.state.right(owner, token, spender);
        if before.nonce != details.nonce.to::<u64>() {
            return Err(revert_error(&abi::Permit2::InvalidNonce {}));
        }
        let right = Permit2Right {
            amount: U256::from(details.amount),
            expiration: details.expiration.to(),
            nonce: before.nonce + 1,
        };
        self.state.rights.insert((owner, token, spender), right);
        let event = abi::Permit2::Permit {
            owner,
            token,
            spender,
            amount: details.amount,
            expiration: details.expiration,
            nonce: details.nonce,
        };
        self.emit(self.env.contracts.exchange.permit2, &event);
        Ok(())
    }

    /// Permit2's `transferFrom`, called by `spender`.
    pub(super) fn permit2_take(
        &mut self,
        spender: Address,
        owner: Address,
        to: Address,
        token: Address,
        amount: U256,
    ) -> Result<(), Reverted> {
        let right = self.state.right(owner, token, spender);
        if self.env.time > right.expiration {
            return Err(revert_error(&abi::Permit2::AllowanceExpired {
                deadline: U256::from(right.expiration),
            }));
        }
        if right.amount != max_amount() {
            let left = right.amount.checked_sub(amount).ok_or_else(|| {
                revert_error(&abi::Permit2::InsufficientAllowance { amount: right.amount })
            })?;
            self.state
                .rights
                .insert((owner, token, spender), Permit2Right { amount: left, ..right });
        }
        self.transfer_from(token, self.env.contracts.exchange.permit2, owner, to, amount)
    }
}
