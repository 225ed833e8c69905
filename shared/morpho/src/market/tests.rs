use super::*;
use alloy_primitives::{U256, address, b256};
use alloy_sol_types::SolValue;

const THEN_S: u64 = 1_767_225_600;
const MONTH_S: u64 = 30 * 86_400;

fn n(value: u128) -> U256 {
    U256::from(value)
}

/// A million of a token with 6 decimals, nine tenths of it borrowed, with a fee of 10 %.
fn busy_market() -> Market {
    Market {
        total_supply_assets: 1_000_000_000_000,
        total_supply_shares: 990_000_000_000_000_000,
        total_borrow_assets: 900_000_000_000,
        total_borrow_shares: 890_000_000_000_000_000,
        last_update: u128::from(THEN_S),
        fee_e18: 100_000_000_000_000_000,
    }
}

fn without_accrual(totals: Market) -> AccruedMarket {
    totals.accrue(BorrowRate::NoModel, THEN_S).unwrap()
}

/// The largest market of wrapped staked ether against USDC on Ethereum.
#[test]
fn the_id_is_the_one_of_a_deployed_market() {
    let market = MarketParams {
        loan_token: address!("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
        collateral_token: address!("0x7f39C581F595B53c5cb19bD0b3f8dA6c935E2Ca0"),
        oracle: address!("0x48F7E36EB6B826B2dF4B2E630B62Cd25e89E40e2"),
        interest_model: address!("0x870aC11D48B15DB9a138Cf899d20F13F79Ba00BC"),
        lltv_e18: n(860_000_000_000_000_000),
    };
    let id = b256!("b323495f7e4148be5643a4ea4a8221eef163e4bccfdedc2a6f4696baacbc86cc");
    assert_eq!(market.id(), id);
    assert_eq!(MarketParams { lltv_e18: n(1), ..market }.to_abi().abi_encode().len(), 160);
}

/// The expected totals were computed with Python integers, following the source of `Morpho.sol`.
#[test]
fn a_month_of_interest_is_that_of_the_contract() {
    let rate = BorrowRate::PerSecond(n(3_170_979_198));
    let market = busy_market().accrue(rate, THEN_S + MONTH_S).unwrap();
    let expected = Market {
        total_supply_assets: 1_007_427_743_259,
        total_supply_shares: 990_730_463_456_237_641,
        total_borrow_assets: 907_427_743_259,
        last_update: u128::from(THEN_S + MONTH_S),
        ..busy_market()
    };
    assert_eq!(*market.totals(), expected);
    assert_eq!(market.liquidity(), n(100_000_000_000));

    let shares = n(100_000_000_000_000);
    assert_eq!(market.assets_floor(shares), Some(n(101_685_350)));
    assert_eq!(market.assets_ceil(shares), Some(n(101_685_351)));
    assert_eq!(market.shares_floor(n(100_000_000)), Some(n(98_342_582_888_502)));
    assert_eq!(market.shares_ceil(n(100_000_000)), Some(n(98_342_582_888_503)));
}

#[test]
fn a_year_of_interest_of_a_token_with_18_decimals_is_that_of_the_contract() {
    let thousand = 1_000_000_000_000_000_000_000;
    let read = Market {
        total_supply_assets: thousand,
        total_supply_shares: thousand * 1_000_000,
        total_borrow_assets: thousand / 2,
        total_borrow_shares: thousand / 2 * 1_000_000,
        last_update: u128::from(THEN_S),
        fee_e18: 0,
    };
    let rate = BorrowRate::PerSecond(n(10_000_000_000));
    let market = read.accrue(rate, THEN_S + 365 * 86_400).unwrap();
    assert_eq!(market.totals().total_supply_assets, 1_185_156_579_109_888_000_000);
    assert_eq!(market.totals().total_borrow_assets, 685_156_579_109_888_000_000);
    let thousandth = n(thousand * 1_000);
    assert_eq!(market.assets_floor(thousandth), Some(n(1_185_156_579_109_887_999)));
}

#[test]
fn nothing_accrues_without_time_debt_or_a_model() {
    let rate = BorrowRate::PerSecond(n(3_170_979_198));
    let later_s = THEN_S + MONTH_S;
    let unborrowed = Market { total_borrow_assets: 0, ..busy_market() };
    let rows = [
        (busy_market(), rate, THEN_S),
        (busy_market(), BorrowRate::NoModel, later_s),
        (unborrowed, rate, later_s),
    ];
    for (read, rate, now_s) in rows {
        let accrued = read.accrue(rate, now_s).unwrap();
        assert_eq!(*accrued.totals(), Market { last_update: u128::from(now_s), ..read });
    }
}

#[test]
fn a_market_that_the_contract_cannot_accrue_is_a_fault() {
    let rate = |value| BorrowRate::PerSecond(value);
    let slow = rate(n(1));
    let missing = Market { last_update: 0, ..busy_market() };
    let greedy = Market { fee_e18: 250_000_000_000_000_001, ..busy_market() };
    let full = Market { total_supply_assets: u128::MAX, ..busy_market() };
    let full_of_shares = Market { total_supply_shares: u128::MAX, ..busy_market() };
    let fast = rate(n(3_170_979_198));
    let rows = [
        (missing, slow, THEN_S + 1, AccrualFault::NoMarket),
        (busy_market(), slow, THEN_S - 1, AccrualFault::TimeBackwards),
        (greedy, slow, THEN_S + 1, AccrualFault::Fee),
        (busy_market(), rate(U256::MAX), THEN_S + 2, AccrualFault::Overflow),
        (busy_market(), rate(U256::MAX >> 64), THEN_S + 1, AccrualFault::Overflow),
        (full, fast, THEN_S + MONTH_S, AccrualFault::Overflow),
        (full_of_shares, fast, THEN_S + MONTH_S, AccrualFault::Overflow),
    ];
    for (read, rate, now_s, fault) in rows {
        assert_eq!(read.accrue(rate, now_s), Err(fault));
    }
}

#[test]
fn the_virtual_amounts_set_the_price_of_an_empty_and_of_a_tiny_market() {
    let empty = Market {
        total_supply_assets: 0,
        total_supply_shares: 0,
        total_borrow_assets: 0,
        total_borrow_shares: 0,
        ..busy_market()
    };
    let market = without_accrual(empty);
    assert_eq!(market.shares_floor(n(7)), Some(n(7_000_000)));
    assert_eq!(market.assets_ceil(n(1)), Some(n(1)));
    assert_eq!(market.assets_floor(n(999_999)), Some(n(0)));

    // A market with three units of assets and no shares: one further unit buys a quarter of the virtual shares.
    let donated = without_accrual(Market { total_supply_assets: 3, ..empty });
    assert_eq!(donated.shares_floor(n(1)), Some(n(250_000)));
    assert_eq!(donated.assets_floor(n(250_000)), Some(n(1)));
}

#[test]
fn a_lender_can_withdraw_the_least_of_its_assets_and_the_liquidity() {
    let market = without_accrual(busy_market());
    let (small, all) = (n(99_000_000_000_000), n(990_000_000_000_000_000));
    assert_eq!(market.withdrawable(small), market.assets_floor(small));
    assert_eq!(market.withdrawable(all), Some(n(100_000_000_000)));
    assert_eq!(market.withdrawable(U256::MAX), None);

    let impossible = Market { total_borrow_assets: u128::MAX, ..busy_market() };
    assert_eq!(without_accrual(impossible).liquidity(), U256::ZERO);
}
