//! Decides how the Universal Router may take the input of a v4 swap: by an existing allowance within Permit2, or by a
//! permit that the swap contains. The deadline of the swap depends on the expiry of that right.

use bursar_core::money::Atoms;
use bursar_core::networks::Exchange;
use bursar_domain::plan::{DEVICE_SWAP_S, Execution};
use bursar_domain::trades::TradeAsk;
use bursar_uniswap::read::Permit2Allowance;
use bursar_uniswap::{Permit, SignedPermit};

use super::market::Market;
use super::spec::Spec;

/// The least time that a person must have to confirm a swap, including the margin of its prompt, in seconds.
pub(super) const PERSON_TIME_MIN_S: u64 = 25;

/// How the router may take the input.
#[derive(Debug, Clone)]
pub(super) enum RouterRight {
    /// No right is needed: the input is native, or the venue is not v4.
    NotNeeded,
    /// By an existing allowance within Permit2.
    Allowed(Permit2Allowance),
    /// By a permit that is already signed.
    Signed(SignedPermit),
    /// By a permit that is still to be signed.
    Missing(Permit),
}

/// The terms of a plan's swap.
#[derive(Debug, Clone)]
pub(super) struct SwapTerms {
    /// The minimum output.
    pub(super) floor: Atoms,
    /// Unix seconds of chain time.
    pub(super) deadline: u64,
    pub(super) right: RouterRight,
}

/// The times of a swap, in Unix seconds of chain time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The latest deadline of a swap that is made now.
    latest_deadline: u64,
    /// When a new permit expires.
    permit_expiry: u64,
    /// A right that expires before this time is replaced.
    earliest_expiry: u64,
}

impl Times {
    /// Returns the times of a swap that is made now.
    ///
    /// `person_time_s` is the number of seconds that the plan has left for the person at a device. The person confirms
    /// the permit and then the swap, so a new permit is valid for the rest of the plan, and is used until less than
    /// [`PERSON_TIME_MIN_S`] remains.
    pub(super) fn of(
        market: &Market,
        ask: &TradeAsk,
        exchange: &Exchange,
        person_s: Option<u64>,
    ) -> Self {
        let until = |seconds: u64| {
            let own = market.block_time.saturating_add(seconds);
            ask.deadline.map_or(own, |deadline| deadline.min(own))
        };
        if let Some(plan_s) = person_s {
            let latest = until(DEVICE_SWAP_S);
            return Self {
                latest_deadline: latest,
                permit_expiry: until(plan_s),
                earliest_expiry: until(PERSON_TIME_MIN_S).min(latest),
            };
        }
        let latest = until(exchange.deadline_seconds);
        // A right must last for at least half of the time that a swap has.
        let half = market.block_time.saturating_add(exchange.deadline_seconds / 2);
        Self { latest_deadline: latest, permit_expiry: latest, earliest_expiry: half.min(latest) }
    }
}

/// Returns the router's right and the swap's deadline, which is not later than the right's expiry.
pub(super) fn router_right(
    spec: &Spec<'_>,
    market: &Market,
    execution: Option<&Execution>,
    &Times { latest_deadline: latest, permit_expiry: permit_until, earliest_expiry: least }: &Times,
) -> (RouterRight, u64) {
    let Some((allowance, token)) = market.permit2.zip(spec.token_in.address) else {
        return (RouterRight::NotNeeded, latest);
    };
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
        expiration: permit_until,
        nonce: allowance.nonce,
        spender: spec.exchange.v4.router,
        signature_deadline: permit_until,
    };
    (RouterRight::Missing(permit), latest.min(permit_until))
}
