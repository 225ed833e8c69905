use super::*;
use alloy_primitives::{U256, address, b256};
use bursar_core::networks::{Exchange, by_id_name_or_title};

fn robinhood() -> &'static Exchange {
    by_id_name_or_title("robinhood").unwrap().exchange.unwrap()
}

fn dollars() -> Currency {
    Currency::Token(by_id_name_or_title("robinhood").unwrap().stablecoin.address)
}

fn state(lp_fee: u32, protocol_fee: u32) -> PoolState {
    PoolState {
        sqrt_price_x96: U256::from(1_u8) << 96,
        lp_fee: Some(lp_fee),
        protocol_fee: Some(protocol_fee),
        liquidity: 1,
    }
}

#[test]
fn v3_pools_have_the_addresses_that_their_factory_gave_them() {
    let wrapped = robinhood().wrapped_native;
    let rows = [
        (
            "NVDA",
            address!("0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEC"),
            500,
            address!("0x62AB521f71431f78ac374CdbadC6cda3c8916b6C"),
        ),
        (
            "TSLA",
            address!("0x322F0929c4625eD5bAd873c95208D54E1c003b2d"),
            3_000,
            address!("0xA953CA88ff430e9487c60cA34d757414f4efdA07"),
        ),
        (
            "META",
            address!("0xc0D6457C16Cc70d6790Dd43521C899C87ce02f35"),
            3_000,
            address!("0xa4BdB396a69617eb7F70E2cc1EF526f7340b1B0d"),
        ),
        (
            "GOOGL",
            address!("0x2e0847E8910a9732eB3fb1bb4b70a580ADAD4FE3"),
            10_000,
            address!("0x8c2B4303fA0B99d07A5D3E9411497A277e65b673"),
        ),
    ];
    for (name, token, fee, expected) in rows {
        let pool = V3Pool::new(token, wrapped, fee).unwrap();
        assert_eq!(pool.address(&robinhood().v3), expected, "{name}");
        assert_eq!(V3Pool::new(wrapped, token, fee), Ok(pool), "{name}");
    }
}

#[test]
fn a_v3_pool_knows_its_tokens_and_directions() {
    let (low, high) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let pool = V3Pool::new(high, low, 500).unwrap();
    assert_eq!((pool.token0(), pool.token1(), pool.fee()), (low, high, 500));
    assert_eq!(pool.zero_for_one(low), Some(true));
    assert_eq!(pool.zero_for_one(high), Some(false));
    assert_eq!(pool.zero_for_one(Address::ZERO), None);
    assert_eq!(V3Pool::new(low, low, 500), Err(PoolFault::SameCurrency));
    assert_eq!(V3Pool::new(low, Address::ZERO, 500), Err(PoolFault::NativeInV3));
    assert_eq!(V3Pool::new(low, high, 1_000_000), Err(PoolFault::Fee(1_000_000)));
    assert!(V3Pool::new(low, high, 999_999).is_ok());
}

#[test]
fn the_id_of_a_v4_pool_is_the_hash_of_its_key() {
    let id = b256!("0x387bf619da4d3fb62bb276482693dba1b9b3520f573cabdfe033384a24125982");
    for (a, b) in [(dollars(), Currency::Native), (Currency::Native, dollars())] {
        let key = PoolKey::new(a, b, 500, 10, Address::ZERO).unwrap();
        assert_eq!(key.id(), id);
        assert_eq!((key.currency0(), key.currency1()), (Currency::Native, dollars()));
        assert_eq!((key.fee(), key.tick_spacing(), key.hooks()), (500, 10, Address::ZERO));
        assert_eq!(key.zero_for_one(Currency::Native), Some(true));
        assert_eq!(key.zero_for_one(dollars()), Some(false));
        assert_eq!(key.zero_for_one(Currency::Token(Address::repeat_byte(9))), None);
    }
}

