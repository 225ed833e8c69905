use super::*;
use alloy_primitives::{I256, hex};
use alloy_sol_types::SolValue;

fn words(values: &[U256]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes::<32>()).collect()
}

fn slot0(sqrt_price: U256) -> Vec<u8> {
    words(&[
        sqrt_price,
        U256::from(7),
        U256::ZERO,
        U256::from(1),
        U256::from(1),
        U256::ZERO,
        U256::from(1),
    ])
}

#[test]
fn a_missing_pool_is_no_pool() {
    let pool = V3Pool::new(Address::repeat_byte(2), Address::repeat_byte(1), 500).unwrap();
    let call = pool_call(&pool);
    assert_eq!(call[..4], hex!("1698ee82"));
    assert_eq!(call.len(), 4 + 3 * 32);
    assert_eq!(decode_pool(&words(&[U256::ZERO])), Ok(None));
    let found = Address::repeat_byte(9).into_word();
    assert_eq!(decode_pool(found.as_slice()), Ok(Some(Address::repeat_byte(9))));
    for odd in [vec![], vec![0; 31], words(&[U256::MAX])] {
        assert_eq!(decode_pool(&odd), Err(ReadFault::MalformedAnswer("factory")));
    }
}

#[test]
fn a_v3_state_is_read_and_its_price_is_in_range() {
    let liquidity = words(&[U256::from(5)]);
    let price = U256::from(1) << 96;
    let state = decode_v3_state(&slot0(price), &liquidity).unwrap();
    assert_eq!((state.sqrt_price_x96, state.liquidity), (price, 5));
    assert_eq!((state.lp_fee, state.protocol_fee), (None, None));

    let odd = Err(ReadFault::MalformedAnswer("pool"));
    assert_eq!(decode_v3_state(&slot0(U256::ZERO), &liquidity), Err(ReadFault::NotInitialized));
    assert_eq!(decode_v3_state(&slot0(SQRT_PRICE_MIN - U256::from(1)), &liquidity), odd);
    assert!(decode_v3_state(&slot0(SQRT_PRICE_MIN), &liquidity).is_ok());
    assert_eq!(decode_v3_state(&slot0(SQRT_PRICE_MAX), &liquidity), odd);
    assert_eq!(decode_v3_state(&slot0(U256::from(1) << 160), &liquidity), odd);
    assert_eq!(decode_v3_state(&slot0(price), &words(&[U256::from(1) << 128])), odd);
    assert_eq!(decode_v3_state(&slot0(price)[..192], &liquidity), odd);
}

#[test]
fn a_v4_state_has_its_fees() {
    let liquidity = words(&[U256::from(5)]);
    let price = U256::from(1) << 96;
    // A negative tick is sign-extended: the high bits of its word are ones.
    let answer = words(&[price, U256::MAX, U256::from(0x3e8), U256::from(3_000)]);
    let state = decode_v4_state(&answer, &liquidity).unwrap();
    assert_eq!((state.lp_fee, state.protocol_fee), (Some(3_000), Some(1_000)));
    let missing = words(&[U256::ZERO; 4]);
    assert_eq!(decode_v4_state(&missing, &liquidity), Err(ReadFault::NotInitialized));
    let wide = words(&[price, U256::ZERO, U256::from(1) << 24, U256::ZERO]);
    assert_eq!(decode_v4_state(&wide, &liquidity), Err(ReadFault::MalformedAnswer("StateView")));
}

#[test]
fn the_mean_tick_is_rounded_down() {
    assert_eq!(observe_call(600)[4..], words(&[32, 2, 600, 0].map(U256::from))[..]);
    let answer = |ticks: Vec<i64>| {
        let zeros = vec![U256::ZERO; ticks.len()];
        let ticks: Vec<I256> =
            ticks.into_iter().map(|tick| I256::try_from(tick).unwrap()).collect();
        (ticks, zeros).abi_encode_params()
    };
    for (then, now, mean) in [(0, 6_000, 10), (0, -6_001, -11), (100, 699, 0), (0, -1, -1)] {
        assert_eq!(decode_mean_tick(&answer(vec![then, now]), 600), Ok(mean));
    }
    let odd = Err(ReadFault::MalformedAnswer("pool"));
    assert_eq!(decode_mean_tick(&answer(vec![0, 6_000]), 0), odd);
    assert_eq!(decode_mean_tick(&answer(vec![0]), 600), odd);
    assert_eq!(decode_mean_tick(&answer(vec![0, 1, 2]), 600), odd);
    assert_eq!(decode_mean_tick(&answer(vec![0, 1 << 54]), 1), odd);
    assert_eq!(decode_mean_tick(&[], 600), odd);
}

#[test]
fn a_permit2_allowance_has_its_three_numbers() {
    let call = permit2_allowance_call(
        Address::repeat_byte(1),
        Address::repeat_byte(2),
        Address::repeat_byte(3),
    );
    let expected = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
    assert_eq!(call[4..], expected.abi_encode()[..]);
    let answer = words(&[U256::from(10), U256::from(20), U256::from(30)]);
    let expected = Permit2Allowance { amount: U256::from(10), expiration: 20, nonce: 30 };
    assert_eq!(decode_permit2_allowance(&answer), Ok(expected));
    for wide in [[160, 0, 0], [0, 48, 0], [0, 0, 48]] {
        let answer = words(&wide.map(|bits| U256::from(u8::from(bits > 0)) << bits));
        assert!(decode_permit2_allowance(&answer).is_err());
    }
}

#[test]
fn a_feed_without_a_positive_price_is_refused() {
    let answer = |price: U256, updated: u64| {
        words(&[U256::from(9), price, U256::ZERO, U256::from(updated), U256::from(9)])
    };
    let price = U256::from(345_678_000_000_u64);
    let expected = FeedAnswer { price, updated_at: 1_767_225_600 };
    assert_eq!(decode_feed(&answer(price, 1_767_225_600)), Ok(expected));
    for odd in [
        answer(U256::ZERO, 1_767_225_600),
        answer(U256::MAX, 1_767_225_600),
        answer(price, 0),
        words(&[U256::from(9), price, U256::ZERO, U256::MAX, U256::from(9)]),
        vec![],
    ] {
        assert_eq!(decode_feed(&odd), Err(ReadFault::MalformedAnswer("price feed")));
    }
    assert_eq!(decode_feed_decimals(&words(&[U256::from(8)])), Ok(8));
    assert!(decode_feed_decimals(&words(&[U256::from(256)])).is_err());
}

#[test]
fn an_account_without_code_has_no_address_to_return() {
    assert_eq!(decode_address(&[]), Err(ReadFault::MalformedAnswer("contract")));
    let manager = Address::repeat_byte(4);
    assert_eq!(decode_address(manager.into_word().as_slice()), Ok(manager));
    assert_eq!(pool_manager_call()[..], hex!("dc4c90d3"));
    assert_eq!(router_factory_call()[..], hex!("c45a0155"));
    assert_eq!(router_wrapped_native_call()[..], hex!("4aa4a4fc"));
    assert_eq!(feed_call()[..], hex!("feaf968c"));
    assert_eq!(feed_decimals_call()[..], hex!("313ce567"));
    assert_eq!(v3_slot0_call()[..], hex!("3850c7bd"));
    assert_eq!(v3_liquidity_call()[..], hex!("1a686502"));
    assert_eq!(v4_slot0_call(B256::ZERO)[..4], hex!("c815641c"));
    assert_eq!(v4_liquidity_call(B256::ZERO)[..4], hex!("fa6793d5"));
}
