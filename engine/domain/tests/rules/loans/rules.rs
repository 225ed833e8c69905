//! The refusals of `assess`, each at its boundary and in their order.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::{HELD_PER_AGENT_MAX, HELD_TOTAL_MAX};
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::policy::AllowedNetworks;
use bursar_domain::assess::Verdict;
use bursar_domain::loans::Standing;

use crate::loans::asks::{HELD_WEI, PLAN_COST, ROBINHOOD, STABLECOIN_BALANCE};
use crate::loans::case::Wanted::{Act, Hold, Refuse};
use crate::loans::case::{Case, NOW, Wanted, judge, judge_withdrawal};
use crate::loans::holds::HOLDS;

pub(crate) type Change = fn(&mut Case);

/// Each reason to refuse a supply, in the order of the rules.
const REFUSALS: [(Code, Change); 14] = [
    (Code::DefiDisabled, |case| case.policy.lending.enabled = false),
    (Code::NetworkDisabled, |case| case.network_enabled = false),
    (Code::NetworkNotAllowed, |case| {
        case.policy.networks = AllowedNetworks::Only(BTreeSet::from([ROBINHOOD]));
    }),
    (Code::DeadlinePassed, |case| case.ask.deadline = Some(NOW)),
    (Code::VenueNotPermitted, |case| case.venue().lends_stablecoin = false),
    (Code::VenueNotPermitted, |case| case.standing = Standing::Unconfirmed),
    (Code::DailyOpsExceeded, |case| case.operations = 20),
    (Code::PerDepositExceeded, |case| case.policy.lending.max_deposit = Usd(9_999_999)),
    (Code::ExposureUnreadable, |case| case.deployed = None),
    (Code::ExposureExceeded, |case| case.reserved = Usd(490_000_001)),
    (Code::InsufficientFunds, |case| case.quote.native_balance = U256::ZERO),
    (Code::InsufficientFunds, |case| case.quote.balance = U256::ZERO),
    (Code::VenueNotPermitted, |case| case.venue().resists_donations = false),
    (Code::WouldFail, |case| case.quote.redeem_value = Atoms(U256::from(9_989_999))),
];

/// The first refusal wins, and no reason to hold hides a refusal.
#[test]
fn refusals_apply_in_order() {
    judge("nothing is wrong", Act, |_case| {});
    for (index, (code, alone)) in REFUSALS.iter().enumerate() {
        judge("alone", Refuse(*code), alone);
        judge(&format!("{index}, with all later refusals and all holds"), Refuse(*code), |case| {
            HOLDS.iter().for_each(|(_reason, change)| change(case));
            case.standing = Standing::Trusted;
            case.policy.lending.curated_only = true;
            REFUSALS.iter().skip(index).for_each(|(_code, change)| change(case));
        });
    }
}

/// A venue that the lane could not read has no quote that a policy could check.
#[test]
fn a_loan_without_a_venue_is_refused_after_the_rules_that_need_none() {
    judge("unread", Refuse(Code::QuoteFailed), |case| case.quote.venue = None);
    judge_withdrawal("unread", Refuse(Code::QuoteFailed), |case| case.quote.venue = None);
    for (code, change) in REFUSALS.iter().take(4) {
        judge("unread", Refuse(*code), |case| {
            case.quote.venue = None;
            change(case);
        });
    }
}

#[test]
fn a_deadline_at_this_second_has_passed() {
    for (deadline, block_time, wanted) in [
        (NOW - 1, 0, Refuse(Code::DeadlinePassed)),
        (NOW, 0, Refuse(Code::DeadlinePassed)),
        (NOW + 1, 0, Act),
        (NOW + 1, NOW + 1, Refuse(Code::DeadlinePassed)),
        (NOW + 2, NOW + 1, Act),
    ] {
        let change = |case: &mut Case| {
            case.ask.deadline = Some(deadline);
            case.quote.block_time = block_time;
        };
        judge("the later of our clock and the block's", wanted, change);
        judge_withdrawal("the later of our clock and the block's", wanted, change);
    }
}

/// A supply needs a trusted venue; a withdrawal does not.
#[test]
fn a_supply_needs_a_trusted_venue_and_a_withdrawal_does_not() {
    let not = Refuse(Code::VenueNotPermitted);
    for (standing, curated_only, wanted) in [
        (Standing::Trusted, true, Act),
        (Standing::Unconfirmed, true, not),
        (Standing::Untrusted, true, not),
        (Standing::Changed, true, not),
        (Standing::Trusted, false, Act),
        (Standing::Unconfirmed, false, Hold(HoldReason::UncuratedVenue)),
        (Standing::Untrusted, false, Hold(HoldReason::UncuratedVenue)),
        (Standing::Changed, false, not),
    ] {
        let change = |case: &mut Case| {
            case.standing = standing;
            case.policy.lending.curated_only = curated_only;
        };
        judge(&format!("{standing:?} {curated_only}"), wanted, change);
        judge_withdrawal(&format!("{standing:?} {curated_only}"), Act, change);
    }
}

