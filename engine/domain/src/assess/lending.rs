//! Applies a policy to one loan. The rules are in the order of their application: the first refusal wins, and a loan is
//! held only if no rule refuses it. A withdrawal is never refused for its amount in dollars.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::CLOCK_OFF_CHAIN_MS_MAX;
use bursar_core::money::{Bps, Usd};
use bursar_core::policy::{AllowedNetworks, LendingPolicy, Policy};
use bursar_morpho::SharePrice;
use bursar_morpho::worth::keeps_deposit_value;

use super::trading::Commitments;
use super::{Verdict, hold};
use crate::effects::Effects;
use crate::loans::{Exposure, LoanAsk, LoanPlace, LoanQuote, Loans, Standing, VenueFacts};
use crate::refusal::Refusal;

/// A supply needs the operator if the venue's free liquidity is less than this many times the deposit.
const FREE_LIQUIDITY_FACTOR: u64 = 10;

/// Everything that the rules read.
#[derive(Debug)]
pub struct LoanContext<'a> {
    pub ask: &'a LoanAsk,
    /// The newest quote.
    pub quote: &'a LoanQuote,
    pub policy: &'a Policy,
    pub network_enabled: bool,
    /// Whether the journal matches the wallet.
    pub trusted: bool,
    /// Whether this machine's clock is far off the newest block.
    pub is_clock_off: bool,
    /// This machine's clock, in Unix seconds.
    pub now: u64,
    pub commitments: Commitments,
    /// The trust of Bursar and of the operator in the venue.
    pub standing: Standing,
    /// The highest price of the venue's shares that was recorded.
    pub best_price: Option<SharePrice>,
    /// Whether no supply to this venue was allowed before.
    pub is_first_supply: bool,
    /// The total that the address has lent on the policy's networks; `None` if a part cannot be read.
    pub total_lent: Option<Usd>,
    /// Value of the other pending supplies from this address, by any agent.
    pub reserved: Usd,
    /// Number of the agent's other supplies and withdrawals today, including open ones.
    pub operations: u32,
    pub held_by_agent: usize,
    pub held_in_all: usize,
}

/// Decides whether a loan is executed, held or refused.
pub fn assess(context: &LoanContext<'_>) -> Verdict {
    let checked = check_use(context).and_then(|venue| {
        if context.ask.is_supply() {
            check_supply(context, venue)?;
            check_funds(context)?;
            check_shares(context, venue)?;
        } else {
            context.ask.check_exit(context.quote)?;
            check_funds(context)?;
        }
        Ok(venue)
    });
    match checked {
        Err(refusal) => Verdict::Refuse(refusal),
        Ok(venue) => match hold_reason(context, venue) {
            None => Verdict::Act,
            Some(reason) => hold(reason, context.held_by_agent, context.held_in_all),
        },
    }
}

/// Returns the total that an address has lent on the networks of a policy.
///
/// For each venue, the higher of the amounts on the chain and in the journal counts. A disabled network is not read,
/// so only the journal counts there: disabling a network lifts no limit. `None` if a part cannot be read, or on
/// overflow.
pub fn total_lent(
    loans: &Loans,
    owner: Address,
    networks: &AllowedNetworks,
    exposure: &Exposure,
) -> Option<Usd> {
    if !exposure.unreadable.is_empty() {
        return None;
    }
    let mut each: BTreeMap<LoanPlace, Usd> = BTreeMap::new();
    for (place, lent) in loans.used_by(owner, |chain| networks.allows(chain)) {
        each.insert(*place, lent.net);
    }
    for (chain, venue, worth) in &exposure.positions {
        let place = LoanPlace { owner, chain: *chain, venue: *venue };
        let known = each.entry(place).or_default();
        *known = (*known).max(*worth);
    }
    each.values().try_fold(Usd::ZERO, |sum, one| sum.checked_add(*one)).ok()
}

