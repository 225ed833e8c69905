//! Guarantees that hold for every amount and for arbitrary bytes.
#![cfg(test)]

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_morpho::abi::blue::IMorphoBlue;
use bursar_morpho::abi::token::IErc20;
use bursar_morpho::abi::vault::{IVault, IVaultV2};
use bursar_morpho::decode::{decode_call, decode_parts, forced_exit_from};
use bursar_morpho::market::{FEE_MAX, VIRTUAL_ASSETS, VIRTUAL_SHARES};
use bursar_morpho::vault::v2_withdrawable;
use bursar_morpho::worth::keeps_deposit_value;
use bursar_morpho::{
    AccruedMarket, BorrowRate, Decoded, ForcedDeallocation, ForcedPart, ForcedSource,
    LiquiditySource, LoanAmount, Log, Market, MarketParams, MovedAmounts, NoForcedPlan, SharePrice,
    VaultFunds, VenueId, calls, errors, events, fill, views,
};
use proptest::collection::vec;
use proptest::prelude::*;

const THEN_S: u64 = 1_767_225_600;

fn any_u256() -> impl Strategy<Value = U256> {
    // The shift makes small numbers as likely as large ones.
    (any::<[u64; 4]>(), 0_usize..256).prop_map(|(limbs, shift)| U256::from_limbs(limbs) >> shift)
}

fn any_total() -> impl Strategy<Value = u128> {
    (any::<u128>(), 16_u32..128).prop_map(|(number, shift)| number >> shift)
}

fn any_address() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::from)
}

fn some_address() -> impl Strategy<Value = Address> {
    any_address().prop_filter("zero", |address| !address.is_zero())
}

fn params() -> impl Strategy<Value = MarketParams> {
    (any_address(), any_address(), any_address(), any_address(), any_u256()).prop_map(
        |(loan_token, collateral_token, oracle, interest_model, lltv_e18)| MarketParams {
            loan_token,
            collateral_token,
            oracle,
            interest_model,
            lltv_e18,
        },
    )
}

prop_compose! {
    /// Totals that the contract can have: the debt does not exceed the assets.
    fn market()(
        total_supply_assets in any_total(),
        total_supply_shares in any_total(),
        borrowed in 0_u128..=1_000,
        total_borrow_shares in any_total(),
        fee_e18 in 0..=FEE_MAX.to::<u128>(),
        has_fee in any::<bool>(),
    ) -> Market {
        Market {
            total_supply_assets,
            total_supply_shares,
            total_borrow_assets: total_supply_assets / 1_000 * borrowed,
            total_borrow_shares,
            last_update: u128::from(THEN_S),
            fee_e18: if has_fee { fee_e18 } else { 0 },
        }
    }
}

/// A rate of up to about 3,000 % a year, for up to a year.
fn any_accrual() -> impl Strategy<Value = (BorrowRate, u64)> {
    let rate = (0_u64..1_000_000_000_000).prop_map(|rate| BorrowRate::PerSecond(U256::from(rate)));
    (rate, (0_u64..=365 * 86_400).prop_map(|elapsed| THEN_S + elapsed))
}

fn any_amount() -> impl Strategy<Value = U256> {
    any_total().prop_map(U256::from)
}

/// Returns the numerator and the denominator of a share's price, virtual amounts included.
fn price(market: &Market) -> (U256, U256) {
    let assets = U256::from(market.total_supply_assets) + VIRTUAL_ASSETS;
    (assets, U256::from(market.total_supply_shares) + VIRTUAL_SHARES)
}

/// Compares by products of 512 bits: the totals have at most 129 bits each.
fn is_at_least(left: (U256, U256), right: (U256, U256)) -> bool {
    let product = |a: U256, b: U256| a.widening_mul::<256, 4, 512, 8>(b);
    product(left.0, right.1) >= product(right.0, left.1)
}

fn some_amount() -> impl Strategy<Value = U256> {
    any_u256().prop_filter("zero", |amount| !amount.is_zero())
}

fn any_venue() -> impl Strategy<Value = VenueId> {
    prop_oneof![
        any_address().prop_map(VenueId::Vault),
        any::<[u8; 32]>().prop_map(|id| VenueId::Market(B256::from(id))),
    ]
}

const SINGLETON: Address = Address::repeat_byte(0x11);
const CONTRACT: Address = Address::repeat_byte(0x22);

