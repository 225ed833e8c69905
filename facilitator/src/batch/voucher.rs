//! Vouchers: verified off the chain, and kept by the merchant until it claims them.

use alloy_primitives::{Address, B256};
use bursar_chain::ports::BoxFuture;
use bursar_x402::channel::ChannelConfig;
use bursar_x402::channel::payload::{ChannelVoucher, SignedVoucher};
use bursar_x402::settlement::Requirements;

use crate::batch::state::ChannelState;
use crate::batch::state_reads;
use crate::batch::terms::{self, VoucherProof};
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, Reads, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::scheme::Statement;
use crate::verify::{ValidAnswer, VerifyError};

/// A payer's voucher, alone or as part of its request for a refund.
#[derive(Debug)]
pub(super) struct VoucherStatement {
    config: ChannelConfig,
    channel: B256,
    voucher: SignedVoucher,
    proof: VoucherProof,
    /// Whether the voucher asks for a refund. A refund charges nothing, so the amount may equal the amount that was
    /// already claimed.
    is_refund: bool,
}

impl VoucherStatement {
    /// Reads a voucher and compares it with the requirements.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn read(
        network: &NetworkContext,
        requirements: &Requirements,
        signed: ChannelVoucher,
        is_refund: bool,
    ) -> Result<Self, Rejection> {
        let ChannelVoucher { config, voucher } = signed;
        let channel = terms::check_channel(network, &config, &voucher, requirements)?;
        let signed = terms::escrow_domain(network).voucher_digest(channel, voucher.max_claimable);
        let proof = terms::check_voucher(&config, signed, &voucher.signature)
            .map_err(|reason| Rejection::from(reason).for_payer(config.payer))?;
        Ok(Self { config, channel, voucher, proof, is_refund })
    }

    async fn check_at(&self, network: &NetworkContext) -> Result<ValidAnswer, VerifyError> {
        let state = if self.config.voucher_signer().may_be_contract() {
            self.ask_contract(network).await?
        } else {
            self.state_in_this_block(network).await?
        };
        check_ceiling(&state, self.voucher.max_claimable, self.is_refund)
            .map_err(|reason| self.reject(reason))?;
        Ok(ValidAnswer { payer: Some(self.config.payer), extra: Some(state.to_json(self.channel)) })
    }

    fn reject(&self, reason: Reason) -> VerifyError {
        Rejection::from(reason).for_payer(self.config.payer).into()
    }

    /// Returns the channel's state for a voucher that the payer's authorizer signed. Asks a node only if the channel
    /// was not read in this block.
    async fn state_in_this_block(
        &self,
        network: &NetworkContext,
    ) -> Result<ChannelState, VerifyError> {
        let head = network.head.block(&*network.chain, &*network.clock).await?;
        let now_ms = network.clock.mono_ms();
        let known = network.channel_state_cache.get(&self.channel, now_ms);
        if let Some((_block, state)) = known.filter(|(block, _state)| *block == head) {
            return Ok(state);
        }
        let outcomes = state_reads::ask(network, self.channel, Priority::Now).await?;
        let state = state_reads::read(outcomes);
        let state = state.ok_or_else(|| self.reject(Reason::ChannelNotFound))?;
        network.channel_state_cache.insert(self.channel, (head, state), now_ms);
        Ok(state)
    }

    /// Returns the channel's state if the payer signed the voucher. If the payer has code, its contract confirms the
    /// signature.
    async fn ask_contract(&self, network: &NetworkContext) -> Result<ChannelState, VerifyError> {
        let payer = self.config.payer;
        let digest =
            terms::escrow_domain(network).voucher_digest(self.channel, self.voucher.max_claimable);
        let mut calls = state_reads::calls(&network.contracts, self.channel).to_vec();
        calls.push(reads::signature_call(payer, digest, self.voucher.signature.clone()));
        let wanted = Reads {
            code_accounts: vec![payer],
            calls,
            gas: UNTRUSTED_CALL_GAS,
            ..Reads::default()
        };
        let answers = reads::read(network, wanted, Priority::Now).await?;
        let Some(mut outcomes) = answers.outcomes else {
            return Err(self.reject(Reason::VoucherSignature));
        };
        let accepted = reads::is_accepted(outcomes.pop().and_then(|last| last.returned_data()));
        let has_code = answers.have_code.first().copied().unwrap_or_default();
        if !(if has_code { accepted } else { self.proof == VoucherProof::Key }) {
            return Err(self.reject(Reason::VoucherSignature));
        }
        state_reads::read(outcomes).ok_or_else(|| self.reject(Reason::ChannelNotFound))
    }
}

/// Checks the amount of a voucher against the state of its channel.
fn check_ceiling(state: &ChannelState, ceiling: u128, is_refund: bool) -> Result<(), Reason> {
    if state.balance == 0 {
        return Err(Reason::ChannelNotFound);
    }
    if ceiling > state.balance {
        return Err(Reason::VoucherExceedsBalance);
    }
    let is_low =
        if is_refund { ceiling < state.total_claimed } else { ceiling <= state.total_claimed };
    if is_low { Err(Reason::VoucherBelowClaimed) } else { Ok(()) }
}

impl Statement for VoucherStatement {
    fn payees(&self) -> Vec<Address> {
        vec![self.config.receiver]
    }

    fn payer(&self) -> Option<Address> {
        Some(self.config.payer)
    }

    /// A voucher alone is not settled: the merchant stores it and settles it by a claim.
    fn settle_refusal(&self) -> Reason {
        Reason::BatchPayloadType
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<ValidAnswer, VerifyError>> {
        Box::pin(self.check_at(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voucher_is_above_what_was_claimed_and_at_most_the_balance() {
        let state = ChannelState { balance: 10, total_claimed: 4, ..ChannelState::default() };
        let of = |ceiling| check_ceiling(&state, ceiling, false);
        assert_eq!(of(10), Ok(()));
        assert_eq!(of(11), Err(Reason::VoucherExceedsBalance));
        assert_eq!(of(5), Ok(()));
        assert_eq!(of(4), Err(Reason::VoucherBelowClaimed));
        // A refund charges nothing.
        assert_eq!(check_ceiling(&state, 4, true), Ok(()));
        assert_eq!(check_ceiling(&state, 3, true), Err(Reason::VoucherBelowClaimed));
        let empty = ChannelState::default();
        assert_eq!(check_ceiling(&empty, 0, true), Err(Reason::ChannelNotFound));
    }
}
