//! A signed transaction in which a payer approves Permit2. We broadcast it unchanged, and the payer pays its gas (the
//! extension `erc20ApprovalGasSponsoring`).

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::ports::BlockTag;
use bursar_submit::Raw;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, Reads, UNTRUSTED_CALL_GAS, call_question};
use crate::reason::{Reason, Rejection};
use crate::signature;
use crate::transfer::erc20::IErc20;
use crate::verify::VerifyError;
use crate::work::{TokenAmount, Work};

/// Maximum length of a signed approval in bytes. A usual one has 180.
pub(crate) const APPROVAL_BYTES_MAX: usize = 1 << 10;

/// Length of the call data of `approve(address,uint256)` in bytes.
const APPROVE_CALL_BYTES: usize = 68;

/// Whether a job may be checked while its own approval is not mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowanceRule {
    /// Permit2 must have the allowance now.
    Required,
    /// The allowance may still be missing if the job includes an approval.
    MayFollow,
}

/// A signed approval, decoded.
#[derive(Debug)]
pub(crate) struct Approval {
    payer: Address,
    token: Address,
    pub(crate) nonce: u64,
    gas_limit: u64,
    /// The highest price per unit of gas that the approval offers, in wei.
    max_fee: u128,
    pub(crate) raw: Raw,
    data: Bytes,
}

/// The allowance for Permit2 that a job needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeededAllowance {
    pub(crate) payer: Address,
    pub(crate) token: Address,
    /// The amount in the smallest unit of the token.
    pub(crate) amount: U256,
}

impl Approval {
    /// Decodes the approval of a job. `None` if the job includes no approval that is valid for it.
    pub(crate) fn of(contracts: &Contracts, work: &dyn Work) -> Option<Self> {
        let TokenAmount { token, amount } = work.moved_amount();
        let needed = NeededAllowance { payer: work.account(), token, amount };
        Self::read(work.sponsoring()?.approval()?, contracts, needed).ok()
    }

    /// Decodes a signed approval, and rejects a transaction that does anything except approve Permit2.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(crate) fn read(
        raw: &Bytes,
        contracts: &Contracts,
        needed: NeededAllowance,
    ) -> Result<Self, Rejection> {
        let decoded = TxEnvelope::decode_2718_exact(raw).map_err(|_bytes| Reason::ApprovalParse)?;
        let (signed, digest) = match &decoded {
            TxEnvelope::Legacy(signed) => (signed.signature(), signed.signature_hash()),
            TxEnvelope::Eip1559(signed) => (signed.signature(), signed.signature_hash()),
            TxEnvelope::Eip2930(_) | TxEnvelope::Eip4844(_) | TxEnvelope::Eip7702(_) => {
                let why = "An approval must be a transaction of type 0 or 2.";
                return Err(Rejection::with_message(Reason::ApprovalParse, why));
            }
        };
        if decoded.to() != Some(needed.token) {
            return Err(Reason::ApprovalTarget.into());
        }
        let data = decoded.input();
        if !data.starts_with(&IErc20::approveCall::SELECTOR) {
            return Err(Reason::ApprovalSelector.into());
        }
        let call = IErc20::approveCall::abi_decode_validate(data);
        let call = call.ok().filter(|_call| data.len() == APPROVE_CALL_BYTES);
        let IErc20::approveCall { spender, amount } = call.ok_or(Reason::ApprovalCalldata)?;
        if spender != contracts.permit2 {
            return Err(Reason::ApprovalTxSpender.into());
        }
        if amount < needed.amount {
            let why = "The approval is for less than the payment.";
            return Err(Rejection::with_message(Reason::ApprovalCalldata, why));
        }
        if !decoded.value().is_zero() {
            let why = "The approval sends coin: sign it with the value 0.";
            return Err(Rejection::with_message(Reason::ApprovalCalldata, why));
        }
        if decoded.chain_id() != Some(contracts.chain.0) {
            let why = "The approval is not signed for this network.";
            return Err(Rejection::with_message(Reason::ApprovalSignature, why));
        }
        let parity = 27_u8.saturating_add(u8::from(signed.v()));
        let bytes =
            [&signed.r().to_be_bytes::<32>()[..], &signed.s().to_be_bytes::<32>(), &[parity]];
        let signer =
            signature::signer(&digest, &bytes.concat()).ok_or(Reason::ApprovalSignature)?;
        if signer != needed.payer {
            return Err(Reason::ApprovalSigner.into());
        }
        Ok(Self {
            payer: needed.payer,
            token: needed.token,
            nonce: decoded.nonce(),
            gas_limit: decoded.gas_limit(),
            max_fee: decoded.max_fee_per_gas(),
            raw: Raw { hash: *decoded.tx_hash(), bytes: raw.clone() },
            data: data.clone(),
        })
    }

    /// Checks whether the approval can be mined next, and whether the token would accept it.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub(crate) async fn check(&self, network: &NetworkContext) -> Result<(), VerifyError> {
        let chain = &network.chain;
        let (nonce, balance, fees) = futures::try_join!(
            chain.transaction_count(self.payer, BlockTag::Latest),
            chain.balance(self.payer, BlockTag::Latest),
            chain.fee_facts(),
        )?;
        let refused = |why: String| {
            let rejection = Rejection::with_message(Reason::ApprovalBroadcast, why);
            Err(rejection.for_payer(self.payer).into())
        };
        if self.nonce != nonce {
            return refused(format!(
                "The approval has the nonce {}, and the payer's next one is {nonce}: sign it with that.",
                self.nonce
            ));
        }
        let price = fees.base_fee.or(fees.gas_price).unwrap_or_default();
        if self.max_fee < price {
            return refused(format!(
                "The approval pays at most {} wei for a unit of gas, and gas costs {price} wei: sign it with a higher fee.",
                self.max_fee
            ));
        }
        let most = U256::from(self.gas_limit).saturating_mul(U256::from(self.max_fee));
        if balance < most {
            return refused(format!(
                "The payer has {balance} wei, and its approval may cost {most}: fund it, or sign an approval with a \
                 lower fee."
            ));
        }
        let approve = ContractCall { to: self.token, data: self.data.clone() };
        let gas = self.gas_limit.min(UNTRUSTED_CALL_GAS);
        let exact = Some(call_question(self.payer, approve, gas));
        let answers = reads::read(
            network,
            Reads { exact_question: exact, ..Reads::default() },
            Priority::Batched,
        );
        match answers.await?.exact_revert {
            Some(revert) => {
                let failed = Rejection::from(Reason::ApprovalFailed).with_revert(&revert);
                Err(failed.for_payer(self.payer).into())
            }
            None => Ok(()),
        }
    }
}