/// The functions that a plan calls.
const SELECTORS: [[u8; 4]; 9] = [
    IErc20::approveCall::SELECTOR,
    IVault::depositCall::SELECTOR,
    IVault::mintCall::SELECTOR,
    IVault::withdrawCall::SELECTOR,
    IVault::redeemCall::SELECTOR,
    IMorphoBlue::supplyCall::SELECTOR,
    IMorphoBlue::withdrawCall::SELECTOR,
    IVaultV2::forceDeallocateCall::SELECTOR,
    IVaultV2::multicallCall::SELECTOR,
];

prop_compose! {
    /// One call of a plan: its receiver, its data and its decoded meaning.
    fn call()(
        market in params(),
        any_amount in some_amount(),
        owner in some_address(),
        adapter in some_address(),
        by_shares in any::<bool>(),
        choice in 0_usize..9,
    ) -> (Address, Bytes, Decoded) {
        let (id, vault) = (market.id(), CONTRACT);
        let (loan, assets, shares) = if by_shares {
            (LoanAmount::Shares(any_amount), U256::ZERO, any_amount)
        } else {
            (LoanAmount::Assets(any_amount), any_amount, U256::ZERO)
        };
        match choice {
            0 => {
                let call = IErc20::approveCall { spender: owner, value: any_amount };
                let decoded = Decoded::Approve { token: vault, spender: owner, amount: any_amount };
                (vault, call.abi_encode().into(), decoded)
            }
            1 => {
                let decoded = Decoded::Deposit { vault, assets: any_amount, receiver: owner };
                (vault, calls::deposit(any_amount, owner).unwrap(), decoded)
            }
            2 => {
                let decoded = Decoded::Mint { vault, shares: any_amount, receiver: owner };
                (vault, calls::mint(any_amount, owner).unwrap(), decoded)
            }
            3 => {
                let decoded = Decoded::Withdraw { vault, assets: any_amount, receiver: owner, owner };
                (vault, calls::withdraw(any_amount, owner).unwrap(), decoded)
            }
            4 => {
                let decoded = Decoded::Redeem { vault, shares: any_amount, receiver: owner, owner };
                (vault, calls::redeem(any_amount, owner).unwrap(), decoded)
            }
            5 => {
                let has_callback_data = false;
                let decoded =
                    Decoded::MarketSupply { market: id, assets, shares, owner, has_callback_data };
                (SINGLETON, calls::supply(&market, loan, owner).unwrap(), decoded)
            }
            6 => {
                let receiver = owner;
                let decoded =
                    Decoded::MarketWithdraw { market: id, assets, shares, owner, receiver };
                (SINGLETON, calls::withdraw_from_market(&market, loan, owner).unwrap(), decoded)
            }
            _ => {
                let named = (choice == 7).then_some(&market);
                let decoded = Decoded::ForceDeallocate {
                    vault,
                    adapter,
                    market: named.map(MarketParams::id),
                    assets: any_amount,
                    owner,
                };
                (vault, calls::force_deallocate(adapter, named, any_amount, owner).unwrap(), decoded)
            }
        }
    }
}

fn without_accrual(market: &Market) -> AccruedMarket {
    market.accrue(BorrowRate::NoModel, THEN_S).unwrap()
}

/// Returns the market after a supply or a withdrawal of these amounts.
fn market_after_move(
    market: &AccruedMarket,
    assets: U256,
    shares: U256,
    is_supply: bool,
) -> Option<Market> {
    let totals = market.totals();
    let (assets, shares) = (u128::try_from(assets).ok()?, u128::try_from(shares).ok()?);
    let change = |old: u128, by| if is_supply { old.checked_add(by) } else { old.checked_sub(by) };
    Some(Market {
        total_supply_assets: change(totals.total_supply_assets, assets)?,
        total_supply_shares: change(totals.total_supply_shares, shares)?,
        ..*totals
    })
}

