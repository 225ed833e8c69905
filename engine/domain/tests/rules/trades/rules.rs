//! The rules of `assess`, each at its boundary and in their order.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::{HELD_PER_AGENT_MAX, HELD_TOTAL_MAX};
use bursar_core::money::{Atoms, Bps, Usd, Wei};
use bursar_core::policy::{AllowedNetworks, Contracts};
use bursar_domain::assess::Verdict;
use bursar_domain::effects::Effects;
use bursar_domain::trades::{RouteQuote, TradeToken, Venue};
use bursar_uniswap::pool::DYNAMIC_FEE;

use crate::trades::bench::{BASE, HELD_WEI, PLAN_COST, ROBINHOOD};
use crate::trades::case::Wanted::{Act, Hold, Refuse};
use crate::trades::case::{Case, NOW, Wanted, judge};

type Change = fn(&mut Case);

/// Each reason to refuse, in the order of the rules.
const REFUSALS: [(Code, Change); 9] = [
    (Code::TradingDisabled, |case| case.policy.trading.enabled = false),
    (Code::NetworkDisabled, |case| case.network_enabled = false),
    (Code::NetworkNotAllowed, |case| {
        case.policy.networks = AllowedNetworks::Only(BTreeSet::from([ROBINHOOD]));
    }),
    (Code::DeadlinePassed, |case| case.ask.deadline = Some(NOW)),
    (Code::ExceedsMaxSlippage, |case| case.policy.trading.max_slippage = Bps(99)),
    (Code::ExceedsPerTradeMax, |case| case.policy.trading.per_trade = Usd(9_999_999)),
    (Code::BelowMinNative, |case| case.quote.native_balance = U256::ZERO),
    (Code::InsufficientFunds, |case| case.quote.balance_in = U256::ZERO),
    (Code::ExceedsDailyVolume, |case| case.policy.trading.daily = Usd(9_999_999)),
];

/// Each reason to hold for the operator, in the order of the rules.
const HOLDS: [(HoldReason, Change); 10] = [
    (HoldReason::JournalUntrusted, |case| case.trusted = false),
    (HoldReason::ClockOff, |case| case.clock_off = true),
    (HoldReason::NoValue, |case| case.quote.value_in = None),
    (HoldReason::ImpactAboveCeiling, |case| case.quote.impact = Some(Bps(501))),
    (HoldReason::BetterRoute, |case| case.quote.best_route = Some(route_paying(10_526_315_791))),
    (HoldReason::HookedPool, |case| case.ask.venue = v4(500, Address::repeat_byte(1))),
    (HoldReason::UnlistedToken, |case| {
        case.ask.token_out.address = Some(Address::repeat_byte(0x42));
    }),
    (HoldReason::UnfairValue, |case| case.quote.value_out = Some(Usd(9_499_999))),
    (HoldReason::EffectsUnproven, |case| case.quote.effects = Effects::Unproven),
    (HoldReason::AboveThreshold, |case| case.policy.trading.auto_below = Usd(10_000_000)),
];

fn v4(fee: u32, hooks: Address) -> Venue {
    Venue::V4 { fee, tick_spacing: 10, hooks, pool: B256::repeat_byte(7) }
}

/// Returns another route that pays `out`. The ordinary quote of ten dollars pays 10,000,000,000.
fn route_paying(out: u64) -> Box<RouteQuote> {
    Box::new(RouteQuote { venue: v4(500, Address::ZERO), out: Atoms(U256::from(out)) })
}

fn native() -> TradeToken {
    TradeToken { address: None, symbol: "ETH".to_owned(), decimals: 18 }
}

/// The first refusal wins, and no reason to hold hides a refusal.
#[test]
fn rules_apply_in_order() {
    judge("nothing is wrong", Act, |_case| {});
    for (index, (code, alone)) in REFUSALS.iter().enumerate() {
        judge("alone", Refuse(*code), alone);
        judge("with all later refusals and all holds", Refuse(*code), |case| {
            for (_reason, change) in HOLDS.iter().filter(|(held, _)| *held != HoldReason::NoValue) {
                change(case);
            }
            REFUSALS.iter().skip(index).for_each(|(_code, change)| change(case));
        });
    }
    for (index, (reason, alone)) in HOLDS.iter().enumerate() {
        judge("alone", Hold(*reason), alone);
        judge("with all later holds", Hold(*reason), |case| {
            HOLDS.iter().skip(index).for_each(|(_reason, change)| change(case));
        });
    }
}

