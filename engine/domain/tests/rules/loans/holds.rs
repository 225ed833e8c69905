//! The reasons for which `assess` asks the operator, each at its boundary and in their order.

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_domain::effects::Effects;
use bursar_domain::loans::Standing;

use crate::loans::asks::{EXIT_COST, HELD_WEI, PLAN_COST, price};
use crate::loans::case::Wanted::{Act, Hold, Refuse};
use crate::loans::case::{Case, NOW, judge, judge_withdrawal};
use crate::loans::rules::Change;

/// Each reason to ask about a supply, in the order of the rules.
pub(crate) const HOLDS: [(HoldReason, Change); 9] = [
    (HoldReason::JournalUntrusted, |case| case.trusted = false),
    (HoldReason::ClockOff, |case| case.clock_off = true),
    (HoldReason::UncuratedVenue, |case| {
        case.standing = Standing::Untrusted;
        case.policy.lending.curated_only = false;
    }),
    (HoldReason::SharePriceFell, |case| case.best = price(1_000_001)),
    (HoldReason::ThinLiquidity, |case| {
        case.venue().free_liquidity = Some(Atoms(U256::from(99_999_999)))
    }),
    (HoldReason::ExitUnfunded, |case| case.quote.exit_cost = U256::from(HELD_WEI)),
    (HoldReason::EffectsUnproven, |case| case.quote.effects = Effects::Unproven),
    (HoldReason::ManualOnly, |case| case.policy.lending.auto_below = Usd::ZERO),
    // The row before makes every loan manual, so this row sets the threshold to the amount of the loan.
    (HoldReason::AboveThreshold, |case| case.policy.lending.auto_below = Usd(10_000_000)),
];

#[test]
fn holds_apply_in_order() {
    for (index, (reason, alone)) in HOLDS.iter().enumerate() {
        judge("alone", Hold(*reason), alone);
        judge("with all later holds", Hold(*reason), |case| {
            HOLDS.iter().rev().take(HOLDS.len() - index).for_each(|(_reason, change)| change(case));
        });
    }
}

/// Rules that protect a deposit must not delay its withdrawal.
#[test]
fn a_withdrawal_asks_only_for_its_own_reasons() {
    for (reason, change) in HOLDS {
        let of_a_supply = matches!(
            reason,
            HoldReason::UncuratedVenue
                | HoldReason::SharePriceFell
                | HoldReason::ThinLiquidity
                | HoldReason::ExitUnfunded
        );
        let wanted = if of_a_supply { Act } else { Hold(reason) };
        judge_withdrawal("alone", wanted, change);
    }
    judge_withdrawal("the day is over first", Hold(HoldReason::OperationsSpent), |case| {
        case.operations = 20;
        case.quote.effects = Effects::Unproven;
        case.policy.lending.auto_below = Usd::ZERO;
    });
    judge_withdrawal("the clock comes before the day", Hold(HoldReason::ClockOff), |case| {
        case.operations = 20;
        case.clock_off = true;
    });
}

/// A block in the future would give the loan more time than intended.
#[test]
fn a_quote_of_a_block_over_ten_minutes_ahead_asks() {
    for (block_time, wanted) in [
        (0, Act),
        (NOW + 599, Act),
        (NOW + 600, Act),
        (NOW + 601, Hold(HoldReason::ClockOff)),
        (u64::MAX, Hold(HoldReason::ClockOff)),
    ] {
        judge("ahead of our clock", wanted, |case| case.quote.block_time = block_time);
        judge_withdrawal("ahead of our clock", wanted, |case| case.quote.block_time = block_time);
    }
}

/// The first supply needs the operator whatever the threshold is; later supplies do not.
#[test]
fn only_the_first_supply_to_an_uncurated_venue_asks() {
    for standing in [Standing::Unconfirmed, Standing::Untrusted] {
        for (is_first, wanted) in [(true, Hold(HoldReason::UncuratedVenue)), (false, Act)] {
            judge(&format!("{standing:?}"), wanted, |case| {
                case.policy.lending.curated_only = false;
                (case.standing, case.is_first) = (standing, is_first);
            });
        }
    }
    judge("a trusted venue", Act, |case| case.is_first = true);
}

