//! Applies a policy to one payment. The rules are in the order of their application: the first refusal wins, and a
//! payment is held only if no rule refuses it.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::hosts::{HostLists, HostRefusal, PairVerdict};
use bursar_core::limits::PAYMENT_MICROS;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;

use super::{Verdict, hold};
use crate::refusal::Refusal;
use crate::requests::PaymentAsk;

/// Everything that the rules read.
#[derive(Debug)]
pub struct PaymentContext<'a> {
    pub ask: &'a PaymentAsk,
    /// The paying address.
    pub from: Address,
    pub policy: &'a Policy,
    pub network_enabled: bool,
    /// Whether the journal matches the wallet.
    pub trusted: bool,
    /// Whether this machine's clock is far off the newest block.
    pub clock_off: bool,
    /// Longest validity, in seconds, that needs no approval.
    pub max_validity_s: u64,
    /// How much of today's allowance is already spent.
    pub spent: Usd,
    /// Amount reserved by the agent's other held payments.
    pub reserved: Usd,
    pub held_by_agent: usize,
    pub held_in_all: usize,
}

/// Decides whether a payment is signed, held or refused.
pub fn assess(context: &PaymentContext<'_>) -> Verdict {
    match check_refusals(context) {
        Err(refusal) => Verdict::Refuse(refusal),
        Ok(resource_outside) => match hold_reason(context, resource_outside) {
            None => Verdict::Act,
            Some(reason) => hold(reason, context.held_by_agent, context.held_in_all),
        },
    }
}

/// Applies the rules that refuse. Returns true if `request_url` is allowed and a URL of the challenge is not.
fn check_refusals(context: &PaymentContext<'_>) -> Result<bool, Refusal> {
    let (ask, payments) = (context.ask, &context.policy.payments);
    if context.spent >= payments.daily {
        return Err(Refusal::over(Code::LimitReached, ask.usd, Usd::ZERO));
    }
    if !payments.enabled {
        return Err(Refusal::new(Code::X402Disabled));
    }
    check_payable(context)?;
    if !context.network_enabled {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    if !context.policy.networks.allows(ask.chain) {
        return Err(Refusal::new(Code::NetworkNotAllowed));
    }
    if ask.unpriced {
        return Err(Refusal::new(Code::UnsupportedAsset));
    }
    let resource_outside = check_hosts(&payments.hosts, ask.request_url.as_deref(), ask)?;
    if ask.usd > payments.per_request {
        return Err(Refusal::over(Code::ExceedsPerRequestMax, ask.usd, payments.per_request));
    }
    let committed = context.spent.checked_add(context.reserved);
    let after = committed.and_then(|committed| committed.checked_add(ask.usd));
    if !after.is_ok_and(|after| after <= payments.daily) {
        let left = committed.map_or(Usd::ZERO, |committed| payments.daily.left_after(committed));
        return Err(Refusal::over(Code::ExceedsDailyLimit, ask.usd, left));
    }
    Ok(resource_outside)
}

/// Refuses offers that no policy could allow.
fn check_payable(context: &PaymentContext<'_>) -> Result<(), Refusal> {
    let ask = context.ask;
    if ask.amount.0.is_zero() || ask.usd.0 > PAYMENT_MICROS {
        return Err(Refusal::because(
            Code::InvalidX402Format,
            "The amount must be above zero and at most one billion dollars.",
        ));
    }
    if ask.valid_seconds > u64::from(u32::MAX) {
        return Err(Refusal::because(Code::InvalidX402Format, "maxTimeoutSeconds is too large."));
    }
    if ask.payee == Address::ZERO || ask.payee == ask.asset || ask.payee == context.from {
        return Err(Refusal::because(
            Code::InvalidPaymentData,
            "payTo must not be the zero address, the token contract or the payer.",
        ));
    }
    Ok(())
}

/// Applies the domain rules to the agent's URL and the challenge's.
///
/// Returns true if `request_url` is allowed and a URL of the challenge is not.
pub(crate) fn check_hosts(
    hosts: &HostLists,
    request_url: Option<&str>,
    challenge: &PaymentAsk,
) -> Result<bool, Refusal> {
    match hosts.check_urls(request_url, challenge.challenge_urls()) {
        PairVerdict::Pass => Ok(false),
        PairVerdict::Hold => Ok(true),
        PairVerdict::Refuse(refusal) => Err(match refusal {
            HostRefusal::UrlRequired => Refusal::new(Code::DomainUrlRequired),
            HostRefusal::Blocked => {
                Refusal::because(Code::DomainNotAllowed, "The agent's policy blocks this domain.")
            }
            HostRefusal::NotAllowed => Refusal::new(Code::DomainNotAllowed),
            HostRefusal::Invalid => Refusal::because(
                Code::DomainNotAllowed,
                "The agent's policy restricts domains, and a URL of this payment has no valid domain: send a valid request_url.",
            ),
        }),
    }
}

/// Returns why the operator must decide, if so. Unusual reasons come before ordinary ones.
fn hold_reason(context: &PaymentContext<'_>, resource_outside: bool) -> Option<HoldReason> {
    let (ask, payments) = (context.ask, &context.policy.payments);
    let auto = payments.auto_below;
    if !context.trusted {
        Some(HoldReason::JournalUntrusted)
    } else if context.clock_off {
        Some(HoldReason::ClockOff)
    } else if ask.domain_contradicted {
        Some(HoldReason::DomainContradicted)
    } else if ask.valid_seconds > context.max_validity_s {
        Some(HoldReason::LongValidity)
    } else if resource_outside {
        Some(HoldReason::ResourceOutsideAllowList)
    } else if auto == Usd::ZERO {
        Some(HoldReason::ManualOnly)
    } else if ask.usd >= auto {
        Some(HoldReason::AboveThreshold)
    } else {
        None
    }
}
