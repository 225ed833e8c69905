use super::*;

fn n(value: u128) -> U256 {
    U256::from(value)
}

const MILLION: u128 = 1_000_000;
const E18: u128 = 1_000_000_000_000_000_000;

/// Returns 2^96 × `numerator / denominator`.
fn sqrt(numerator: u128, denominator: u128) -> U256 {
    (n(numerator) << 96) / n(denominator)
}

/// A constant-product pool with a fee of 0.3 %. Like Uniswap, it rounds down the input after the fee and the output.
struct ConstantProductPool {
    reserve_in: u128,
    reserve_out: u128,
}

impl ConstantProductPool {
    fn quote(&self, amount_in: U256) -> U256 {
        let after_fee = amount_in * n(997) / n(1_000);
        n(self.reserve_out) * after_fee / (n(self.reserve_in) + after_fee)
    }

    fn measure(&self, amount_in: u128, sqrt_price: Option<U256>) -> TradeMeasurement {
        let amount_in = n(amount_in);
        let amount_out = self.quote(amount_in);
        let dust = probe_amount(amount_in, amount_out)
            .map(|dust| PriceProbe { amount_in: dust, amount_out: self.quote(dust) });
        let ideal = sqrt_price.and_then(|price| ideal_out(price, true, amount_in));
        TradeMeasurement { amount_in, amount_out, ideal, probe: dust, fee: Some(3_000) }
    }
}

fn known(cost: u16, fee: u16) -> Impact {
    Impact::Known { cost: Bps(cost), fee: Some(Bps(fee)) }
}