#[test]
fn a_supply_after_the_last_operation_of_the_day_is_refused_and_a_withdrawal_asks() {
    for (done, refused) in [(19, false), (20, true), (21, true), (u32::MAX, true)] {
        let supply = if refused { Refuse(Code::DailyOpsExceeded) } else { Act };
        let takes = if refused { Hold(HoldReason::OperationsSpent) } else { Act };
        judge("supply", supply, |case| case.operations = done);
        judge_withdrawal("withdrawal", takes, |case| case.operations = done);
    }
    judge("none are allowed", Refuse(Code::DailyOpsExceeded), |case| {
        case.policy.lending.operations_per_day = 0;
    });
}

#[test]
fn a_deposit_at_the_maximum_passes_and_a_micro_dollar_more_is_refused() {
    for (value, wanted) in
        [(99_999_999, Act), (100_000_000, Act), (100_000_001, Refuse(Code::PerDepositExceeded))]
    {
        let mut case = Case::supply(value);
        case.policy.lending.auto_below = Usd::dollars(500);
        assert_eq!(Wanted::from(case.verdict()), wanted, "{value}");
    }
    let Verdict::Refuse(refusal) = Case::supply(100_000_001).verdict() else { panic!("refused") };
    assert_eq!(refusal.requested, Some(Usd(100_000_001)));
    assert_eq!(refusal.bound, Some(Usd::dollars(100)));
}

/// The amount lent, the other reservations and the deposit may fill the maximum exactly.
#[test]
fn an_exposure_at_the_maximum_passes_and_a_micro_dollar_more_is_refused() {
    for (deployed, reserved, wanted) in [
        (489_999_999, 0, Act),
        (490_000_000, 0, Act),
        (490_000_001, 0, Refuse(Code::ExposureExceeded)),
        (0, 490_000_000, Act),
        (0, 490_000_001, Refuse(Code::ExposureExceeded)),
        (245_000_000, 245_000_000, Act),
        (245_000_000, 245_000_001, Refuse(Code::ExposureExceeded)),
        (u64::MAX, 0, Refuse(Code::ExposureExceeded)),
        (0, u64::MAX, Refuse(Code::ExposureExceeded)),
    ] {
        judge(&format!("{deployed} + {reserved}"), wanted, |case| {
            (case.deployed, case.reserved) = (Some(Usd(deployed)), Usd(reserved));
        });
    }
    let mut case = Case::supply(10_000_000);
    (case.deployed, case.reserved) = (Some(Usd(400_000_000)), Usd(95_000_000));
    let Verdict::Refuse(refusal) = case.verdict() else { panic!("refused") };
    assert_eq!(refusal.requested, Some(Usd(10_000_000)));
    assert_eq!(refusal.bound, Some(Usd(5_000_000)));
}

/// The share applies to lent and liquid money together, rounded down. The lower of share and maximum applies.
#[test]
fn an_exposure_at_the_share_passes_and_a_micro_dollar_more_is_refused() {
    for (share, liquid, deployed, reserved, wanted) in [
        // 10 % of 100 dollars are 10 dollars.
        (1_000, 100_000_000, 0, 0, Act),
        (1_000, 99_999_999, 0, 0, Refuse(Code::ExposureExceeded)),
        (1_000, 100_000_000, 0, 1, Refuse(Code::ExposureExceeded)),
        (1_000, 100_000_009, 0, 1, Refuse(Code::ExposureExceeded)),
        (1_000, 100_000_010, 0, 1, Act),
        // 50 % of 40 + 60 dollars are 50 dollars, but 60 dollars are lent already.
        (5_000, 40_000_000, 60_000_000, 0, Refuse(Code::ExposureExceeded)),
        // 50 % of 60 + 40 dollars are 50 dollars.
        (5_000, 60_000_000, 40_000_000, 0, Act),
        (5_000, 59_999_999, 40_000_000, 0, Refuse(Code::ExposureExceeded)),
        // Here the absolute maximum is lower than the share.
        (10_000, 10_000_000_000, 490_000_000, 0, Act),
        (10_000, 10_000_000_000, 490_000_001, 0, Refuse(Code::ExposureExceeded)),
        (0, 10_000_000_000, 0, 0, Refuse(Code::ExposureExceeded)),
        (10_000, u64::MAX, 0, 0, Act),
    ] {
        let what = format!("{share} of {liquid} + {deployed}, {reserved} reserved");
        judge(&what, wanted, |case| {
            case.policy.lending.max_share = Some(Bps(share));
            case.quote.exposure.liquid = Usd(liquid);
            (case.deployed, case.reserved) = (Some(Usd(deployed)), Usd(reserved));
        });
    }
}

