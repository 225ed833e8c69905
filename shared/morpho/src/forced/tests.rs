use super::*;
use alloy_primitives::B256;

const HALF_PERCENT: u64 = 5_000_000_000_000_000;
const PERCENT: u64 = 10_000_000_000_000_000;
const TWO_PERCENT: u64 = 20_000_000_000_000_000;

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn payer(number: u8) -> VenueId {
    VenueId::Market(B256::repeat_byte(number))
}

fn source(adapter: u8, from: u8, supplied: u64, penalty: u64) -> ForcedSource {
    ForcedSource {
        adapter: Address::repeat_byte(adapter),
        market: None,
        payer: payer(from),
        supplied: n(supplied),
        penalty_e18: n(penalty),
    }
}

fn vault_funds(plain: u64, sources: &[ForcedSource], free: &[(u8, u64)]) -> VaultFunds {
    let free = free.iter().map(|(number, free)| (payer(*number), n(*free)));
    VaultFunds {
        plain_withdrawal_max: n(plain),
        sources: sources.to_vec(),
        free_by_payer: free.collect(),
    }
}

/// Returns adapter, assets and penalty of each part.
fn rows(plan: &ForcedPlan) -> Vec<(u8, U256, U256)> {
    plan.deallocations.iter().map(|one| (one.source.adapter[0], one.assets, one.penalty)).collect()
}

#[test]
fn only_what_is_missing_is_taken_and_from_the_cheapest_adapter_first() {
    let sources = [
        source(1, 1, 50_000_000, TWO_PERCENT),
        source(2, 2, 30_000_000, PERCENT),
        source(3, 3, 90_000_000, PERCENT),
    ];
    let free = [(1, 50_000_000), (2, 30_000_000), (3, 25_000_000)];
    let vault = vault_funds(10_000_000, &sources, &free);
    let plan = vault.plan_assets(n(75_000_000), n(500_000_000)).unwrap();
    // The third source has more assets than the second, but its market can pay less.
    let expected = [
        (2, n(30_000_000), n(300_000)),
        (3, n(25_000_000), n(250_000)),
        (1, n(10_000_000), n(200_000)),
    ];
    assert_eq!(rows(&plan), expected);
    assert_eq!((plan.assets, plan.penalty), (n(65_000_000), n(750_000)));
    assert_eq!(plan.parts()[0].assets, n(30_000_000));
}

#[test]
fn a_market_that_two_adapters_share_pays_once() {
    let sources = [source(1, 7, 80, PERCENT), source(2, 7, 80, TWO_PERCENT)];
    let vault = vault_funds(0, &sources, &[(7, 100)]);
    let plan = vault.plan_assets(n(100), n(1_000)).unwrap();
    assert_eq!(rows(&plan), [(1, n(80), n(1)), (2, n(20), n(1))]);
    let refused = vault.plan_assets(n(101), n(1_000));
    assert_eq!(refused, Err(NoForcedPlan::TooLittle { most: n(100) }));
    // A market without a known free amount pays nothing.
    let vault = vault_funds(5, &sources, &[]);
    assert_eq!(vault.plan_all(n(50)), Err(NoForcedPlan::TooLittle { most: n(5) }));
}

#[test]
fn nothing_is_forced_that_a_withdrawal_alone_can_pay() {
    let vault = vault_funds(100, &[source(1, 1, 900, 0)], &[(1, 900)]);
    assert_eq!(vault.plan_assets(n(100), n(500)), Err(NoForcedPlan::NothingMissing));
    assert_eq!(vault.plan_all(n(100)), Err(NoForcedPlan::NothingMissing));
    assert_eq!(vault.plan_assets(n(101), n(500)).unwrap().assets, n(1));
}

#[test]
fn a_whole_position_pays_its_penalty_out_of_itself() {
    let vault = vault_funds(0, &[source(1, 1, 900_000_000, TWO_PERCENT)], &[(1, 900_000_000)]);
    let plan = vault.plan_all(n(102_000_000)).unwrap();
    // The moved assets are 102,000,000 / 1.02 for the worth, and 1,022 / 1.02 for the reserves of interest and
    // rounding.
    assert_eq!(rows(&plan), [(1, n(100_000_000 + 1_002), n(2_000_000 + 21))]);
}

