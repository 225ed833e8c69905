//! The scheme `batch-settlement`: payment channels. A payer deposits into an escrow once and pays by signed vouchers;
//! the merchant claims them in batches and has them paid out.

pub mod authorizer;
pub mod bare;
pub mod claim;
pub(crate) mod claim_proposal;
pub mod deposit;
mod deposit_facts;
pub(crate) mod deposit_proposal;
mod permission;
pub mod refund;
pub(crate) mod refund_proposal;
pub mod report;
pub mod state;
mod state_reads;
pub mod sweep;
pub(crate) mod sweep_proposal;
mod terms;
mod voucher;

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_x402::channel::payload::{ChannelVoucher, RefundRequest};
use bursar_x402::channel::{ChannelPayload, SCHEME};
use bursar_x402::required::Version;
use bursar_x402::settlement::SettlementRequest;
use serde_json::{Value, json};

use crate::batch::claim_proposal::ClaimProposal;
use crate::batch::deposit_proposal::DepositProposal;
use crate::batch::refund_proposal::RefundProposal;
use crate::batch::sweep_proposal::SweepProposal;
use crate::batch::voucher::VoucherStatement;
use crate::network::NetworkContext;
use crate::reason::Reason;
use crate::requester::Requester;
use crate::scheme::{Proposed, Scheme};
use crate::transfer::terms_check::Purpose;
use crate::verify::VerifyError;

/// The scheme `batch-settlement`.
#[derive(Debug)]
pub struct BatchSettlement;

impl Scheme for BatchSettlement {
    fn name(&self) -> &'static str {
        SCHEME
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::V2]
    }

    fn mismatch_reasons(&self) -> (Reason, Reason) {
        (Reason::BatchScheme, Reason::BatchNetwork)
    }

    fn extra(&self, network: &NetworkContext) -> Option<Value> {
        let authorizer = network.authorizer.as_ref()?;
        Some(json!({ "receiverAuthorizer": authorizer.address() }))
    }

    /// Official servers without their own authorizer rely on ours, and `/supported` cannot report that we have none.
    fn is_configured(&self, network: &NetworkContext) -> bool {
        network.authorizer.is_some()
    }

    fn contracts(&self, network: &NetworkContext) -> Vec<Address> {
        let contracts = &network.contracts;
        vec![contracts.escrow, contracts.erc3009_collector, contracts.permit2_collector]
    }

    fn propose<'a>(
        &'a self,
        network: &'a NetworkContext,
        request: &'a SettlementRequest,
        purpose: Purpose,
        requester: &'a Requester,
    ) -> BoxFuture<'a, Result<Proposed, VerifyError>> {
        Box::pin(propose(network, request, purpose, requester))
    }
}

async fn propose(
    network: &NetworkContext,
    request: &SettlementRequest,
    purpose: Purpose,
    requester: &Requester,
) -> Result<Proposed, VerifyError> {
    let requirements = &request.requirements;
    let voucher = |signed, is_refund| {
        let read = VoucherStatement::read(network, requirements, signed, is_refund)?;
        Ok::<_, VerifyError>(Proposed::Statement(Box::new(read)))
    };
    Ok(match (terms::payload(request)?, purpose) {
        (ChannelPayload::Deposit(deposit), _any) => {
            Proposed::Job(Box::new(DepositProposal::read(network, request, *deposit)?))
        }
        (ChannelPayload::Voucher(signed), _any) => voucher(signed, false)?,
        (ChannelPayload::Refund(RefundRequest { config, voucher: signed, .. }), _any) => {
            voucher(ChannelVoucher { config, voucher: signed }, true)?
        }
        (ChannelPayload::CompletedRefund(refund), Purpose::Verify) => {
            voucher(ChannelVoucher { config: refund.config, voucher: refund.voucher }, true)?
        }
        (ChannelPayload::CompletedRefund(refund), Purpose::Settle) => {
            Proposed::Job(Box::new(RefundProposal::read(network, *refund, requester)?))
        }
        (ChannelPayload::Claim(claim), Purpose::Settle) => {
            Proposed::Job(Box::new(ClaimProposal::read(network, claim, requester)?))
        }
        (ChannelPayload::Settle(sweep), Purpose::Settle) => {
            Proposed::Job(Box::new(SweepProposal::read(network, sweep).await?))
        }
        (ChannelPayload::Claim(_) | ChannelPayload::Settle(_), Purpose::Verify) => {
            return Err(Reason::BatchPayloadType.into());
        }
    })
}
