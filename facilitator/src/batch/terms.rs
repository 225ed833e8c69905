//! Checks of channels and vouchers that need no node.

use alloy_primitives::{Address, B256};
use bursar_x402::channel::payload::SignedVoucher;
use bursar_x402::channel::{
    ChannelConfig, ChannelFault, ChannelPayload, EscrowDomain, PayloadError, VoucherSigner,
};
use bursar_x402::settlement::{Requirements, SettlementRequest};

use crate::network::NetworkContext;
use crate::reason::{Reason, Rejection};
use crate::signature;
use crate::verify::VerifyError;

impl From<PayloadError> for VerifyError {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::Malformed(fault) => Self::Malformed(fault),
            PayloadError::Fault(fault) => Self::Rejected(reason_of(fault).into()),
            PayloadError::TooManyClaims(_count) => Self::Rejected(Reason::ClaimPayload.into()),
        }
    }
}

/// Returns the code for a fault in a payload.
fn reason_of(fault: ChannelFault) -> Reason {
    match fault {
        ChannelFault::PayloadType => Reason::BatchPayloadType,
        ChannelFault::ChannelIdInvalid => Reason::ChannelIdInvalid,
        ChannelFault::ChannelIdMismatch => Reason::ChannelIdMismatch,
        ChannelFault::WithdrawDelayOutOfRange => Reason::ChannelDelayRange,
        ChannelFault::DepositPayload => Reason::DepositPayload,
        ChannelFault::Erc3009AuthorizationRequired => Reason::DepositEip3009Missing,
    }
}

/// The escrow's EIP-712 domain on a network.
pub(super) fn escrow_domain(network: &NetworkContext) -> EscrowDomain {
    EscrowDomain::new(network.contracts.chain, network.contracts.escrow)
}

/// Reads the payload of a request.
///
/// # Errors
/// [`VerifyError::Malformed`], [`VerifyError::Rejected`].
pub(super) fn payload(request: &SettlementRequest) -> Result<ChannelPayload, VerifyError> {
    Ok(ChannelPayload::parse(&request.payload, "paymentPayload.payload.")?)
}

/// Checks that a channel matches its voucher and the requirements. Returns the channel id.
///
/// # Errors
/// [`Rejection`].
pub(super) fn check_channel(
    network: &NetworkContext,
    config: &ChannelConfig,
    voucher: &SignedVoucher,
    requirements: &Requirements,
) -> Result<B256, Rejection> {
    let reject = |reason: Reason| Rejection::from(reason).for_payer(config.payer);
    let id = escrow_domain(network).channel_id(config);
    if id != voucher.channel_id {
        return Err(reject(Reason::ChannelIdMismatch));
    }
    if config.receiver != requirements.pay_to {
        return Err(reject(Reason::ChannelReceiver));
    }
    let authorizer = requirements.channel.receiver_authorizer;
    if config.receiver_authorizer.is_zero() || authorizer != Some(config.receiver_authorizer) {
        return Err(reject(Reason::ChannelAuthorizer));
    }
    if config.token != requirements.asset {
        return Err(reject(Reason::ChannelToken));
    }
    let delay = config.withdraw_delay.seconds();
    if requirements.channel.withdraw_delay.is_some_and(|required| required != delay) {
        return Err(reject(Reason::ChannelDelay));
    }
    config.check_withdraw_delay().map_err(|_fault| reject(Reason::ChannelDelayRange))?;
    if !network.config.accepts_token(config.token) {
        return Err(reject(Reason::AssetNotServed));
    }
    network.channel_config_cache.insert(id, config.clone(), network.clock.mono_ms());
    Ok(id)
}

/// The signer of a voucher, as far as it is known without a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VoucherProof {
    /// The key of this account signed the voucher. If the account is a payer with code, its contract decides instead.
    Key,
    /// No key signed the voucher, so the contract of this payer must accept it (EIP-1271).
    Contract(Address),
}

/// Checks the signature of a voucher with this digest, as far as possible without a node.
///
/// # Errors
/// [`Reason::VoucherSignature`].
pub(super) fn check_voucher(
    config: &ChannelConfig,
    digest: B256,
    signature: &[u8],
) -> Result<VoucherProof, Reason> {
    let signed_by = signature::signer(&digest, signature);
    match config.voucher_signer() {
        signer if signed_by == Some(signer.address()) => Ok(VoucherProof::Key),
        VoucherSigner::Payer(payer) => Ok(VoucherProof::Contract(payer)),
        VoucherSigner::Authorizer(_other) => Err(Reason::VoucherSignature),
    }
}
