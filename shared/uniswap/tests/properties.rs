//! Guarantees that hold for every amount and for arbitrary bytes.
#![cfg(test)]

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::money::Bps;
use bursar_core::networks::{ChainId, Exchange, RouterCalldata, by_id_name_or_title};
use bursar_uniswap::abi::router::{IUniversalRouter, v2_0, v2_1_1};
use bursar_uniswap::abi::v3::ISwapRouter02;
use bursar_uniswap::price::{
    cost_bps, floor_out, ideal_out, impact, min_hop_price_x36, probe_amount,
};
use bursar_uniswap::{
    Currency, Flow, HookPermissions, Impact, Log, NativeSide, Permit, PoolKey, Terms,
    TradeMeasurement, V3Path, V3Pool, V3Swap, V4Path, V4Swap, errors, fill, price, quote, read,
    swap,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn any_u256() -> impl Strategy<Value = U256> {
    // The shift makes small numbers as likely as large ones.
    (any::<[u64; 4]>(), 0_usize..256).prop_map(|(limbs, shift)| U256::from_limbs(limbs) >> shift)
}

fn sqrt_price() -> impl Strategy<Value = U256> {
    let range = read::SQRT_PRICE_MAX - read::SQRT_PRICE_MIN;
    any_u256().prop_map(move |number| read::SQRT_PRICE_MIN + number % range)
}

fn amount() -> impl Strategy<Value = U256> {
    (1_u128..=i128::MAX.unsigned_abs(), 0_u32..127)
        .prop_map(|(number, shift)| U256::from((number >> shift).max(1)))
}

fn any_address() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::from)
}

fn robinhood(calldata: RouterCalldata) -> Exchange {
    let mut exchange = *by_id_name_or_title("robinhood").unwrap().exchange.unwrap();
    exchange.v4.calldata = calldata;
    exchange
}