/// The reserve for interest is optional: an exit is possible even if adapters cannot give it.
#[test]
fn a_whole_position_may_need_all_that_adapters_have() {
    let vault = vault_funds(2_000_000, &[source(1, 1, 100_000_000, TWO_PERCENT)], &[(1, u64::MAX)]);
    let plan = vault.plan_all(n(104_000_000)).unwrap();
    assert_eq!(rows(&plan), [(1, n(100_000_000), n(2_000_000))]);
    let refused = vault.plan_all(n(104_000_001));
    assert_eq!(refused, Err(NoForcedPlan::TooLittle { most: n(102_000_000) }));
}

#[test]
fn a_position_that_cannot_pay_the_penalty_receives_the_largest_possible_amount() {
    let vault = vault_funds(0, &[source(1, 1, 900_000_000, TWO_PERCENT)], &[(1, 900_000_000)]);
    let worth = n(102_000_000);
    assert!(vault.plan_assets(n(99_999_999), worth).is_ok());
    for wanted in [100_000_000, 101_000_000, 102_000_000] {
        let Err(NoForcedPlan::PenaltyUnpaid { penalty, most }) =
            vault.plan_assets(n(wanted), worth)
        else {
            panic!("{wanted}");
        };
        assert_eq!((penalty, most), (n(wanted / 50), n(100_000_000)));
    }
    // Without a penalty the whole worth can be paid out.
    let vault = vault_funds(0, &[source(1, 1, 900_000_000, 0)], &[(1, 900_000_000)]);
    assert!(vault.plan_assets(worth, worth).is_ok());
}

#[test]
fn a_penalty_above_two_percent_is_never_paid() {
    let dear = source(1, 1, 900, TWO_PERCENT + 1);
    let vault = vault_funds(10, &[dear], &[(1, 900)]);
    assert_eq!(vault.plan_assets(n(100), n(500)), Err(NoForcedPlan::PenaltyTooHigh));
    assert_eq!(vault.plan_all(n(500)), Err(NoForcedPlan::PenaltyTooHigh));
    // Even with the high-penalty adapter, the adapters could not give enough.
    let refused = vault.plan_assets(n(911), n(5_000));
    assert_eq!(refused, Err(NoForcedPlan::TooLittle { most: n(10) }));
    let cheap = source(2, 2, 900, HALF_PERCENT);
    let vault = vault_funds(10, &[dear, cheap], &[(1, 900), (2, 900)]);
    assert_eq!(rows(&vault.plan_assets(n(110), n(500)).unwrap()), [(2, n(100), n(1))]);
}

#[test]
fn one_transaction_has_a_bounded_number_of_parts() {
    let sources: Vec<ForcedSource> = (0..40).map(|one| source(one, one, 10, 0)).collect();
    let free: Vec<(u8, u64)> = (0..40).map(|one| (one, 10)).collect();
    let vault = vault_funds(0, &sources, &free);
    assert_eq!(vault.plan_assets(n(160), n(900)).unwrap().deallocations.len(), DEALLOCATIONS_MAX);
    let refused = vault.plan_assets(n(161), n(900));
    assert_eq!(refused, Err(NoForcedPlan::TooLittle { most: n(160) }));
}

/// The redeemed shares and the penalty's shares together never exceed the shares of the position.
#[test]
fn the_penalty_is_left_of_the_shares_of_a_whole_position() {
    let shares = n(102_000_000) * n(1_000_000_000_000);
    let plan = |penalty| ForcedPlan { penalty: n(penalty), ..ForcedPlan::default() };
    assert_eq!(plan(0).shares_left(shares, n(102_000_000)), Some(shares));
    let left = plan(2_000_000).shares_left(shares, n(102_000_000)).unwrap();
    // The reserves for the price fall (2 units' worth of shares) and for rounding (1 unit) are deducted.
    assert_eq!(left, n(100_000_000 - 2 - 1) * n(1_000_000_000_000));
    assert_eq!(plan(103).shares_left(n(100), n(100)), None);
}