proptest! {
    #[test]
    fn every_conversion_rounds_in_favour_of_the_other_lenders(market in market(), amount in any_amount()) {
        let before = price(&market);
        let market = without_accrual(&market);
        let moves = [
            (amount, market.shares_floor(amount), true),
            (amount, market.shares_ceil(amount), false),
        ];
        for (assets, shares, is_supply) in moves {
            let shares = shares.unwrap();
            if let Some(after) = market_after_move(&market, assets, shares, is_supply) {
                prop_assert!(is_at_least(price(&after), before));
            }
        }
        let moves = [
            (market.assets_ceil(amount), amount, true),
            (market.assets_floor(amount), amount, false),
        ];
        for (assets, shares, is_supply) in moves {
            if let Some(after) = market_after_move(&market, assets.unwrap(), shares, is_supply) {
                prop_assert!(is_at_least(price(&after), before));
            }
        }
    }

    #[test]
    fn floor_and_ceiling_enclose_the_exact_amount(market in market(), amount in any_amount()) {
        let (assets, shares) = price(&market);
        let market = without_accrual(&market);
        let rows = [
            (market.assets_floor(amount), market.assets_ceil(amount), assets, shares),
            (market.shares_floor(amount), market.shares_ceil(amount), shares, assets),
        ];
        for (floor, ceil, times, by) in rows {
            let (floor, ceil) = (floor.unwrap(), ceil.unwrap());
            // Checks without a division: floor × by ≤ amount × times ≤ ceil × by, and ceil − floor ≤ 1.
            let product = |a: U256, b: U256| a.widening_mul::<256, 4, 512, 8>(b);
            prop_assert!(product(floor, by) <= product(amount, times));
            prop_assert!(product(ceil, by) >= product(amount, times));
            prop_assert!(ceil - floor <= U256::ONE);
            prop_assert_eq!(ceil == floor, product(floor, by) == product(amount, times));
        }
    }

    #[test]
    fn a_round_trip_never_gains(market in market(), amount in any_amount()) {
        let market = without_accrual(&market);
        let shares = market.shares_floor(amount).unwrap();
        prop_assert!(market.assets_floor(shares).unwrap() <= amount);
        let assets = market.assets_floor(amount).unwrap();
        prop_assert!(market.shares_ceil(assets).unwrap() <= amount);
    }

    #[test]
    fn accrual_never_loses(market in market(), (rate, now_s) in any_accrual(), amount in any_amount()) {
        let before = without_accrual(&market);
        let Ok(after) = market.accrue(rate, now_s) else { return Ok(()) };
        let totals = after.totals();
        prop_assert!(totals.total_supply_assets >= market.total_supply_assets);
        prop_assert!(totals.total_borrow_assets >= market.total_borrow_assets);
        prop_assert!(totals.total_supply_shares >= market.total_supply_shares);
        prop_assert!(is_at_least(price(totals), price(&market)));
        prop_assert!(after.assets_floor(amount).unwrap() >= before.assets_floor(amount).unwrap());
        // The lenders' assets grow by the same amount as the borrowers' debt, so the liquidity stays the same.
        prop_assert_eq!(after.liquidity(), before.liquidity());
        prop_assert_eq!(totals.last_update, u128::from(now_s));
    }

    #[test]
    fn interest_is_at_least_simple_interest(market in market(), (rate, now_s) in any_accrual()) {
        let BorrowRate::PerSecond(per_second) = rate else { return Ok(()) };
        let Ok(after) = market.accrue(rate, now_s) else { return Ok(()) };
        let elapsed = U256::from(now_s - THEN_S);
        let simple = U256::from(market.total_borrow_assets) * per_second * elapsed
            / U256::from(10).pow(U256::from(18));
        let paid = after.totals().total_borrow_assets - market.total_borrow_assets;
        prop_assert!(U256::from(paid) >= simple);
    }

    #[test]
    fn accrual_of_anything_never_panics(
        numbers in any::<[u128; 6]>(),
        rate in any_u256(),
        now_s in any::<u64>(),
        amount in any_u256(),
    ) {
        let [supply_assets, supply_shares, borrow_assets, borrow_shares, last_update, fee] = numbers;
        let market = Market {
            total_supply_assets: supply_assets,
            total_supply_shares: supply_shares,
            total_borrow_assets: borrow_assets,
            total_borrow_shares: borrow_shares,
            last_update: last_update >> 70,
            fee_e18: fee >> 70,
        };
        if let Ok(market) = market.accrue(BorrowRate::PerSecond(rate), now_s) {
            for convert in [
                AccruedMarket::assets_floor,
                AccruedMarket::assets_ceil,
                AccruedMarket::shares_floor,
                AccruedMarket::shares_ceil,
                AccruedMarket::withdrawable,
            ] {
                let _ = convert(&market, amount);
            }
        }
    }

    #[test]
    fn what_can_be_withdrawn_exceeds_neither_the_position_nor_what_is_free(
        market in market(),
        shares in any_amount(),
        worth in any_amount(),
        idle in any_amount(),
        supplied in any_amount(),
    ) {
        let market = without_accrual(&market);
        let withdrawable = market.withdrawable(shares).unwrap();
        prop_assert!(withdrawable <= market.assets_floor(shares).unwrap());
        prop_assert!(withdrawable <= market.liquidity());
        // The contract burns no more shares than the position has.
        prop_assert!(market.shares_ceil(withdrawable).unwrap() <= shares);

        let source = LiquiditySource::Market { supplied, liquidity: market.liquidity() };
        let withdrawable = v2_withdrawable(worth, idle, &source).unwrap();
        prop_assert!(withdrawable <= worth);
        prop_assert!(withdrawable <= idle + supplied);
        prop_assert!(withdrawable <= idle + market.liquidity());
    }

    #[test]
    fn more_worth_never_fails_the_price_check(assets in any_u256(), worth in any_amount(), more in any_amount()) {
        if keeps_deposit_value(assets, worth) {
            prop_assert!(keeps_deposit_value(assets, worth + more));
            prop_assert!(worth >= assets - assets.div_ceil(U256::from(1_000)));
        }
    }

    #[test]
    fn writes_round_trip(market in params(), amount in any_u256(), owner in some_address(), by_shares in any::<bool>()) {
        prop_assume!(!amount.is_zero());
        let (loan, expected) = if by_shares {
            (LoanAmount::Shares(amount), (U256::ZERO, amount))
        } else {
            (LoanAmount::Assets(amount), (amount, U256::ZERO))
        };
        let supply = calls::supply(&market, loan, owner).unwrap();
        let read = IMorphoBlue::supplyCall::abi_decode_validate(&supply).unwrap();
        prop_assert_eq!((read.assets, read.shares, read.onBehalf), (expected.0, expected.1, owner));
        prop_assert!(read.data.is_empty());

        let withdraw = calls::withdraw_from_market(&market, loan, owner).unwrap();
        let read = IMorphoBlue::withdrawCall::abi_decode_validate(&withdraw).unwrap();
        prop_assert_eq!((read.assets, read.shares), expected);
        prop_assert_eq!((read.onBehalf, read.receiver), (owner, owner));

        let redeem = calls::redeem(amount, owner).unwrap();
        let read = IVault::redeemCall::abi_decode_validate(&redeem).unwrap();
        prop_assert_eq!((read.shares, read.receiver, read.owner), (amount, owner, owner));

        let force = calls::force_deallocate(owner, Some(&market), amount, owner).unwrap();
        let read = IVaultV2::forceDeallocateCall::abi_decode_validate(&force).unwrap();
        prop_assert_eq!(read.assets, amount);
        prop_assert_eq!(views::adapter::decode_liquidity_market(&read.data), Some(market));
    }

    #[test]
    fn a_call_is_decoded_and_never_mistaken_for_another(
        (to, data, decoded) in call(),
        at in any::<prop::sample::Index>(),
        flipped in 1..=u8::MAX,
    ) {
        prop_assert_eq!(decode_call(SINGLETON, to, &data), decoded);
        let mut changed = data.to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flipped;
        prop_assert_ne!(decode_call(SINGLETON, to, &changed), decoded);
        // Truncated call data decodes as an unknown call.
        let cut = &data[..at];
        let selector = cut.first_chunk::<4>().copied();
        prop_assert_eq!(decode_call(SINGLETON, to, cut), Decoded::Unknown { to, selector });
    }

    #[test]
    fn a_forced_exit_is_decoded_and_never_mistaken_for_another(
        parts in vec((some_address(), params(), any::<bool>(), some_amount()), 1..5),
        (amount, owner, by_shares) in (some_amount(), some_address(), any::<bool>()),
        at in any::<prop::sample::Index>(),
        flipped in 1..=u8::MAX,
    ) {
        let parts: Vec<ForcedPart> = parts
            .into_iter()
            .map(|(adapter, market, named, assets)| {
                ForcedPart { adapter, market: named.then_some(market), assets }
            })
            .collect();
        let (vault, receiver) = (CONTRACT, owner);
        let (exit, last) = if by_shares {
            let last = Decoded::Redeem { vault, shares: amount, receiver, owner };
            (LoanAmount::Shares(amount), last)
        } else {
            let last = Decoded::Withdraw { vault, assets: amount, receiver, owner };
            (LoanAmount::Assets(amount), last)
        };
        let forced = parts.iter().map(|part| Decoded::ForceDeallocate {
            vault,
            adapter: part.adapter,
            market: part.market.as_ref().map(MarketParams::id),
            assets: part.assets,
            owner,
        });
        let expected: Vec<Decoded> = forced.chain([last]).collect();
        let data = calls::forced_exit(&parts, exit, owner).unwrap();
        prop_assert_eq!(&decode_parts(SINGLETON, vault, &data), &expected);
        prop_assert_eq!(forced_exit_from(&expected), Some(vault));
        let mut changed = data.to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flipped;
        prop_assert_ne!(&decode_parts(SINGLETON, vault, &changed), &expected);
        let cut = &data[..at];
        let selector = cut.first_chunk::<4>().copied();
        let unknown = Decoded::Unknown { to: vault, selector };
        prop_assert_eq!(decode_parts(SINGLETON, vault, cut), vec![unknown]);
    }

    #[test]
    fn a_forced_plan_takes_what_is_missing_and_no_more_than_there_is(
        sources in vec((0_u8..4, 0_u64..1_000_000_000, 0_u64..=20_000_000_000_000_000), 0..20),
        free in vec(0_u64..1_000_000_000, 4),
        plain in 0_u64..1_000_000_000,
        worth in 1_u64..4_000_000_000,
        assets in 1_u64..4_000_000_000,
    ) {
        let payer = |number: u8| VenueId::Market(B256::repeat_byte(number));
        let sources: Vec<ForcedSource> = sources
            .into_iter()
            .zip(0_u8..)
            .map(|((from, supplied, penalty), adapter)| ForcedSource {
                adapter: Address::repeat_byte(adapter),
                market: None,
                payer: payer(from),
                supplied: U256::from(supplied),
                penalty_e18: U256::from(penalty),
            })
            .collect();
        let free: std::collections::BTreeMap<VenueId, U256> =
            (0_u8..).map(payer).zip(free.into_iter().map(U256::from)).collect();
        let money = VaultFunds { plain_withdrawal_max: U256::from(plain), sources, free_by_payer: free };
        let (worth, assets) = (U256::from(worth), U256::from(assets.min(worth)));
        for (plan, wanted) in [(money.plan_assets(assets, worth), Some(assets)), (money.plan_all(worth), None)] {
            let most = match plan {
                Ok(ref plan) => {
                    let sum = |of: fn(&ForcedDeallocation) -> U256| plan.deallocations.iter().map(of).sum::<U256>();
                    prop_assert_eq!(sum(|one| one.assets), plan.assets);
                    prop_assert_eq!(sum(|one| one.penalty), plan.penalty);
                    for one in &plan.deallocations {
                        prop_assert!(!one.assets.is_zero() && one.assets <= one.source.supplied);
                        // The penalty is at most 2 %, rounded up.
                        prop_assert!(one.penalty <= one.assets.div_ceil(U256::from(50)));
                    }
                    for (payer, free) in &money.free_by_payer {
                        let of = plan.deallocations.iter().filter(|one| one.source.payer == *payer);
                        prop_assert!(of.map(|one| one.assets).sum::<U256>() <= *free);
                    }
                    let dearest = plan.deallocations.iter().map(|one| one.source.penalty_e18);
                    prop_assert!(dearest.is_sorted());
                    match wanted {
                        Some(wanted) => {
                            prop_assert_eq!(plan.assets + money.plain_withdrawal_max, wanted);
                            prop_assert!(plan.penalty.is_zero() || wanted + plan.penalty < worth);
                        }
                        None => prop_assert!(plan.assets + plan.penalty + money.plain_withdrawal_max >= worth),
                    }
                    continue;
                }
                Err(NoForcedPlan::NothingMissing) => {
                    prop_assert!(wanted.unwrap_or(worth) <= money.plain_withdrawal_max);
                    continue;
                }
                Err(NoForcedPlan::TooLittle { most }) => most,
                Err(NoForcedPlan::PenaltyUnpaid { penalty, most }) => {
                    prop_assert!(wanted.unwrap_or(worth) + penalty >= worth);
                    most
                }
                Err(other) => panic!("{other:?}"),
            };
            // `most` is not larger than the wanted amount, and an exit of `most` can be planned.
            prop_assert!(most <= wanted.unwrap_or(worth), "{most}");
            if most > money.plain_withdrawal_max && most + U256::from(2_000) < worth * U256::from(49) / U256::from(50) {
                prop_assert!(money.plan_assets(most, worth).is_ok(), "{most}");
            }
        }
    }

    #[test]
    fn a_venue_round_trips_as_text(venue in any_venue(), text in ".*") {
        prop_assert_eq!(venue.to_string().parse(), Ok(venue));
        if let Ok(venue) = text.parse::<VenueId>() {
            prop_assert_eq!(venue.to_string().to_lowercase(), text.to_lowercase());
        }
    }

    #[test]
    fn prices_are_compared_exactly(assets in any_u256(), shares in some_amount(), more in 1_u64..) {
        let price = SharePrice::new(assets, shares).unwrap();
        prop_assert!(!price.is_below(&price));
        if let Some(assets) = assets.checked_add(U256::from(more)) {
            let higher = SharePrice::new(assets, shares).unwrap();
            prop_assert!(price.is_below(&higher) && !higher.is_below(&price));
        }
        if let Some(diluted) = shares.checked_add(U256::from(more)) {
            let lower = SharePrice::new(assets, diluted).unwrap();
            prop_assert_eq!(lower.is_below(&price), !assets.is_zero());
        }
        // A price with both amounts multiplied by the same number equals the first price.
        let times = U256::from(more);
        if let (Some(assets), Some(shares)) = (assets.checked_mul(times), shares.checked_mul(times)) {
            let same = SharePrice::new(assets, shares).unwrap();
            prop_assert_eq!(same.compare(&price), std::cmp::Ordering::Equal);
        }
    }

    #[test]
    fn the_sum_of_deposits_does_not_depend_on_their_order(
        amounts in vec((any_amount(), any_amount(), any::<bool>()), 0..6),
        owner in some_address(),
    ) {
        let venue = VenueId::Vault(CONTRACT);
        let mut expected = None;
        let mut logs: Vec<Log> = Vec::new();
        for (assets, shares, is_own) in amounts {
            let receiver = if is_own { owner } else { Address::ZERO };
            let event = IVault::Deposit { sender: owner, owner: receiver, assets, shares };
            let event = event.encode_log_data();
            let topics = event.topics().to_vec();
            logs.push(Log { address: CONTRACT, topics, data: event.data });
            if is_own {
                let MovedAmounts { assets: a, shares: s } = expected.unwrap_or_default();
                expected = Some(MovedAmounts { assets: a + assets, shares: s + shares });
            }
        }
        prop_assert_eq!(fill::supplied_amounts(SINGLETON, &venue, owner, &logs), expected);
        logs.reverse();
        prop_assert_eq!(fill::supplied_amounts(SINGLETON, &venue, owner, &logs), expected);
    }

    #[test]
    fn answers_round_trip(
        market in params(),
        numbers in any::<[u128; 6]>(),
        address in any_address(),
        amount in any_u256(),
        data in vec(any::<u8>(), 0..300),
    ) {
        let answer = calls::liquidity_data(&market);
        prop_assert_eq!(views::market::decode_market_params(market.id(), &answer), Some(market));
        let words: Vec<u8> =
            numbers.iter().flat_map(|number| U256::from(*number).to_be_bytes::<32>()).collect();
        let read = views::market::decode_market(&words).unwrap();
        prop_assert_eq!(numbers, [
            read.total_supply_assets,
            read.total_supply_shares,
            read.total_borrow_assets,
            read.total_borrow_shares,
            read.last_update,
            read.fee_e18,
        ]);
        prop_assert_eq!(views::decode_address(address.into_word().as_slice()), Some(address));
        prop_assert_eq!(views::decode_amount(&amount.to_be_bytes::<32>()), Some(amount));
        let data = Bytes::from(data);
        let answer = IVaultV2::liquidityDataCall::abi_encode_returns(&data);
        prop_assert_eq!(views::vault::decode_liquidity_data(&answer), Some(data));
    }

    #[test]
    fn events_round_trip(
        id in any::<[u8; 32]>(),
        parties in any::<[[u8; 20]; 3]>(),
        assets in any_u256(),
        shares in any_u256(),
        contract in any_address(),
    ) {
        let [sender, receiver, owner] = parties.map(Address::from);
        let event = IVault::Withdraw { sender, receiver, owner, assets, shares }.encode_log_data();
        let read = events::vault_withdrawal(contract, event.topics(), &event.data).unwrap();
        prop_assert_eq!((read.sender, read.receiver, read.owner), (sender, receiver, owner));
        prop_assert_eq!((read.assets, read.shares, read.market_id), (assets, shares, None));

        let id = B256::from(id);
        let event = IMorphoBlue::Withdraw { id, caller: sender, onBehalf: owner, receiver, assets, shares }
            .encode_log_data();
        let read = events::market_withdrawal(contract, event.topics(), &event.data).unwrap();
        prop_assert_eq!((read.sender, read.receiver, read.owner), (sender, receiver, owner));
        prop_assert_eq!((read.assets, read.shares, read.market_id), (assets, shares, Some(id)));
    }

    #[test]
    fn decoders_never_panic_on_random_bytes(
        bytes in vec(any::<u8>(), 0..400),
        topics in vec(any::<[u8; 32]>(), 0..6),
        choice in 0_usize..7,
        is_singleton in any::<bool>(),
    ) {
        let names = [
            IErc20::Transfer::SIGNATURE_HASH,
            events::CREATE_VAULT_V2,
            events::CREATE_METAMORPHO,
            events::VAULT_DEPOSIT,
            events::VAULT_WITHDRAW,
            events::MARKET_SUPPLY,
            events::MARKET_WITHDRAW,
        ];
        let mut topics: Vec<_> = topics.into_iter().map(B256::from).collect();
        if let Some(first) = topics.first_mut() {
            *first = names[choice];
        }
        let contract = Address::ZERO;
        let _ = events::vault_created(contract, &topics, &bytes);
        let _ = events::vault_deposit(contract, &topics, &bytes);
        let _ = events::vault_withdrawal(contract, &topics, &bytes);
        let _ = events::market_supply(contract, &topics, &bytes);
        let _ = events::market_withdrawal(contract, &topics, &bytes);
        let log = Log { address: contract, topics, data: bytes.clone().into() };
        for venue in [VenueId::Vault(contract), VenueId::Market(B256::ZERO)] {
            let _ = fill::supplied_amounts(contract, &venue, contract, std::slice::from_ref(&log));
            let _ = fill::withdrawn_amounts(contract, &venue, contract, std::slice::from_ref(&log));
        }
        let _ = fill::penalty_amounts(contract, contract, std::slice::from_ref(&log));
        let _ = fill::token_received_and_sent(contract, contract, &[log]);
        let to = if is_singleton { SINGLETON } else { CONTRACT };
        for selector in SELECTORS {
            let data = [&selector[..], &bytes].concat();
            let _ = decode_call(SINGLETON, to, &data);
            let _ = forced_exit_from(&decode_parts(SINGLETON, to, &data));
        }
        let _ = decode_call(SINGLETON, to, &bytes);
        let _ = errors::reason(&bytes).to_string();
        let _ = views::decode_flag(&bytes);
        let _ = views::decode_length(&bytes);
        let _ = views::decode_market_id(&bytes);
        let _ = views::market::decode_market(&bytes);
        let _ = views::market::decode_market_params(B256::ZERO, &bytes);
        let _ = views::market::decode_position(&bytes);
        let _ = views::vault::decode_market_config(&bytes);
        let _ = views::adapter::decode_liquidity_market(&bytes);
        // Decoded data encodes to the same bytes.
        if let Some(data) = views::vault::decode_liquidity_data(&bytes) {
            prop_assert_eq!(IVaultV2::liquidityDataCall::abi_encode_returns(&data), bytes.clone());
        }
        prop_assert_eq!(views::decode_amount(&bytes).is_some(), bytes.len() == 32);
    }

    #[test]
    fn an_answer_that_is_cut_or_extended_is_not_read(market in params(), cut in 0_usize..160, extra in 1_usize..100) {
        let answer = calls::liquidity_data(&market);
        prop_assert_eq!(views::market::decode_market_params(market.id(), &answer[..cut]), None);
        let long = [&answer[..], &vec![0; extra]].concat();
        prop_assert_eq!(views::market::decode_market_params(market.id(), &long), None);
    }
}