proptest! {
    #[test]
    fn the_floor_is_never_above_the_quote_nor_below_the_rule(
        expected in any_u256(),
        bps in 0_u16..=10_000,
    ) {
        let floor = floor_out(expected, Bps(bps)).unwrap();
        prop_assert!(floor <= expected);
        // Checks floor × 10,000 > expected × kept − 10,000 by quotients and remainders, which cannot overflow.
        let kept = U256::from(10_000 - bps);
        let whole = U256::from(10_000);
        let (quotient, rest) = (expected / whole, expected % whole);
        prop_assert_eq!(floor, quotient * kept + rest * kept / whole);
    }

    #[test]
    fn more_slippage_never_raises_the_floor(expected in any_u256(), a in 0_u16..=10_000, b in 0_u16..=10_000) {
        let (less, more) = (a.min(b), a.max(b));
        prop_assert!(floor_out(expected, Bps(more)) <= floor_out(expected, Bps(less)));
    }

    #[test]
    fn the_least_hop_price_accepts_each_fill_at_the_floor_and_refuses_one_unit_less(
        amount_in in amount(),
        min_out in amount(),
        more in amount(),
    ) {
        let least = min_hop_price_x36(amount_in, min_out).unwrap();
        // The router computes the realised price by the same division.
        let realised = |out: U256| min_hop_price_x36(amount_in, out).unwrap();
        prop_assert!(realised(min_out) >= least);
        prop_assert!(realised(min_out + more) >= least);
        if amount_in <= U256::from(10).pow(U256::from(36)) {
            prop_assert!(realised(min_out - U256::from(1)) < least);
        }
    }

    #[test]
    fn the_ideal_output_back_and_forth_is_the_input_within_one_unit_of_output(
        price in sqrt_price(),
        amount_in in amount(),
        zero_for_one in any::<bool>(),
    ) {
        if let Some(out) = ideal_out(price, zero_for_one, amount_in)
            && let Some(back) = ideal_out(price, !zero_for_one, out)
            && let Some(unit) = ideal_out(price, !zero_for_one, U256::from(1))
        {
            prop_assert!(back >= amount_in);
            prop_assert!(back - amount_in <= unit);
        }
    }

    #[test]
    fn the_ideal_output_grows_with_the_input(
        price in sqrt_price(),
        a in amount(),
        b in amount(),
        zero_for_one in any::<bool>(),
    ) {
        let of = |amount| ideal_out(price, zero_for_one, amount);
        if let (Some(less), Some(more)) = (of(a.min(b)), of(a.max(b))) {
            prop_assert!(less <= more);
        }
    }

    #[test]
    fn the_cost_is_at_least_what_is_missing(ideal in amount(), out in amount()) {
        match cost_bps(ideal, out) {
            Some(cost) => {
                prop_assert!(out <= ideal && cost.0 <= 10_000);
                prop_assert!(U256::from(cost.0) * ideal >= (ideal - out) * U256::from(10_000));
            }
            None => prop_assert!(out > ideal),
        }
    }

    #[test]
    fn dust_is_large_enough_to_round_and_small_enough_to_have_no_impact(
        amount_in in amount(),
        out in amount(),
    ) {
        let least = U256::from(10_000);
        let fits = |dust: U256| dust >= least && out * dust / amount_in >= least;
        match probe_amount(amount_in, out) {
            Some(dust) => {
                prop_assert!(fits(dust));
                prop_assert!(dust * U256::from(100) <= amount_in);
                prop_assert!(!fits(dust - U256::from(1)));
            }
            None => prop_assert!(!fits(amount_in / U256::from(100))),
        }
    }

    #[test]
    fn an_impact_never_hides_a_cost_that_the_price_shows(
        amount_in in any_u256(),
        amount_out in any_u256(),
        ideal in any_u256(),
        dust in proptest::option::of((any_u256(), any_u256())),
        fee in proptest::option::of(any::<u32>()),
    ) {
        let dust = dust.map(|(amount_in, amount_out)| price::PriceProbe { amount_in, amount_out });
        let trade = TradeMeasurement { amount_in, amount_out, ideal: Some(ideal), probe: dust, fee };
        match (impact(&trade), cost_bps(ideal, amount_out)) {
            (Impact::Known { cost, .. }, Some(least)) => {
                prop_assert!(cost >= least && cost.0 <= 10_000);
            }
            (Impact::Unknown, None) => {}
            other => prop_assert!(false, "{other:?}"),
        }
        let _no_panic = impact(&TradeMeasurement { ideal: None, ..trade });
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(
        data in vec(any::<u8>(), 0..400),
        words in vec(prop_oneof![Just(0_u8), Just(32), Just(64), Just(1), any::<u8>()], 0..14),
        selector in prop_oneof![
            Just([0x6e_u8, 0, 0, 0]), Just([0x61, 0x90, 0xb2, 0xb0]), Just([0x2c, 0x40, 0x29, 0xe9]),
            Just([0x90, 0xbf, 0xb8, 0x65]), Just([0x08, 0xc3, 0x79, 0xa0]),
        ],
    ) {
        // Words with small numbers can be valid offsets and lengths.
        let structured: Vec<u8> =
            words.iter().flat_map(|word| U256::from(*word).to_be_bytes::<32>()).collect();
        let token = Address::repeat_byte;
        let pool = |a, b| V3Pool::new(token(a), token(b), 500).unwrap();
        let short = V3Path::new(token(1), &[pool(1, 2)]).unwrap();
        let long = V3Path::new(token(1), &[pool(1, 2), pool(2, 3)]).unwrap();
        for bytes in [&data, &structured] {
            let _ = read::decode_pool(bytes);
            let _ = read::decode_v3_state(bytes, bytes);
            let _ = read::decode_v4_state(bytes, bytes);
            let _ = read::decode_mean_tick(bytes, 600);
            let _ = read::decode_address(bytes);
            let _ = read::decode_permit2_allowance(bytes);
            let _ = read::decode_feed(bytes);
            let _ = read::decode_feed_decimals(bytes);
            for path in [&short, &long] {
                let _ = quote::decode_v3_exact_input(path, bytes);
                let _ = quote::decode_v3_exact_output(path, bytes);
            }
            let _ = quote::decode_v4(bytes);
            let error = [&selector[..], bytes].concat();
            for bytes in [bytes, &error] {
                let _ = quote::decode_revert(bytes);
                prop_assert!(errors::reason(bytes).len() < 2_000);
            }
        }
    }

    #[test]
    fn no_event_makes_a_fill_panic(
        kind in 0_usize..5,
        topics in vec(any::<[u8; 32]>(), 0..5),
        data in vec(any::<u8>(), 0..250),
    ) {
        let own = Address::repeat_byte(1);
        let known = [
            "Transfer(address,address,uint256)",
            "Deposit(address,uint256)",
            "Withdrawal(address,uint256)",
            "Swap(bytes32,address,int128,int128,uint160,uint128,int24,uint24)",
        ];
        let first = known.get(kind).map(alloy_primitives::keccak256);
        let topics = first.into_iter().chain(topics.into_iter().map(B256::from)).collect();
        let log = Log { address: own, topics, data: data.into() };
        let pool = PoolKey::new(Currency::Native, Currency::Token(own), 500, 10, Address::ZERO);
        for flow in [
            Flow::Token { token: own, owner: own },
            Flow::Wrapped { wrapped_native: own, holder: own },
            Flow::V4Pool {
                pool_manager: own,
                router: own,
                pool: pool.unwrap(),
                currency: Currency::Native,
            },
        ] {
            let _ = fill::net_received(&flow, std::slice::from_ref(&log));
            let _ = fill::net_spent(&flow, std::slice::from_ref(&log));
        }
    }

    #[test]
    fn a_v4_swap_decodes_to_what_was_encoded(
        tokens in (any_address(), any_address()),
        fee in 0_u32..=1_000_000,
        tick_spacing in 1_i32..=32_767,
        hooks in any_address(),
        amount_in in amount(),
        min_out in amount(),
        deadline in any::<u64>(),
        backwards in any::<bool>(),
    ) {
        prop_assume!(tokens.0 != tokens.1);
        let (a, b) = (Currency::from_address(tokens.0), Currency::from_address(tokens.1));
        let input = if backwards { b } else { a };
        let key = PoolKey::new(a, b, fee, tick_spacing, hooks).unwrap();
        let path = V4Path::new(input, &[key]).unwrap();
        let terms = Terms { amount_in, min_out, deadline };
        let order = V4Swap { path: &path, terms, hop_prices: &[], permit: None };
        for layout in [RouterCalldata::V2_0, RouterCalldata::V2_1_1] {
            let call = swap::v4_exact_input(&robinhood(layout), &order).unwrap();
            let execute = IUniversalRouter::executeCall::abi_decode_validate(&call.data).unwrap();
            prop_assert_eq!(execute.deadline, U256::from(deadline));
            let plan = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(&execute.inputs[0]).unwrap();
            let (key_out, direction, read_in, read_out) = match layout {
                RouterCalldata::V2_0 => {
                    let read = v2_0::ExactInputSingleParams::abi_decode_validate(&plan.1[0]).unwrap();
                    (read.poolKey, read.zeroForOne, read.amountIn, read.amountOutMinimum)
                }
                RouterCalldata::V2_1_1 => {
                    let read = v2_1_1::ExactInputSingleParams::abi_decode_validate(&plan.1[0]).unwrap();
                    let price = min_hop_price_x36(amount_in, min_out);
                    prop_assert_eq!(Some(read.minHopPriceX36), price);
                    (read.poolKey, read.zeroForOne, read.amountIn, read.amountOutMinimum)
                }
            };
            prop_assert_eq!(Some(direction), key.zero_for_one(input));
            prop_assert_eq!((U256::from(read_in), U256::from(read_out)), (amount_in, min_out));
            prop_assert!(key_out.currency0 < key_out.currency1);
            prop_assert_eq!(key_out.fee.to::<u32>(), fee);
            prop_assert_eq!(key_out.tickSpacing.as_i32(), tick_spacing);
            prop_assert_eq!(key_out.hooks, hooks);
            prop_assert_eq!(alloy_primitives::keccak256(key_out.abi_encode()), key.id());
        }
    }

    #[test]
    fn a_v3_swap_decodes_to_what_was_encoded(
        tokens in (any_address(), any_address(), any_address()),
        fee in 0_u32..1_000_000,
        amount_in in any_u256(),
        min_out in any_u256(),
        deadline in any::<u64>(),
        owner in any_address(),
    ) {
        prop_assume!(!amount_in.is_zero() && !min_out.is_zero());
        let (Ok(first), Ok(second)) =
            (V3Pool::new(tokens.0, tokens.1, fee), V3Pool::new(tokens.1, tokens.2, fee))
        else {
            return Ok(());
        };
        let Ok(path) = V3Path::new(tokens.0, &[first, second]) else { return Ok(()) };
        let terms = Terms { amount_in, min_out, deadline };
        let order = V3Swap { path: &path, native: NativeSide::Neither, terms, owner };
        let call = swap::v3_exact_input(&robinhood(RouterCalldata::V2_0), &order).unwrap();
        let outer = ISwapRouter02::multicallCall::abi_decode_validate(&call.data).unwrap();
        prop_assert_eq!(outer.deadline, U256::from(deadline));
        prop_assert_eq!(outer.data.len(), 1);
        let inner = ISwapRouter02::exactInputCall::abi_decode_validate(&outer.data[0]).unwrap();
        prop_assert_eq!(&inner.params.path[..20], tokens.0.as_slice());
        prop_assert_eq!(&inner.params.path[23..43], tokens.1.as_slice());
        prop_assert_eq!(&inner.params.path[46..], tokens.2.as_slice());
        prop_assert_eq!(inner.params.recipient, owner);
        prop_assert_eq!((inner.params.amountIn, inner.params.amountOutMinimum), (amount_in, min_out));
    }

    #[test]
    fn the_digest_of_a_permit_depends_on_its_amount(a in any_u256(), b in any_u256()) {
        let of = |amount| {
            let permit = Permit {
                token: Address::ZERO,
                amount,
                expiration: 0,
                nonce: 0,
                spender: Address::ZERO,
                signature_deadline: 0,
            };
            permit.digest(ChainId(1), Address::ZERO)
        };
        prop_assert_eq!(of(a).is_ok(), a < U256::from(1) << 160);
        prop_assert!(a == b || of(a).is_err() || of(a) != of(b));
    }

    #[test]
    fn a_hooks_names_match_its_bits(hooks in any_address()) {
        let permissions = HookPermissions::of(hooks);
        let bits = u16::from_be_bytes([hooks[18], hooks[19]]) & 0x3fff;
        prop_assert_eq!(permissions.names().len(), usize::try_from(bits.count_ones()).unwrap());
        prop_assert_eq!(permissions.touches_swap(), bits & 0xcc != 0);
    }
}
