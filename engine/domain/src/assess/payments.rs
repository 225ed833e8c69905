//! Applies a policy to one payment. The rules are in the order of their application: the first refusal wins, and a
//! payment is held only if no rule refuses it.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::hosts::{HostLists, HostRefusal, PairVerdict};
use bursar_core::limits::PAYMENT_MICROS_MAX;
use bursar_core::money::{Bps, Usd};
use bursar_core::policy::Policy;

use super::{Verdict, hold};
use crate::assets::{AssetQuote, DomainCheck, ForeignAsset, has_moved};
use crate::refusal::Refusal;
use crate::requests::PaymentAsk;

/// A payment is held if its amount of the token sells for this many percent less than it costs.
const SELL_LOSS_PERCENT_MAX: u64 = 5;

/// A payment is held if ten times its amount costs this many percent more or less than ten times its price.
const TENFOLD_DEVIATION_PERCENT_MAX: u64 = 1;

/// A payment is held if the token's price is this far off its ten-minute average.
const AVERAGE_DEVIATION_MAX: Bps = Bps(300);

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
    pub is_clock_off: bool,
    /// Longest validity, in seconds, that needs no approval.
    pub max_validity_s: u64,
    /// How much of today's allowance is already spent.
    pub spent: Usd,
    /// Amount reserved by the agent's other pending payments.
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

/// Applies the rules that can refuse. Returns true if `request_url` is allowed and a URL of the challenge is not.
fn check_refusals(context: &PaymentContext<'_>) -> Result<bool, Refusal> {
    let (ask, payments) = (context.ask, &context.policy.payments);
    if context.spent >= payments.daily {
        return Err(Refusal::over_limit(Code::LimitReached, ask.usd, Usd::ZERO));
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
    if ask.foreign().is_some() && ask.network().is_none_or(|network| network.exchange.is_none()) {
        return Err(Refusal::new(Code::UnsupportedAsset));
    }
    let resource_outside = check_hosts(&payments.hosts, ask.request_url.as_deref(), ask)?;
    if ask.usd > payments.per_request {
        return Err(Refusal::over_limit(Code::ExceedsPerRequestMax, ask.usd, payments.per_request));
    }
    let committed = context.spent.checked_add(context.reserved);
    let after = committed.and_then(|committed| committed.checked_add(ask.usd));
    if !after.is_ok_and(|after| after <= payments.daily) {
        let left = committed.map_or(Usd::ZERO, |committed| payments.daily.left_after(committed));
        return Err(Refusal::over_limit(Code::ExceedsDailyLimit, ask.usd, left));
    }
    Ok(resource_outside)
}

/// Refuses offers that no policy could allow.
fn check_payable(context: &PaymentContext<'_>) -> Result<(), Refusal> {
    let ask = context.ask;
    if ask.amount.0.is_zero() || ask.usd.0 > PAYMENT_MICROS_MAX {
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

/// Returns the reason to ask the operator, if there is one. Unusual reasons come before ordinary ones.
fn hold_reason(context: &PaymentContext<'_>, resource_outside: bool) -> Option<HoldReason> {
    let (ask, payments) = (context.ask, &context.policy.payments);
    let auto = payments.auto_below;
    let doubt = ask.foreign().and_then(asset_doubt);
    if !context.trusted {
        Some(HoldReason::JournalUntrusted)
    } else if context.is_clock_off {
        Some(HoldReason::ClockOff)
    } else if ask.domain_contradicted {
        Some(HoldReason::DomainContradicted)
    } else if doubt.is_some() {
        doubt
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

/// Returns the reason to ask the operator about a token outside our table, if there is one.
fn asset_doubt(asset: &ForeignAsset) -> Option<HoldReason> {
    match (asset.domain, asset.confirmed_domain(), &asset.quote) {
        (DomainCheck::Unconfirmed, ..) => Some(HoldReason::DomainUnconfirmed),
        (_any, Some(_confirmed), Some(quote)) => price_doubt(quote),
        (_any, None, _) | (_any, _, None) => Some(HoldReason::Unpriced),
    }
}

/// Returns why a price is uncertain, if it is. A price whose comparison overflows is uncertain too.
fn price_doubt(quote: &AssetQuote) -> Option<HoldReason> {
    let differs = |from: U256, to: U256, percent: u64| {
        let part = from.abs_diff(to).checked_mul(U256::from(100));
        part.zip(from.checked_mul(U256::from(percent))).is_none_or(|(part, bound)| part >= bound)
    };
    let cost = quote.cost.0;
    let sells_well = quote
        .sale_proceeds
        .is_some_and(|sold| sold.0 >= cost || !differs(cost, sold.0, SELL_LOSS_PERCENT_MAX));
    let in_proportion = cost.checked_mul(U256::from(10));
    let is_deep = in_proportion
        .zip(quote.tenfold_cost)
        .is_some_and(|(cost, tenfold)| !differs(cost, tenfold.0, TENFOLD_DEVIATION_PERCENT_MAX));
    if !sells_well {
        Some(HoldReason::SellsForLess)
    } else if !is_deep {
        Some(HoldReason::ThinMarket)
    } else if quote.average_deviation.is_some_and(|off| off >= AVERAGE_DEVIATION_MAX) {
        Some(HoldReason::OffAverage)
    } else {
        None
    }
}

/// Refuses a price that differs by more than one percent from the one that was assessed.
pub(crate) fn check_drift(assessed: &AssetQuote, now: &AssetQuote) -> Result<(), Refusal> {
    if !has_moved(assessed.cost.0, now.cost.0) {
        return Ok(());
    }
    Err(Refusal::because(
        Code::PriceMoved,
        "The price of the token moved by more than 1 % since the request: request it again.",
    ))
}
