//! Payers that have not approved Permit2 yet: reads the extensions `eip2612GasSponsoring` and
//! `erc20ApprovalGasSponsoring` of their requests.

use alloy_primitives::{Address, U256};
use bursar_core::json::Object;
use bursar_x402::sponsoring;

use crate::network::NetworkContext;
use crate::payment::Sponsoring;
use crate::reason::{Reason, Rejection};
use crate::transfer::approval::{self, Approval, NeededAllowance};

/// The allowance that a Permit2 authorization needs, and the time until which it needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowanceNeed {
    pub(crate) needed: NeededAllowance,
    /// Unix seconds.
    pub(crate) deadline: U256,
}

/// The codes that differ between payments and deposits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SponsoringReasons {
    /// The code for a permit whose amount differs from that of the authorization.
    pub(crate) permit_amount: Reason,
    /// The code if this facilitator broadcasts no approvals; `None` if it then ignores the approval.
    pub(crate) no_approvals: Option<Reason>,
}

/// Reads the permit or approval by which the payer gives Permit2 an allowance. Rejects one that does not match this
/// authorization. `None` if the payer sent none, or if the settings disable the extension. Asks no node.
///
/// # Errors
/// [`Rejection`].
pub(crate) fn read(
    network: &NetworkContext,
    extensions: &Object,
    authorized: &AllowanceNeed,
    codes: SponsoringReasons,
) -> Result<Option<Sponsoring>, Rejection> {
    let reject = |rejection: Rejection| rejection.for_payer(authorized.needed.payer);
    let read = read_permit(network, extensions, authorized, codes)
        .transpose()
        .or_else(|| read_approval(network, extensions, authorized, codes).transpose());
    read.transpose().map_err(reject)
}

fn read_permit(
    network: &NetworkContext,
    extensions: &Object,
    authorized: &AllowanceNeed,
    codes: SponsoringReasons,
) -> Result<Option<Sponsoring>, Rejection> {
    if !network.config.eip2612_gas_sponsoring {
        return Ok(None);
    }
    let info = sponsoring::eip2612(extensions).map_err(|_form| Reason::Eip2612Format)?;
    let Some(info) = info else { return Ok(None) };
    let reasons = [Reason::Eip2612From, Reason::Eip2612Asset, Reason::Eip2612Spender];
    check_parties(network, [info.from, info.asset, info.spender], authorized, reasons)?;
    // If the permit expired before the authorization, the transaction could fail.
    if info.permit.deadline < authorized.deadline {
        return Err(Reason::Eip2612Deadline.into());
    }
    if info.permit.value != authorized.needed.amount {
        return Err(codes.permit_amount.into());
    }
    Ok(Some(Sponsoring::Permit(info.permit)))
}

fn read_approval(
    network: &NetworkContext,
    extensions: &Object,
    authorized: &AllowanceNeed,
    codes: SponsoringReasons,
) -> Result<Option<Sponsoring>, Rejection> {
    let is_on = network.config.erc20_approval_gas_sponsoring;
    if !is_on && codes.no_approvals.is_none() {
        return Ok(None);
    }
    let info = sponsoring::erc20_approval(extensions).map_err(|_form| Reason::ApprovalFormat)?;
    let Some(info) = info else { return Ok(None) };
    if let Some(reason) = codes.no_approvals.filter(|_reason| !is_on) {
        return Err(reason.into());
    }
    if info.signed_transaction.len() > approval::APPROVAL_BYTES_MAX {
        return Err(Reason::ApprovalFormat.into());
    }
    let reasons = [Reason::ApprovalFrom, Reason::ApprovalAsset, Reason::ApprovalSpender];
    check_parties(network, [info.from, info.asset, info.spender], authorized, reasons)?;
    Approval::read(&info.signed_transaction, &network.contracts, authorized.needed)?;
    Ok(Some(Sponsoring::Approval(info.signed_transaction)))
}

/// Checks that an extension names the payer, the token and Permit2. Each of the three has its own reason.
fn check_parties(
    network: &NetworkContext,
    named: [Address; 3],
    authorized: &AllowanceNeed,
    reasons: [Reason; 3],
) -> Result<(), Reason> {
    let NeededAllowance { payer, token, .. } = authorized.needed;
    let expected = [payer, token, network.contracts.permit2];
    let mut each = named.into_iter().zip(expected).zip(reasons);
    match each.find(|((named, expected), _reason)| named != expected) {
        Some((_differing, reason)) => Err(reason),
        None => Ok(()),
    }
}
