use super::*;

fn n(value: u128) -> U256 {
    U256::from(value)
}

const ETHER: u128 = 1_000_000_000_000_000_000;

#[test]
fn a_withdrawal_from_v2_reaches_idle_money_and_the_liquidity_adapter_only() {
    let idle = n(100);
    let rows = [
        (LiquiditySource::Absent, 100),
        (LiquiditySource::Unknown, 100),
        (LiquiditySource::Market { supplied: n(900), liquidity: n(50) }, 150),
        (LiquiditySource::Market { supplied: n(30), liquidity: n(5_000) }, 130),
        (LiquiditySource::MetaMorpho { max_withdraw: n(7) }, 107),
    ];
    for (source, expected) in rows {
        assert_eq!(v2_liquidity(idle, &source), Some(n(expected)));
        assert_eq!(v2_withdrawable(n(10_000), idle, &source), Some(n(expected)));
        assert_eq!(v2_withdrawable(n(20), idle, &source), Some(n(20)));
    }
    let endless = LiquiditySource::MetaMorpho { max_withdraw: U256::MAX };
    assert_eq!(v2_withdrawable(n(1), n(1), &endless), None);
}

#[test]
fn a_metamorpho_vault_answers_for_itself_but_never_beyond_the_position() {
    assert_eq!(metamorpho_withdrawable(n(500), n(20)), n(20));
    assert_eq!(metamorpho_withdrawable(n(500), U256::MAX), n(500));
}

#[test]
fn a_forced_exit_costs_at_most_two_percent_rounded_up() {
    let two_percent = n(ETHER / 50);
    assert_eq!(force_deallocate_cost(n(100_000_000), two_percent), Some(n(2_000_000)));
    assert_eq!(force_deallocate_cost(n(1), two_percent), Some(n(1)));
    assert_eq!(force_deallocate_cost(n(100_000_000), U256::ZERO), Some(n(0)));
    assert_eq!(force_deallocate_cost(n(1), two_percent + n(1)), None);
    assert_eq!(force_deallocate_cost(U256::MAX, two_percent), None);
}