#[test]
fn a_value_at_the_per_trade_maximum_passes_and_a_micro_dollar_more_is_refused() {
    for (value, auto, wanted) in [
        (100_000_000, Usd::dollars(500), Act),
        (100_000_001, Usd::dollars(500), Refuse(Code::ExceedsPerTradeMax)),
        (100_000_000, Usd::dollars(50), Hold(HoldReason::AboveThreshold)),
    ] {
        let mut case = Case::of(value);
        case.policy.trading.auto_below = auto;
        assert_eq!(Wanted::from(case.verdict()), wanted, "{value}");
    }
    let Verdict::Refuse(refusal) = Case::of(100_000_001).verdict() else { panic!("refused") };
    assert_eq!(refusal.requested, Some(Usd(100_000_001)));
    assert_eq!(refusal.bound, Some(Usd::dollars(100)));
}

/// A value at the threshold is held, and a threshold of zero holds every value.
#[test]
fn a_value_at_the_threshold_is_held() {
    for (value, wanted) in [
        (49_999_999, Act),
        (50_000_000, Hold(HoldReason::AboveThreshold)),
        (50_000_001, Hold(HoldReason::AboveThreshold)),
    ] {
        assert_eq!(Wanted::from(Case::of(value).verdict()), wanted, "{value}");
    }
    for value in [0, 1, 10_000_000] {
        let mut case = Case::of(value);
        case.policy.trading.auto_below = Usd::ZERO;
        assert_eq!(Wanted::from(case.verdict()), Hold(HoldReason::ManualOnly), "{value}");
    }
    judge("a maximum of zero allows nothing", Refuse(Code::ExceedsPerTradeMax), |case| {
        case.policy.trading.per_trade = Usd::ZERO;
    });
    judge("a volume of zero allows nothing", Refuse(Code::ExceedsDailyVolume), |case| {
        case.policy.trading.daily = Usd::ZERO;
    });
}

#[test]
fn an_impact_at_the_ceiling_passes_and_a_basis_point_more_asks() {
    for (impact, wanted) in [
        (Some(Bps(0)), Act),
        (Some(Bps(500)), Act),
        (Some(Bps(501)), Hold(HoldReason::ImpactAboveCeiling)),
        (None, Hold(HoldReason::ImpactUnknown)),
    ] {
        judge("impact", wanted, |case| case.quote.impact = impact);
    }
}