#[test]
fn the_deposit_and_the_gas_must_be_there_after_everything_in_flight() {
    for (short, wanted) in [(0, Act), (1, Refuse(Code::InsufficientFunds))] {
        let short = U256::from(short);
        judge("coins", wanted, |case| case.quote.balance = U256::from(10_000_000) - short);
        judge("coins in flight", wanted, |case| {
            case.promised.token_in =
                U256::from(STABLECOIN_BALANCE) - U256::from(10_000_000) + short;
        });
        let gas = |case: &mut Case| {
            case.quote.native_balance = U256::from(PLAN_COST) - short;
            case.quote.exit_cost = U256::ZERO;
        };
        judge("gas", wanted, gas);
        judge_withdrawal("gas", wanted, gas);
        let in_flight = |case: &mut Case| {
            case.promised.native = U256::from(HELD_WEI) - U256::from(PLAN_COST) + short;
            case.quote.exit_cost = U256::ZERO;
        };
        judge("gas in flight", wanted, in_flight);
        judge_withdrawal("gas in flight", wanted, in_flight);
    }
    judge("more is in flight than there is", Refuse(Code::InsufficientFunds), |case| {
        case.promised.token_in = U256::MAX;
    });
    judge("more gas is in flight than can be counted", Refuse(Code::InsufficientFunds), |case| {
        case.promised.native = U256::MAX;
    });
    judge_withdrawal("a withdrawal needs no coins", Act, |case| {
        (case.quote.balance, case.promised.token_in) = (U256::ZERO, U256::MAX);
    });
}

/// A donation or a fee may take at most a thousandth of the deposit.
#[test]
fn shares_worth_999_thousandths_of_the_deposit_pass() {
    for (worth, wanted) in [
        (9_990_001, Act),
        (9_990_000, Act),
        (9_989_999, Refuse(Code::WouldFail)),
        (0, Refuse(Code::WouldFail)),
    ] {
        judge("worth", wanted, |case| case.quote.redeem_value = Atoms(U256::from(worth)));
        judge_withdrawal("what is taken back is worth its amount", Act, |case| {
            case.quote.redeem_value = Atoms(U256::from(worth));
        });
    }
}

/// Only the position and the venue's liquidity limit the amount of a withdrawal.
#[test]
fn a_withdrawal_is_never_refused_for_money() {
    judge_withdrawal("over every limit", Hold(HoldReason::AboveThreshold), |case| {
        case.resize(STABLECOIN_BALANCE);
        case.policy.lending.max_deposit = Usd::ZERO;
        case.policy.lending.max_total = Usd::ZERO;
        case.policy.lending.max_share = Some(Bps(0));
        (case.deployed, case.reserved) = (None, Usd(u64::MAX));
        case.quote.exposure.unreadable = vec![(ROBINHOOD, None)];
        case.venue().resists_donations = false;
    });
    for (held, shares, wanted) in [
        (10, 9, Act),
        (10, 10, Act),
        (10, 11, Refuse(Code::InsufficientFunds)),
        (0, 0, Refuse(Code::InsufficientFunds)),
        (10, 0, Refuse(Code::InsufficientFunds)),
    ] {
        judge_withdrawal(&format!("{shares} of {held} shares"), wanted, |case| {
            (case.quote.held_shares, case.quote.shares) = (U256::from(held), U256::from(shares));
        });
    }
    for (most, wanted) in [
        (Some(10_000_001), Act),
        (Some(10_000_000), Act),
        (Some(9_999_999), Refuse(Code::InsufficientLiquidity)),
        (None, Act),
    ] {
        judge_withdrawal(&format!("{most:?} can be withdrawn"), wanted, |case| {
            case.quote.withdrawable = most.map(|most| Atoms(U256::from(most)));
        });
    }
}

/// A full queue refuses only requests that would be held.
#[test]
fn a_full_queue_refuses_what_must_be_held() {
    for (own, all, room) in [
        (HELD_PER_AGENT_MAX - 1, HELD_TOTAL_MAX - 1, true),
        (HELD_PER_AGENT_MAX, HELD_PER_AGENT_MAX, false),
        (0, HELD_TOTAL_MAX, false),
    ] {
        let wanted =
            if room { Hold(HoldReason::AboveThreshold) } else { Refuse(Code::TooManyPending) };
        judge("held", wanted, |case| {
            case.resize(50_000_000);
            case.held = (own, all);
        });
        judge("automatic", Act, |case| case.held = (own, all));
    }
}