#[test]
fn a_share_price_below_the_highest_recorded_asks() {
    let fell = Hold(HoldReason::SharePriceFell);
    for (best, now, wanted) in [
        (price(999_999), price(1_000_000), Act),
        (price(1_000_000), price(1_000_000), Act),
        (price(1_000_001), price(1_000_000), fell),
        (price(0), price(0), Act),
        (None, price(1_000_000), Act),
        (None, None, fell),
        (price(1_000_000), None, fell),
    ] {
        judge(&format!("{now:?} after {best:?}"), wanted, |case| {
            case.best = best;
            case.venue().price = now;
        });
    }
}

#[test]
fn free_money_below_ten_deposits_asks() {
    let thin = Hold(HoldReason::ThinLiquidity);
    for (free, wanted) in
        [(Some(99_999_999), thin), (Some(100_000_000), Act), (Some(100_000_001), Act), (None, thin)]
    {
        judge(&format!("{free:?}"), wanted, |case| {
            case.venue().free_liquidity = free.map(|free: u64| Atoms(U256::from(free)));
        });
    }
}

/// The ETH left after this plan and the transactions in flight must pay for a later withdrawal.
#[test]
fn too_little_ether_for_the_way_out_asks() {
    let needed = U256::from(PLAN_COST) + U256::from(EXIT_COST);
    for (short, wanted) in [(0, Act), (1, Hold(HoldReason::ExitUnfunded))] {
        let short = U256::from(short);
        judge("balance", wanted, |case| case.quote.native_balance = needed - short);
        judge("in flight", wanted, |case| {
            case.promised.native = U256::from(HELD_WEI) - needed + short;
        });
    }
}

/// A value at the threshold is held, and a threshold of zero holds every value.
#[test]
fn a_value_at_the_threshold_is_held() {
    let above = Hold(HoldReason::AboveThreshold);
    for (value, wanted) in [(49_999_999, Act), (50_000_000, above), (50_000_001, above)] {
        judge("supply", wanted, |case| case.resize(value));
        judge_withdrawal("withdrawal", wanted, |case| case.resize(value));
    }
    for value in [1, 10_000_000] {
        let manual = |case: &mut Case| {
            case.resize(value);
            case.policy.lending.auto_below = Usd::ZERO;
        };
        judge("supply", Hold(HoldReason::ManualOnly), manual);
        judge_withdrawal("withdrawal", Hold(HoldReason::ManualOnly), manual);
    }
}

/// A supply may take its whole allowance, even if its simulation took less.
#[test]
fn a_supply_that_paid_less_in_its_rehearsal_counts_its_whole_size() {
    let mint = |case: &mut Case, size: u64| {
        case.resize(size);
        case.quote.assets = Atoms(U256::from(1));
    };
    judge("per deposit", Refuse(Code::PerDepositExceeded), |case| mint(case, 100_000_001));
    judge("exposure", Refuse(Code::ExposureExceeded), |case| {
        mint(case, 10_000_000);
        case.reserved = Usd(490_000_001);
    });
    judge("threshold", Hold(HoldReason::AboveThreshold), |case| mint(case, 50_000_000));
    judge("funds", Refuse(Code::InsufficientFunds), |case| {
        mint(case, 10_000_000);
        case.quote.balance = U256::from(9_999_999);
    });
    judge("worth", Refuse(Code::WouldFail), |case| {
        mint(case, 10_000_000);
        case.quote.redeem_value = Atoms(U256::from(9_989_999));
    });
    judge("liquidity", Hold(HoldReason::ThinLiquidity), |case| {
        mint(case, 10_000_000);
        case.venue().free_liquidity = Some(Atoms(U256::from(99_999_999)));
    });
}