#[test]
fn each_part_of_a_key_changes_its_id() {
    let other = Currency::Token(Address::repeat_byte(9));
    let keys = [
        (Currency::Native, 500, 10, Address::ZERO),
        (other, 500, 10, Address::ZERO),
        (Currency::Native, 501, 10, Address::ZERO),
        (Currency::Native, DYNAMIC_FEE, 10, Address::ZERO),
        (Currency::Native, 500, 11, Address::ZERO),
        (Currency::Native, 500, 32_767, Address::ZERO),
        (Currency::Native, 500, 10, Address::repeat_byte(1)),
    ];
    let ids: std::collections::BTreeSet<B256> = keys
        .iter()
        .map(|(a, fee, spacing, hooks)| {
            PoolKey::new(*a, dollars(), *fee, *spacing, *hooks).unwrap().id()
        })
        .collect();
    assert_eq!(ids.len(), keys.len());
}

#[test]
fn keys_that_no_pool_has_are_refused() {
    let new = |fee, spacing| {
        PoolKey::new(Currency::Native, dollars(), fee, spacing, Address::ZERO).map(|_key| ())
    };
    assert_eq!(new(0, 1), Ok(()));
    assert_eq!(new(1_000_000, 32_767), Ok(()));
    assert_eq!(new(DYNAMIC_FEE, 60), Ok(()));
    assert_eq!(new(1_000_001, 60), Err(PoolFault::Fee(1_000_001)));
    assert_eq!(new(DYNAMIC_FEE + 1, 60), Err(PoolFault::Fee(DYNAMIC_FEE + 1)));
    for spacing in [0, -1, 32_768, i32::MIN] {
        assert_eq!(new(500, spacing), Err(PoolFault::TickSpacing(spacing)));
    }
    let same = PoolKey::new(dollars(), dollars(), 500, 10, Address::ZERO);
    assert_eq!(same, Err(PoolFault::SameCurrency));
}

#[test]
fn the_fee_of_a_swap_includes_the_protocol_and_is_unknown_where_a_hook_decides() {
    let hook = Address::with_last_byte;
    // Columns: fee of the key, hooks, fee in force, protocol fee (one for zero << 12 | zero for one), expected fee of
    // zero for one, expected fee of one for zero.
    let rows = [
        (500, hook(0), 500, 0, Some(500), Some(500)),
        // The protocol takes 0.1 % before the pool takes 0.3 %: 1000 + 3000 - 3.
        (3_000, hook(0), 3_000, 1_000, Some(3_997), Some(3_000)),
        (3_000, hook(0), 3_000, 1_000 << 12, Some(3_000), Some(3_997)),
        // 1 + 500 - 0: the product of both fees is less than one unit and is rounded down, so the total is rounded
        // up.
        (500, hook(0), 500, 1, Some(501), Some(500)),
        // The key's static fee counts, not the fee in the state.
        (500, hook(0), 7, 0, Some(500), Some(500)),
        (DYNAMIC_FEE, hook(0x40), 1_234, 0, Some(1_234), Some(1_234)),
        (DYNAMIC_FEE, hook(0x80), 1_234, 0, None, None),
        (500, hook(0x80), 500, 0, Some(500), Some(500)),
        (500, hook(0x88), 500, 0, None, None),
        (500, hook(0x44), 500, 0, None, None),
    ];
    for (fee, hooks, lp_fee, protocol_fee, down, up) in rows {
        let key = PoolKey::new(Currency::Native, dollars(), fee, 10, hooks).unwrap();
        let state = state(lp_fee, protocol_fee);
        assert_eq!(key.swap_fee(&state, true), down, "{key:?}");
        assert_eq!(key.swap_fee(&state, false), up, "{key:?}");
    }
}

#[test]
fn the_usual_tiers_are_those_of_uniswap() {
    let pairs = FEE_TIERS.map(|tier| (tier.fee, tier.tick_spacing));
    assert_eq!(pairs, [(100, 1), (500, 10), (3_000, 60), (10_000, 200)]);
    let dynamic = PoolKey::new(Currency::Native, dollars(), DYNAMIC_FEE, 60, Address::ZERO);
    assert!(dynamic.unwrap().is_dynamic_fee());
    assert_eq!(DYNAMIC_FEE, 8_388_608);
}