/// An unknown value cannot pass a limit, so the value of the largest trade counts.
#[test]
fn an_unknown_value_counts_the_largest_trade_and_is_held() {
    let unknown = |case: &mut Case| case.quote.value_in = None;
    judge("unknown", Hold(HoldReason::NoValue), unknown);
    for (spent, wanted) in
        [(400_000_000, Hold(HoldReason::NoValue)), (400_000_001, Refuse(Code::ExceedsDailyVolume))]
    {
        judge("500 - 100 are left", wanted, |case| {
            unknown(case);
            case.spent = Usd(spent);
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
        judge("the later of our clock and the block's", wanted, |case| {
            case.ask.deadline = Some(deadline);
            case.quote.block_time = block_time;
        });
    }
}

/// A block in the future would give the swap and its permit more time than intended.
#[test]
fn a_quote_of_a_block_over_ten_minutes_ahead_asks() {
    for (block_time, wanted) in [
        (0, Act),
        (NOW + 600, Act),
        (NOW + 601, Hold(HoldReason::ClockOff)),
        (u64::MAX, Hold(HoldReason::ClockOff)),
    ] {
        judge("ahead of our clock", wanted, |case| case.quote.block_time = block_time);
    }
}

#[test]
fn a_slippage_at_the_policys_maximum_passes_and_a_basis_point_more_is_refused() {
    judge("at the maximum", Act, |case| case.ask.slippage = Bps(300));
    judge("above", Refuse(Code::ExceedsMaxSlippage), |case| case.ask.slippage = Bps(301));
}

/// The minimum of the native coin must remain after the value, the plan's gas and the transactions in flight.
#[test]
fn the_minimum_of_the_native_coin_stays_after_everything() {
    let least = 100_000_000_000_000_u64;
    let free = U256::from(least) + U256::from(PLAN_COST);
    for (short, wanted) in [(0u64, Act), (1, Refuse(Code::BelowMinNative))] {
        judge("after the plan", wanted, |case| {
            case.quote.native_balance = free - U256::from(short);
        });
        judge("after what is in flight", wanted, |case| {
            case.promised.native = U256::from(HELD_WEI) - free + U256::from(short);
        });
        judge("after the value", wanted, |case| {
            case.ask.token_in = native();
            case.ask.amount_in = Atoms(U256::from(HELD_WEI) - free + U256::from(short));
            case.quote.balance_in = U256::ZERO;
        });
        judge("at a higher minimum", wanted, |case| {
            let left = u128::from(HELD_WEI - PLAN_COST);
            case.policy.trading.min_native = Wei(left + u128::from(short));
        });
    }
    let overflow = Refuse(Code::BelowMinNative);
    judge("an overflow", overflow, |case| case.promised.native = U256::MAX);
    judge("an overflow", overflow, |case| case.quote.plan_cost = U256::MAX);
}

/// Input tokens that open sends and signed payments may still take are not available.
#[test]
fn the_free_balance_covers_the_input() {
    let refused = Refuse(Code::InsufficientFunds);
    for (balance, promised, wanted) in [
        (10_000_000, 0, Act),
        (9_999_999, 0, refused),
        (13_000_000, 3_000_000, Act),
        (13_000_000, 3_000_001, refused),
        (3_000_000, 3_000_001, refused),
    ] {
        judge("free", wanted, |case| {
            case.quote.balance_in = U256::from(balance);
            case.promised.token_in = U256::from(promised);
        });
    }
}

#[test]
fn the_daily_volume_counts_what_is_spent_and_reserved() {
    for (spent, reserved, wanted) in [
        (490_000_000, 0, Act),
        (490_000_001, 0, Refuse(Code::ExceedsDailyVolume)),
        (0, 490_000_000, Act),
        (0, 490_000_001, Refuse(Code::ExceedsDailyVolume)),
        (245_000_000, 245_000_000, Act),
        (245_000_001, 245_000_000, Refuse(Code::ExceedsDailyVolume)),
        (u64::MAX, 1, Refuse(Code::ExceedsDailyVolume)),
        (1, u64::MAX, Refuse(Code::ExceedsDailyVolume)),
    ] {
        judge("volume", wanted, |case| {
            (case.spent, case.reserved) = (Usd(spent), Usd(reserved));
        });
    }
    let mut case = Case::of(10_000_000);
    (case.spent, case.reserved) = (Usd(300_000_000), Usd(195_000_000));
    let Verdict::Refuse(refusal) = case.verdict() else { panic!("refused") };
    assert_eq!(refusal.bound, Some(Usd(5_000_000)), "what is left");
}

#[test]
fn hooks_and_dynamic_fees_ask() {
    let asks = Hold(HoldReason::HookedPool);
    for (venue, wanted) in [
        (v4(500, Address::ZERO), Act),
        (v4(500, Address::repeat_byte(1)), asks),
        (v4(DYNAMIC_FEE, Address::ZERO), asks),
        (v4(DYNAMIC_FEE, Address::repeat_byte(1)), asks),
        (Venue::V3 { fee: DYNAMIC_FEE, pool: Address::ZERO }, Act),
    ] {
        judge("hooks", wanted, |case| case.ask.venue = venue);
    }
}

/// A pool whose price was moved before the quote shows no impact, but its output is worth too little.
#[test]
fn an_output_worth_less_than_one_minus_the_ceiling_asks() {
    for (value_out, ceiling, wanted) in [
        (Some(9_500_000), 500, Act),
        (Some(9_499_999), 500, Hold(HoldReason::UnfairValue)),
        (Some(0), 500, Hold(HoldReason::UnfairValue)),
        (None, 500, Hold(HoldReason::OutputUnpriced)),
        (Some(0), 10_000, Act),
        (Some(10_000_000), 30, Act),
        (Some(9_969_999), 30, Hold(HoldReason::UnfairValue)),
        (Some(u64::MAX), 500, Act),
    ] {
        judge("fair", wanted, |case| {
            case.quote.value_out = value_out.map(Usd);
            case.policy.trading.max_impact = Bps(ceiling);
        });
    }
}

/// An output token needs no outside price, except ETH, which lacks one only if its sources fail.
#[test]
fn only_eth_must_have_a_price() {
    let listed = Address::repeat_byte(0x42);
    for (address, wanted) in [(None, Hold(HoldReason::OutputUnpriced)), (Some(listed), Act)] {
        judge("output", wanted, |case| {
            case.ask.token_out.address = address;
            case.policy.trading.tokens = [listed].into_iter().collect();
            case.quote.value_out = None;
        });
    }
}

/// The trade's pool may pay less than the best route by at most the ceiling.
#[test]
fn a_pool_that_another_route_outdoes_asks() {
    for (out, ceiling, wanted) in [
        (9_000_000_000, 500, Act),
        (10_000_000_000, 0, Act),
        (10_000_000_001, 0, Hold(HoldReason::BetterRoute)),
        (10_526_315_790, 500, Act),
        (10_526_315_791, 500, Hold(HoldReason::BetterRoute)),
        (u64::MAX, 10_000, Act),
    ] {
        judge("outdone", wanted, |case| {
            case.quote.impact = Some(Bps(0));
            case.quote.best_route = Some(route_paying(out));
            case.policy.trading.max_impact = Bps(ceiling);
        });
    }
}

/// Wrapping and unwrapping have no price, but they need gas, funds and volume.
#[test]
fn one_to_one_trades_skip_price_rules_but_not_funds_and_value() {
    for venue in [Venue::Wrap, Venue::Unwrap] {
        let one_to_one = |case: &mut Case| case.ask.venue = venue.clone();
        judge("no price", Act, |case| {
            one_to_one(case);
            case.ask.slippage = Bps(10_000);
            case.quote.impact = None;
            case.quote.value_out = Some(Usd::ZERO);
        });
        for (code, change) in REFUSALS {
            let skips = code == Code::ExceedsMaxSlippage;
            judge("other rules", if skips { Act } else { Refuse(code) }, |case| {
                one_to_one(case);
                change(case);
            });
        }
        for reason in [
            HoldReason::JournalUntrusted,
            HoldReason::ClockOff,
            HoldReason::NoValue,
            HoldReason::EffectsUnproven,
            HoldReason::AboveThreshold,
        ] {
            let (_reason, change) = HOLDS.iter().find(|(held, _)| *held == reason).unwrap();
            judge("other holds", Hold(reason), |case| {
                one_to_one(case);
                change(case);
            });
        }
    }
}

/// A full queue refuses only requests that would be held.
#[test]
fn a_full_queue_refuses_what_would_be_held() {
    let full = Refuse(Code::TooManyPending);
    for (held, wanted) in [
        ((HELD_PER_AGENT_MAX - 1, HELD_TOTAL_MAX - 1), Hold(HoldReason::NoValue)),
        ((HELD_PER_AGENT_MAX, 0), full),
        ((0, HELD_TOTAL_MAX), full),
    ] {
        judge("held", wanted, |case| {
            case.quote.value_in = None;
            case.held = held;
        });
        judge("automatic", Act, |case| case.held = held);
    }
}

#[test]
fn a_policy_names_its_networks() {
    for (allowed, wanted) in
        [(vec![BASE, ROBINHOOD], Act), (vec![], Refuse(Code::NetworkNotAllowed))]
    {
        judge("networks", wanted, |case| {
            case.policy.networks = AllowedNetworks::Only(allowed.into_iter().collect());
        });
    }
}

/// A listed hook or token needs no approval, but the list covers no other hook or token.
#[test]
fn listed_hooks_and_tokens_need_no_approval() {
    let (hook, token) = (Address::repeat_byte(0x11), Address::repeat_byte(0x42));
    for fee in [500, 8_388_608] {
        judge("listed hook", Act, |case| {
            case.ask.venue = v4(fee, hook);
            case.policy.trading.hooks = Contracts::from_iter([hook]);
        });
        judge("another hook", Hold(HoldReason::HookedPool), |case| {
            case.ask.venue = v4(fee, Address::repeat_byte(0x12));
            case.policy.trading.hooks = Contracts::from_iter([hook]);
            case.policy.trading.tokens = Contracts::from_iter([Address::repeat_byte(0x12)]);
        });
    }
    judge("listed token", Act, |case| {
        case.ask.token_out.address = Some(token);
        case.policy.trading.tokens = Contracts::from_iter([token]);
    });
    judge("another token", Hold(HoldReason::UnlistedToken), |case| {
        case.ask.token_in.address = Some(token);
        case.policy.trading.tokens = Contracts::from_iter([Address::repeat_byte(0x43)]);
        case.policy.trading.hooks = Contracts::from_iter([token]);
    });
    judge("the native coin", Act, |case| {
        case.ask.token_out = native();
    });
}