/// The columns of a row: name, input, the pool's output for a hundred times the input, square root of the price,
/// usable dust, cost by price and cost by dust.
type ImpactCase = (&'static str, u128, u128, U256, Option<u128>, u16, Option<u16>);

/// Each pool holds a hundred times the trade. So the impact is 0.997 / 100.997 = 0.987 %, and the cost is
/// 1 - 0.997 × 100 / 100.997 = 1.284 %.
#[test]
fn the_cost_is_right_for_each_size_and_scale() {
    let rows: [ImpactCase; 8] = [
        (
            "20 dollars, 6 to 18",
            20 * MILLION,
            2_000 * E18,
            sqrt(MILLION, 1),
            Some(10_000),
            129,
            Some(129),
        ),
        ("1 dollar, 6 to 18", MILLION, 100 * E18, sqrt(MILLION, 1), Some(10_000), 129, Some(128)),
        // The dust would be more than a hundredth of the trade.
        ("0.99 dollars, 6 to 18", 990_000, 99 * E18, sqrt(MILLION, 1), None, 129, None),
        ("0.50 dollars, 6 to 18", 500_000, 50 * E18, sqrt(MILLION, 1), None, 129, None),
        ("0.05 dollars, 6 to 18", 50_000, 5 * E18, sqrt(MILLION, 1), None, 129, None),
        // The dust is ceil(10,000 × 20e18 / F), where F = 19,743,160 is the quote.
        (
            "20 dollars, 18 to 6",
            20 * E18,
            2_000 * MILLION,
            sqrt(1, MILLION),
            Some(10_130_090_623_790_721),
            129,
            Some(129),
        ),
        // The pool pays 1,974 of 2,000 units: 1.3 %.
        ("20 dollars, 6 to 2", 20 * MILLION, 200_000, sqrt(1, 100), None, 130, None),
        // Both outputs are rounded down: the dust of 10,131 pays 10,099, so the cost is 1 - 19,743,160 × 10,131 /
        // (20e6 × 10,099) = 0.971 %.
        (
            "20 dollars, 6 to 6",
            20 * MILLION,
            2_000 * MILLION,
            sqrt(1, 1),
            Some(10_131),
            129,
            Some(128),
        ),
    ];
    for (name, amount_in, reserve_out, price, dust, by_price, by_dust) in rows {
        let pool = ConstantProductPool { reserve_in: 100 * amount_in, reserve_out };
        let both = pool.measure(amount_in, Some(price));
        assert_eq!(both.probe.map(|dust| dust.amount_in), dust.map(n), "{name}");
        assert_eq!(
            impact(&TradeMeasurement { probe: None, ..both }),
            known(by_price, 30),
            "{name}"
        );
        let only_dust = impact(&TradeMeasurement { ideal: None, ..both });
        assert_eq!(only_dust, by_dust.map_or(Impact::Unknown, |cost| known(cost, 30)), "{name}");
        assert_eq!(impact(&both), known(by_price.max(by_dust.unwrap_or(0)), 30), "{name}");
    }
}

#[test]
fn a_quote_above_the_pools_price_is_unknown_never_good() {
    let trade = ConstantProductPool { reserve_in: 2_000 * MILLION, reserve_out: 2_000 * E18 }
        .measure(20 * MILLION, None);
    let at = |ideal: U256| impact(&TradeMeasurement { ideal: Some(ideal), ..trade });
    assert_eq!(at(trade.amount_out - n(1)), Impact::Unknown);
    assert_eq!(at(trade.amount_out), known(129, 30));
    assert_eq!(at(U256::ZERO), Impact::Unknown);
    let wrapped = TradeMeasurement { amount_out: n(u128::MAX), ideal: Some(n(20 * E18)), ..trade };
    assert_eq!(impact(&wrapped), Impact::Unknown);
}

#[test]
fn the_worse_of_two_measures_counts() {
    let trade = ConstantProductPool { reserve_in: 2_000 * MILLION, reserve_out: 2_000 * E18 }
        .measure(20 * MILLION, None);
    // The cost by price is 50 %.
    let halved = TradeMeasurement { ideal: Some(trade.amount_out * n(2)), ..trade };
    assert_eq!(impact(&halved), known(5_000, 30));
    // The cost by price is zero; the small quote shows an impact of 0.99 %, and the fee is 0.30 %.
    let flat = TradeMeasurement { ideal: Some(trade.amount_out), ..trade };
    assert_eq!(impact(&flat), known(129, 30));
    // If a hook may set the fee, the small quote gives only a lower bound of the cost. Without a price, it proves
    // nothing.
    let unknown_fee = Impact::Known { cost: Bps(99), fee: None };
    assert_eq!(impact(&TradeMeasurement { fee: None, ..flat }), unknown_fee);
    assert_eq!(impact(&TradeMeasurement { fee: None, ideal: None, ..trade }), Impact::Unknown);
    assert_eq!(unknown_fee.without_fee(), Some(Bps(99)));
    assert_eq!(known(129, 30).without_fee(), Some(Bps(99)));
    assert_eq!(known(20, 30).without_fee(), Some(Bps(0)));
    assert_eq!(Impact::Unknown.without_fee(), None);
}

#[test]
fn a_small_quote_that_proves_nothing_is_left_out() {
    let trade = ConstantProductPool { reserve_in: 2_000 * MILLION, reserve_out: 2_000 * MILLION }
        .measure(20 * MILLION, None);
    let due = |dust: U256| trade.amount_out * dust / trade.amount_in;
    let with = |amount_in: u128, amount_out: U256| {
        let dust = PriceProbe { amount_in: n(amount_in), amount_out };
        impact(&TradeMeasurement { probe: Some(dust), ..trade })
    };
    // These small quotes are unusable: too small, too large, and without an output.
    assert_eq!(with(10_130, due(n(10_130))), Impact::Unknown);
    assert_eq!(with(200_001, due(n(200_001))), Impact::Unknown);
    assert_eq!(with(10_131, U256::ZERO), Impact::Unknown);
    // At the rate of the trade itself, the cost is only the fee. An output that is two units lower is explained by
    // rounding, but not one that is four units lower.
    assert_eq!(with(10_131, n(10_000)), known(30, 30));
    assert_eq!(with(10_131, n(9_998)), known(30, 30));
    assert_eq!(with(10_131, n(9_996)), Impact::Unknown);
}

#[test]
fn the_share_lost_is_rounded_up() {
    let rows = [
        (1_000_000, 1_000_000, Some(0)),
        (1_000_000, 999_999, Some(1)),
        (1_000_000, 999_900, Some(1)),
        (1_000_000, 999_899, Some(2)),
        (1_000_000, 0, Some(10_000)),
        (1, 0, Some(10_000)),
        (0, 0, None),
        (9, 10, None),
    ];
    for (ideal, out, bps) in rows {
        assert_eq!(cost_bps(n(ideal), n(out)), bps.map(Bps), "{ideal} {out}");
    }
    assert_eq!(cost_bps(U256::MAX, U256::ZERO), Some(Bps(10_000)));
    assert_eq!(cost_bps(U256::MAX, U256::MAX - n(1)), Some(Bps(1)));
}

#[test]
fn the_ideal_output_follows_the_price_in_both_directions() {
    // At the price 4, one unit of currency 0 buys four units of currency 1.
    let four = sqrt(2, 1);
    assert_eq!(ideal_out(four, true, n(10)), Some(n(40)));
    assert_eq!(ideal_out(four, false, n(40)), Some(n(10)));
    assert_eq!(ideal_out(four, false, n(41)), Some(n(11)));
    assert_eq!(ideal_out(four, true, U256::ZERO), Some(U256::ZERO));
    assert_eq!(ideal_out(U256::ZERO, true, n(1)), None);
    assert_eq!(ideal_out(four, true, U256::MAX), None);
    assert_eq!(ideal_out(U256::MAX, true, n(1)), None);
    assert_eq!(ideal_out(U256::MAX, false, U256::MAX), Some(n(1)));
    // A stock token with 18 decimals costs 180 dollars with 6 decimals: the price is 180e-12.
    let stock = sqrt(13_416_407_864, 1_000_000_000_000_000);
    assert_eq!(ideal_out(stock, true, n(E18)), Some(n(180_000_000)));

    let hop = |sqrt_price_x96, zero_for_one| HopPrice { sqrt_price_x96, zero_for_one };
    let path = [hop(four, true), hop(sqrt(3, 1), false)];
    assert_eq!(ideal_out_of_path(&path, n(90)), Some(n(40)));
    assert_eq!(ideal_out_of_path(&path[..1], n(90)), Some(n(360)));
    assert_eq!(ideal_out_of_path(&[], n(90)), None);
}

#[test]
fn the_smallest_usable_dust_is_chosen() {
    let rows = [
        // Input and output both have enough units.
        (MILLION, MILLION, Some(10_000)),
        (MILLION, 10 * MILLION, Some(10_000)),
        // 10,000 units of the output cost 20,000 units of the input.
        (2 * MILLION, MILLION, Some(20_000)),
        (2 * MILLION, MILLION - 1, None),
        (2 * MILLION + 100, MILLION, Some(20_001)),
        (999_999, MILLION, None),
        (MILLION, 0, None),
        (0, MILLION, None),
    ];
    for (amount_in, out, dust) in rows {
        assert_eq!(probe_amount(n(amount_in), n(out)), dust.map(n), "{amount_in} {out}");
    }
    assert_eq!(probe_amount(U256::MAX, n(1)), None);
}

#[test]
fn slippage_is_taken_off_once_and_rounded_down() {
    let rows = [
        (3_000_000_000, 50, Some(2_985_000_000)),
        (100, 0, Some(100)),
        (100, 10_000, Some(0)),
        (100, 10_001, None),
        (1, 1, Some(0)),
        (10_001, 1, Some(9_999)),
    ];
    for (expected, slippage, floor) in rows {
        assert_eq!(floor_out(n(expected), Bps(slippage)), floor.map(n), "{expected} {slippage}");
    }
    assert_eq!(floor_out(U256::MAX, Bps(0)), Some(U256::MAX));
}

#[test]
fn the_least_hop_price_is_output_over_input_times_10_to_the_36() {
    let e36 = n(10).pow(n(36));
    assert_eq!(min_hop_price_x36(n(1), n(1)), Some(e36));
    assert_eq!(min_hop_price_x36(n(3), n(1)), Some(e36 / n(3)));
    assert_eq!(min_hop_price_x36(n(E18), n(2_985_000_000)), Some(n(2_985) * n(10).pow(n(24))));
    assert_eq!(min_hop_price_x36(n(1), n(u128::MAX)), Some(n(u128::MAX) * e36));
    assert_eq!(min_hop_price_x36(U256::ZERO, n(1)), None);
    assert_eq!(min_hop_price_x36(n(1), U256::MAX), None);
}
