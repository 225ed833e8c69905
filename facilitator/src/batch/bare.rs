//! The bare form `{network, ...payload}` of requests to the endpoints of payment channels. The requirements follow from
//! the payload itself.

use alloy_primitives::{Address, U256};
use bursar_core::json::Object;
use bursar_x402::channel::{ChannelConfig, ChannelPayload, SCHEME};
use bursar_x402::settlement::{ChannelExtra, Requirements, SettlementRequest};

use crate::reason::Reason;
use crate::verify::VerifyError;

/// The requirements that a payload implies.
struct Terms {
    asset: Address,
    pay_to: Address,
    amount: u128,
    channel: ChannelExtra,
}

impl Terms {
    fn of(config: &ChannelConfig, amount: u128) -> Self {
        Self {
            asset: config.token,
            pay_to: config.receiver,
            amount,
            channel: ChannelExtra {
                receiver_authorizer: Some(config.receiver_authorizer),
                withdraw_delay: Some(config.withdraw_delay.seconds()),
            },
        }
    }
}

/// Creates the request of a bare body.
///
/// `network` is the text that names the network in the body.
///
/// # Errors
/// [`VerifyError::Malformed`], [`VerifyError::Rejected`].
pub fn request(
    network: &str,
    payload: Object,
    extensions: Object,
) -> Result<SettlementRequest, VerifyError> {
    let terms = match ChannelPayload::parse(&payload, "")? {
        ChannelPayload::Deposit(deposit) => Terms::of(&deposit.config, deposit.amount),
        ChannelPayload::CompletedRefund(refund) => Terms::of(&refund.config, 0),
        ChannelPayload::Claim(claim) => {
            let first = claim.claims.first().ok_or(Reason::ClaimPayload)?;
            Terms::of(&first.channel, 0)
        }
        ChannelPayload::Settle(sweep) => Terms {
            asset: sweep.token,
            pay_to: sweep.receiver,
            amount: 0,
            channel: ChannelExtra::default(),
        },
        ChannelPayload::Voucher(_) | ChannelPayload::Refund(_) => {
            return Err(Reason::BatchPayloadType.into());
        }
    };
    let requirements = Requirements {
        scheme: SCHEME.to_owned(),
        network: network.to_owned(),
        asset: terms.asset,
        pay_to: terms.pay_to,
        amount: U256::from(terms.amount),
        extra: Default::default(),
        channel: terms.channel,
    };
    Ok(SettlementRequest {
        extensions,
        ..SettlementRequest::from_bare_payload(requirements, payload)
    })
}
