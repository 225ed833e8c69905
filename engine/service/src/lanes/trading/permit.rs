//! The right of the Universal Router to take the input of a v4 swap: an allowance of Permit2, given by a permit that
//! the swap contains. With it, the terms of the swap.

use bursar_core::money::Atoms;
use bursar_domain::plan::Execution;
use bursar_uniswap::read::Permit2Allowance;
use bursar_uniswap::{Permit, SignedPermit};

use super::market::Market;
use super::spec::Spec;

/// How the router may take the input.
#[derive(Debug, Clone)]
pub(super) enum RouterRight {
    /// The venue needs none: the input is native, or the venue is not v4.
    NotNeeded,
    /// Permit2 allows it already.
    Allowed(Permit2Allowance),
    /// By a permit that is signed.
    Signed(SignedPermit),
    /// By a permit that is still to be signed.
    Missing(Permit),
}

/// What the swap of a plan accepts.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    /// The least output.
    pub(super) floor: Atoms,
    /// Unix seconds of chain time.
    pub(super) deadline: u64,
    pub(super) right: RouterRight,
}

/// Returns the router's right, and the swap's deadline: `latest`, or the earlier end of that right. Both in Unix
/// seconds of chain time.
pub(super) fn right(
    spec: &Spec<'_>,
    market: &Market,
    execution: Option<&Execution>,
    latest: u64,
) -> (RouterRight, u64) {
    let Some((allowance, token)) = market.permit2.zip(spec.token_in.address) else {
        return (RouterRight::NotNeeded, latest);
    };
    // A right that ends before half of the time that a swap has is replaced.
    let half = market.block_time.saturating_add(spec.exchange.deadline_seconds / 2);
    let least = half.min(latest);
    if allowance.amount >= spec.amount_in.0 && allowance.expiration >= least {
        return (RouterRight::Allowed(allowance), latest.min(allowance.expiration));
    }
    let signed = execution.and_then(|execution| {
        let permit = execution.permit.as_ref()?;
        let usable = permit.permit.nonce == allowance.nonce && permit.permit.expiration >= least;
        let signature = permit.signature.filter(|_any| usable)?;
        let signature = signature.to_bytes().to_vec().into();
        Some(SignedPermit { permit: permit.permit, signature })
    });
    if let Some(signed) = signed {
        let deadline = latest.min(signed.permit.expiration);
        return (RouterRight::Signed(signed), deadline);
    }
    let permit = Permit {
        token,
        amount: spec.amount_in.0,
        expiration: latest,
        nonce: allowance.nonce,
        spender: spec.exchange.v4.router,
        signature_deadline: latest,
    };
    (RouterRight::Missing(permit), latest)
}