/// Returns the most that may be lent: the policy's total, or its share of what the address owns if that is less.
pub fn ceiling(lending: &LendingPolicy, liquid: Usd, deployed: Usd) -> Usd {
    let Some(share) = lending.max_share else { return lending.max_total };
    let owned = u128::from(liquid.0).saturating_add(u128::from(deployed.0));
    let most = share_of(owned, share);
    lending.max_total.min(Usd(u64::try_from(most).unwrap_or(u64::MAX)))
}

fn share_of(amount: u128, share: Bps) -> u128 {
    amount.saturating_mul(u128::from(share.0)).checked_div(10_000).unwrap_or(0)
}

/// Checks the rules that apply to supplies and withdrawals alike, and returns the facts of the venue.
fn check_use<'a>(context: &LoanContext<'a>) -> Result<&'a VenueFacts, Refusal> {
    let LoanContext { ask, quote, .. } = context;
    if !context.policy.lending.enabled {
        return Err(Refusal::new(Code::DefiDisabled));
    }
    if !context.network_enabled {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    if !context.policy.networks.allows(ask.chain) {
        return Err(Refusal::new(Code::NetworkNotAllowed));
    }
    if ask.deadline.is_some_and(|deadline| deadline <= context.now.max(quote.block_time)) {
        return Err(Refusal::new(Code::DeadlinePassed));
    }
    let venue = quote.venue.as_deref().ok_or(Refusal::new(Code::QuoteFailed))?;
    if !venue.lends_stablecoin {
        let message = "The venue does not lend this network's stablecoin.";
        return Err(Refusal::because(Code::VenueNotPermitted, message));
    }
    Ok(venue)
}

fn check_supply(context: &LoanContext<'_>, venue: &VenueFacts) -> Result<(), Refusal> {
    let LoanContext { ask, quote, .. } = context;
    let lending = &context.policy.lending;
    check_standing(context, venue)?;
    if context.operations >= lending.operations_per_day {
        return Err(Refusal::new(Code::DailyOpsExceeded));
    }
    let counted = ask.counted_value_at(quote);
    if counted > lending.max_deposit {
        return Err(Refusal::over_limit(Code::PerDepositExceeded, counted, lending.max_deposit));
    }
    let deployed = context.total_lent.ok_or(Refusal::new(Code::ExposureUnreadable))?;
    let limit = ceiling(lending, quote.exposure.liquid, deployed);
    let committed = deployed.checked_add(context.reserved);
    let after = committed.and_then(|committed| committed.checked_add(counted));
    if !after.is_ok_and(|after| after <= limit) {
        let left = committed.map_or(Usd::ZERO, |committed| limit.left_after(committed));
        return Err(Refusal::over_limit(Code::ExposureExceeded, counted, left));
    }
    Ok(())
}

/// Checks that the shares of a supply are worth at least 99.9 % of the assets that the supply may take.
fn check_shares(context: &LoanContext<'_>, venue: &VenueFacts) -> Result<(), Refusal> {
    let LoanContext { ask, quote, .. } = context;
    if !venue.resists_donations {
        let message =
            "The venue has too few virtual shares, so a donation could take a part of the deposit.";
        return Err(Refusal::because(Code::VenueNotPermitted, message));
    }
    if !keeps_deposit_value(ask.max_amount(quote).0, quote.redeem_value.0) {
        let message = "The shares of this deposit would be worth less than 99.9 % of it.";
        return Err(Refusal::because(Code::WouldFail, message));
    }
    Ok(())
}

fn check_standing(context: &LoanContext<'_>, venue: &VenueFacts) -> Result<(), Refusal> {
    let not_permitted = |message: String| Err(Refusal::because(Code::VenueNotPermitted, message));
    let reason = venue.doubt();
    match context.standing {
        Standing::Trusted => Ok(()),
        Standing::Changed => not_permitted(format!(
            "The venue has changed, or the operator no longer trusts it: {reason}."
        )),
        Standing::Unconfirmed if context.policy.lending.curated_only => not_permitted(format!(
            "The venue is new, and the operator has not confirmed it: {reason}."
        )),
        Standing::Untrusted if context.policy.lending.curated_only => {
            not_permitted(format!("The policy allows curated venues only: {reason}."))
        }
        Standing::Unconfirmed | Standing::Untrusted => Ok(()),
    }
}

/// Checks that the address holds enough stablecoin for a supply, and enough native coin for gas.
fn check_funds(context: &LoanContext<'_>) -> Result<(), Refusal> {
    let LoanContext { ask, quote, commitments: promised, .. } = context;
    let leaving = promised.native.checked_add(quote.plan_cost);
    if leaving.is_none_or(|leaving| leaving > quote.native_balance) {
        let message = "The paying address does not hold enough ETH for gas.";
        return Err(Refusal::because(Code::InsufficientFunds, message));
    }
    let free = quote.balance.checked_sub(promised.token_in);
    if ask.is_supply() && free.is_none_or(|free| free < ask.max_amount(quote).0) {
        let message =
            "The balance of the paying address, less amounts in flight, is below the deposit.";
        return Err(Refusal::because(Code::InsufficientFunds, message));
    }
    Ok(())
}

/// Returns the reason to ask the operator, if there is one. Unusual reasons come before ordinary ones.
fn hold_reason(context: &LoanContext<'_>, venue: &VenueFacts) -> Option<HoldReason> {
    let LoanContext { ask, quote, .. } = context;
    let lending = &context.policy.lending;
    if !context.trusted {
        return Some(HoldReason::JournalUntrusted);
    }
    if context.is_clock_off || is_block_ahead(context) {
        return Some(HoldReason::ClockOff);
    }
    let unusual =
        if ask.is_supply() { supply_doubt(context, venue) } else { withdrawal_doubt(context) };
    if unusual.is_some() {
        return unusual;
    }
    if quote.effects != Effects::Proven {
        return Some(HoldReason::EffectsUnproven);
    }
    let value = ask.value(quote);
    if lending.auto_below == Usd::ZERO {
        Some(HoldReason::ManualOnly)
    } else if value.is_none_or(|value| value >= lending.auto_below) {
        Some(HoldReason::AboveThreshold)
    } else {
        None
    }
}

fn supply_doubt(context: &LoanContext<'_>, venue: &VenueFacts) -> Option<HoldReason> {
    let LoanContext { ask, quote, .. } = context;
    if context.standing != Standing::Trusted && context.is_first_supply {
        return Some(HoldReason::UncuratedVenue);
    }
    let fell = match (context.best_price, venue.price) {
        (Some(best), Some(now)) => now.is_below(&best),
        (_, None) => true,
        (None, Some(_)) => false,
    };
    if fell {
        return Some(HoldReason::SharePriceFell);
    }
    let wanted = ask.max_amount(quote).0.saturating_mul(U256::from(FREE_LIQUIDITY_FACTOR));
    if venue.free_liquidity.is_none_or(|free| free.0 < wanted) {
        return Some(HoldReason::ThinLiquidity);
    }
    let leaving = context.commitments.native.saturating_add(quote.plan_cost);
    let left = quote.native_balance.saturating_sub(leaving);
    (left < quote.exit_cost).then_some(HoldReason::ExitUnfunded)
}

fn withdrawal_doubt(context: &LoanContext<'_>) -> Option<HoldReason> {
    let most = context.policy.lending.operations_per_day;
    (context.operations >= most).then_some(HoldReason::OperationsSpent)
}

/// Returns whether the quote's block is over ten minutes in the future of our clock.
fn is_block_ahead(context: &LoanContext<'_>) -> bool {
    let most = context.now.saturating_add(CLOCK_OFF_CHAIN_MS_MAX.unsigned_abs() / 1_000);
    context.quote.block_time > most
}
