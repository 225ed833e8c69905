use super::*;
use crate::abi::permit2::IPermit2;
use crate::abi::router::{IUniversalRouter, v2_0, v2_1_1};
use crate::abi::v3::ISwapRouter02;
use crate::currency::Currency;
use crate::permit::{Permit, PermitFault, SignedPermit};
use crate::pool::{PoolKey, V3Pool};
use crate::price::min_hop_price_x36;
use crate::route::{V3Path, V4Path};
use alloy_primitives::{Address, B256, Bytes, U256, address, b256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::networks::{Exchange, RouterCalldata, by_id_name_or_title};

const NVDA: Address = address!("0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEC");
const OWNER: Address = address!("0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a");

const TERMS: Terms = Terms {
    amount_in: U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]),
    min_out: U256::from_limbs([2_985_000_000, 0, 0, 0]),
    deadline: 1_767_225_660,
};

fn exchange(calldata: RouterCalldata) -> Exchange {
    let mut exchange = *by_id_name_or_title("robinhood").unwrap().exchange.unwrap();
    exchange.v4.calldata = calldata;
    exchange
}

fn robinhood() -> Exchange {
    exchange(RouterCalldata::V2_1_1)
}

fn dollar_token() -> Address {
    by_id_name_or_title("robinhood").unwrap().stablecoin.address
}

fn dollars() -> Currency {
    Currency::Token(dollar_token())
}

fn native_pool() -> PoolKey {
    PoolKey::new(Currency::Native, dollars(), 500, 10, Address::ZERO).unwrap()
}

fn native_to_dollars() -> V4Path {
    V4Path::new(Currency::Native, &[native_pool()]).unwrap()
}

fn dollars_to_nvda() -> V4Path {
    let hooks = Address::with_last_byte(0x80);
    let second = PoolKey::new(Currency::Native, Currency::Token(NVDA), 3_000, 60, hooks).unwrap();
    V4Path::new(dollars(), &[native_pool(), second]).unwrap()
}

fn v4(path: &V4Path) -> V4Swap<'_> {
    V4Swap { path, terms: TERMS, hop_prices: &[], permit: None }
}

fn signed() -> SignedPermit {
    let permit = Permit {
        token: dollar_token(),
        amount: TERMS.amount_in,
        expiration: TERMS.deadline,
        nonce: 3,
        spender: robinhood().v4.router,
        signature_deadline: TERMS.deadline,
    };
    SignedPermit { permit, signature: vec![7; 65].into() }
}

/// Returns the commands and inputs of the call, and the actions and parameters in the swap's input.
fn split_router_call(call: &Call) -> (Bytes, Vec<Bytes>, Bytes, Vec<Bytes>) {
    let execute = IUniversalRouter::executeCall::abi_decode_validate(&call.data).unwrap();
    assert_eq!(execute.deadline, U256::from(TERMS.deadline));
    let swap = execute.commands.iter().position(|command| *command == 0x10).unwrap();
    let plan = &execute.inputs[swap];
    let (actions, params) = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(plan).unwrap();
    (execute.commands, execute.inputs, actions, params)
}

/// Python's `eth_abi` encoded the expected words.
#[test]
fn a_single_swap_has_the_words_of_its_routers_version() {
    let path = native_to_dollars();
    let single = |layout| {
        split_router_call(&v4_exact_input(&exchange(layout), &v4(&path)).unwrap()).3[0].clone()
    };
    let old = single(RouterCalldata::V2_0);
    assert_eq!(old.len(), 0x160);
    assert_eq!(
        old[..],
        hex!(
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000000000005fc5360d0400a0fd4f2af552add042d716f1d168"
            "00000000000000000000000000000000000000000000000000000000000001f4"
            "000000000000000000000000000000000000000000000000000000000000000a"
            "0000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000000000000000000000000000000000000000000000000001"
            "0000000000000000000000000000000000000000000000000de0b6b3a7640000"
            "00000000000000000000000000000000000000000000000000000000b1eb7c40"
            "0000000000000000000000000000000000000000000000000000000000000120"
            "0000000000000000000000000000000000000000000000000000000000000000"
        )
    );
    let new = single(RouterCalldata::V2_1_1);
    assert_eq!(new.len(), 0x180);
    assert_eq!(new[..0x120], old[..0x120]);
    assert_eq!(
        new[0x120..],
        hex!(
            "000000000000000000000000000000000000000009a522563e537eca49000000"
            "0000000000000000000000000000000000000000000000000000000000000140"
            "0000000000000000000000000000000000000000000000000000000000000000"
        )
    );
}

/// Python's `eth_abi` encoded the call data of the expected hashes.
#[test]
fn the_whole_call_data_is_the_one_that_eth_abi_encodes() {
    let path = native_to_dollars();
    for (layout, expected) in [
        (
            RouterCalldata::V2_0,
            b256!("0x8478d8de6fc4c7cdc285233b1397e91ec77c94d6bab513d5785074cee3d5836a"),
        ),
        (
            RouterCalldata::V2_1_1,
            b256!("0x94be1df4c45c1b4ff305d51a0e6f8b31a37aae5ddf78e0597e660caed396456b"),
        ),
    ] {
        let call = v4_exact_input(&exchange(layout), &v4(&path)).unwrap();
        assert_eq!(keccak256(&call.data), expected);
        assert_eq!((call.to, call.value), (robinhood().v4.router, TERMS.amount_in));
    }
    let wrapped = robinhood().wrapped_native;
    let pool = V3Pool::new(wrapped, NVDA, 500).unwrap();
    let buy = V3Path::new(wrapped, &[pool]).unwrap();
    let sell = V3Path::new(NVDA, &[pool]).unwrap();
    let long = V3Pool::new(dollar_token(), wrapped, 3_000).unwrap();
    let long = V3Path::new(dollar_token(), &[long, pool]).unwrap();
    let few = Terms { amount_in: U256::from(1_000_000_000), min_out: U256::from(5), ..TERMS };
    let rows: [(&V3Path, NativeSide, Terms, U256, B256); 4] = [
        (
            &buy,
            NativeSide::Neither,
            TERMS,
            U256::ZERO,
            b256!("0x797ddcb0a44ca373144507799572eaf47dbe115f0968ba245c1f0546bb91879b"),
        ),
        (
            &buy,
            NativeSide::Input,
            TERMS,
            TERMS.amount_in,
            b256!("0x92d08eb8cd93ffdff9ab4f11a41e0738e7cbbe579c9aff15e2924ed0706c59a9"),
        ),
        (
            &sell,
            NativeSide::Output,
            TERMS,
            U256::ZERO,
            b256!("0xabaf7b02bceb4b2b7e02a9b8340b3d15f80852b29d7a3d0348989dae47bdfb19"),
        ),
        (
            &long,
            NativeSide::Neither,
            few,
            U256::ZERO,
            b256!("0x74f375e1e1671e5c3527178b262c83ca00f9094eccfb4a3a11a9394fe485ce56"),
        ),
    ];
    for (path, native, terms, value, expected) in rows {
        let swap = V3Swap { path, native, terms, owner: OWNER };
        let call = v3_exact_input(&robinhood(), &swap).unwrap();
        assert_eq!(keccak256(&call.data), expected, "{native:?}");
        assert_eq!((call.to, call.value), (robinhood().v3.router, value));
    }
}

#[test]
fn a_path_of_two_pools_has_the_words_of_its_routers_version() {
    let path = dollars_to_nvda();
    let terms = Terms {
        amount_in: U256::from(1_000_000_000),
        min_out: U256::from(500_000_000_000_000_000_u64),
        ..TERMS
    };
    let prices = [U256::from(7), U256::from(8)];
    let rows: [(RouterCalldata, &[U256], usize, B256); 2] = [
        (
            RouterCalldata::V2_0,
            &[],
            0x280,
            b256!("0x1e92007173ff80191539495e235c557efd04cf3fb6aa1f784c0a16c4acba1465"),
        ),
        (
            RouterCalldata::V2_1_1,
            &prices,
            0x300,
            b256!("0x50ca5b4c7367c78f1a0f198eb8df593e7ce171b3aa8cff8833512163694180db"),
        ),
    ];
    for (layout, hop_prices, length, expected) in rows {
        let swap = V4Swap { terms, hop_prices, ..v4(&path) };
        let (commands, _, actions, params) =
            split_router_call(&v4_exact_input(&exchange(layout), &swap).unwrap());
        assert_eq!((&commands[..], &actions[..]), (&hex!("10")[..], &hex!("070c0f")[..]));
        assert_eq!((params[0].len(), keccak256(&params[0])), (length, expected));
        assert_eq!(params[1][..], (dollar_token(), terms.amount_in).abi_encode()[..]);
        assert_eq!(params[2][..], (NVDA, terms.min_out).abi_encode()[..]);
    }
}

#[test]
fn minimum_prices_must_fit_path_and_router() {
    let (short, long) = (native_to_dollars(), dollars_to_nvda());
    let one = U256::from(1);
    let go = |layout, path, hop_prices: &[U256]| {
        v4_exact_input(&exchange(layout), &V4Swap { hop_prices, ..v4(path) }).map(|_call| ())
    };
    let bad = Err(SwapFault::HopPrices);
    assert_eq!(go(RouterCalldata::V2_1_1, &long, &[]), Ok(()));
    assert_eq!(go(RouterCalldata::V2_1_1, &long, &[one]), bad);
    assert_eq!(go(RouterCalldata::V2_1_1, &long, &[one; 3]), bad);
    assert_eq!(go(RouterCalldata::V2_0, &long, &[one; 2]), bad);
    for layout in [RouterCalldata::V2_0, RouterCalldata::V2_1_1] {
        assert_eq!(go(layout, &short, &[one]), bad);
    }
}

#[test]
fn native_coin_in_sweeps_the_rest_back_to_the_caller() {
    let (commands, inputs, actions, params) =
        split_router_call(&v4_exact_input(&robinhood(), &v4(&native_to_dollars())).unwrap());
    assert_eq!((&commands[..], &actions[..]), (&hex!("1004")[..], &hex!("060c0f")[..]));
    let sweep = (Address::ZERO, Address::with_last_byte(1), U256::ZERO).abi_encode();
    assert_eq!(inputs[1][..], sweep[..]);
    assert_eq!(params[1][..], (Address::ZERO, TERMS.amount_in).abi_encode()[..]);
    assert_eq!(params[2][..], (dollar_token(), TERMS.min_out).abi_encode()[..]);
    let single = v2_1_1::ExactInputSingleParams::abi_decode_validate(&params[0]).unwrap();
    assert_eq!(Some(single.minHopPriceX36), min_hop_price_x36(TERMS.amount_in, TERMS.min_out));
    assert!(!single.minHopPriceX36.is_zero());
}

#[test]
fn a_permit_goes_first_and_may_fail_alone() {
    let path = V4Path::new(dollars(), &[native_pool()]).unwrap();
    let permit = signed();
    let swap = V4Swap { permit: Some(&permit), ..v4(&path) };
    let call = v4_exact_input(&robinhood(), &swap).unwrap();
    let (commands, inputs, _, params) = split_router_call(&call);
    assert_eq!(commands[..], hex!("8a10"));
    assert_eq!(call.value, U256::ZERO);
    assert_eq!(inputs[0], permit.router_input().unwrap());
    assert_eq!(params[2][..], (Address::ZERO, TERMS.min_out).abi_encode()[..]);
}

#[test]
fn a_permit_for_something_else_is_refused() {
    let path = V4Path::new(dollars(), &[native_pool()]).unwrap();
    let good = signed().permit;
    let go = |path: &V4Path, permit: Permit| {
        let signed = SignedPermit { permit, signature: Bytes::new() };
        v4_exact_input(&robinhood(), &V4Swap { permit: Some(&signed), ..v4(path) }).map(|_call| ())
    };
    assert_eq!(go(&path, good), Ok(()));
    let late = TERMS.deadline - 1;
    for odd in [
        Permit { token: NVDA, ..good },
        Permit { spender: OWNER, ..good },
        Permit { amount: good.amount - U256::from(1), ..good },
        Permit { expiration: late, ..good },
        Permit { signature_deadline: late, ..good },
    ] {
        assert_eq!(go(&path, odd), Err(SwapFault::PermitMismatch));
    }
    let native = Permit { token: Address::ZERO, ..good };
    assert_eq!(go(&native_to_dollars(), native), Err(SwapFault::PermitMismatch));
    let wide = Permit { nonce: 1 << 48, ..good };
    assert_eq!(go(&path, wide), Err(SwapFault::Permit(PermitFault::Nonce)));
}

#[test]
fn a_swap_without_amount_or_floor_is_refused() {
    let v4_path = native_to_dollars();
    let wrapped = robinhood().wrapped_native;
    let v3_path = V3Path::new(wrapped, &[V3Pool::new(wrapped, NVDA, 500).unwrap()]).unwrap();
    let most = U256::from(i128::MAX);
    let large = most + U256::from(1);
    let rows = [
        (Terms { amount_in: U256::ZERO, ..TERMS }, SwapFault::NoAmount, true),
        (Terms { min_out: U256::ZERO, ..TERMS }, SwapFault::NoFloor, true),
        (Terms { amount_in: large, ..TERMS }, SwapFault::TooLarge, false),
        (Terms { min_out: large, ..TERMS }, SwapFault::TooLarge, false),
    ];
    for (terms, fault, in_v3) in rows {
        for layout in [RouterCalldata::V2_0, RouterCalldata::V2_1_1] {
            let swap = V4Swap { terms, ..v4(&v4_path) };
            assert_eq!(v4_exact_input(&exchange(layout), &swap), Err(fault));
        }
        let swap = V3Swap { path: &v3_path, native: NativeSide::Neither, terms, owner: OWNER };
        assert_eq!(v3_exact_input(&robinhood(), &swap).is_err(), in_v3);
    }
    let terms = Terms { amount_in: most, min_out: most, ..TERMS };
    assert!(v4_exact_input(&robinhood(), &V4Swap { terms, ..v4(&v4_path) }).is_ok());
}

#[test]
fn a_native_side_must_be_an_end_of_the_path() {
    let wrapped = robinhood().wrapped_native;
    let pool = V3Pool::new(wrapped, NVDA, 500).unwrap();
    let buy = V3Path::new(wrapped, &[pool]).unwrap();
    let sell = V3Path::new(NVDA, &[pool]).unwrap();
    let go = |path, native, owner| {
        let swap = V3Swap { path, native, terms: TERMS, owner };
        v3_exact_input(&robinhood(), &swap).map(|_call| ())
    };
    assert_eq!(go(&buy, NativeSide::Input, OWNER), Ok(()));
    assert_eq!(go(&sell, NativeSide::Output, OWNER), Ok(()));
    assert_eq!(go(&sell, NativeSide::Input, OWNER), Err(SwapFault::NotNative));
    assert_eq!(go(&buy, NativeSide::Output, OWNER), Err(SwapFault::NotNative));
    let one = Address::with_last_byte;
    for odd in [one(0), one(1), one(2), robinhood().v3.router] {
        assert_eq!(go(&buy, NativeSide::Input, odd), Err(SwapFault::Recipient));
    }
}

#[test]
fn native_coin_out_is_unwrapped_to_the_owner_with_the_same_floor() {
    let wrapped = robinhood().wrapped_native;
    let path = V3Path::new(NVDA, &[V3Pool::new(wrapped, NVDA, 500).unwrap()]).unwrap();
    let swap = V3Swap { path: &path, native: NativeSide::Output, terms: TERMS, owner: OWNER };
    let call = v3_exact_input(&robinhood(), &swap).unwrap();
    let multicall = ISwapRouter02::multicallCall::abi_decode_validate(&call.data).unwrap();
    assert_eq!(multicall.deadline, U256::from(TERMS.deadline));
    let [swap, unwrap] = &multicall.data[..] else { panic!("two calls") };
    let swap = ISwapRouter02::exactInputSingleCall::abi_decode_validate(swap).unwrap().params;
    assert_eq!(
        (swap.recipient, swap.amountOutMinimum),
        (Address::with_last_byte(2), TERMS.min_out)
    );
    let unwrap = ISwapRouter02::unwrapWETH9Call::abi_decode_validate(unwrap).unwrap();
    assert_eq!((unwrap.recipient, unwrap.amountMinimum), (OWNER, TERMS.min_out));
}

/// The older layout's decoder rejects call data of the newer layout, so an older router cannot misread its terms.
#[test]
fn the_layouts_cannot_be_confused_when_a_minimum_price_is_set() {
    let path = native_to_dollars();
    let call = v4_exact_input(&exchange(RouterCalldata::V2_1_1), &v4(&path)).unwrap();
    let new = split_router_call(&call).3[0].clone();
    assert!(v2_0::ExactInputSingleParams::abi_decode_validate(&new).is_err());
}

#[test]
fn wrapping_pays_and_unwrapping_does_not() {
    let (exchange, amount) = (robinhood(), U256::from(0x1234));
    let call = wrap(&exchange, amount);
    assert_eq!((call.to, call.value), (exchange.wrapped_native, amount));
    assert_eq!(call.data[..], hex!("d0e30db0"));
    let call = unwrap(&exchange, amount);
    assert_eq!((call.to, call.value), (exchange.wrapped_native, U256::ZERO));
    let expected = hex!("2e1a7d4d0000000000000000000000000000000000000000000000000000000000001234");
    assert_eq!(call.data[..], expected);
}

/// Python's `eth_abi` encoded the expected words.
#[test]
fn approvals_have_their_words() {
    let (permit2, router) = (robinhood().permit2, robinhood().v4.router);
    let call = approve(dollar_token(), permit2, U256::from(5));
    assert_eq!((call.to, call.value), (dollar_token(), U256::ZERO));
    assert_eq!(
        call.data[..],
        hex!(
            "095ea7b3"
            "000000000000000000000000000000000022d473030f116ddee9f6b43ac78ba3"
            "0000000000000000000000000000000000000000000000000000000000000005"
        )
    );
    let most = crate::permit::PERMIT2_AMOUNT_MAX;
    let call = permit2_approve(permit2, dollar_token(), router, most, 1_767_227_400).unwrap();
    assert_eq!((call.to, call.value), (permit2, U256::ZERO));
    assert_eq!(
        call.data[..],
        hex!(
            "87517c45"
            "0000000000000000000000005fc5360d0400a0fd4f2af552add042d716f1d168"
            "0000000000000000000000008876789976decbfcbbbe364623c63652db8c0904"
            "000000000000000000000000ffffffffffffffffffffffffffffffffffffffff"
            "000000000000000000000000000000000000000000000000000000006955c008"
        )
    );
    let wide = permit2_approve(permit2, NVDA, router, most + U256::from(1), 0);
    assert_eq!(wide, Err(PermitFault::Amount));
    let late = permit2_approve(permit2, NVDA, router, most, 1 << 48);
    assert_eq!(late, Err(PermitFault::Expiration));
    let call = permit2_lockdown(permit2, &[(dollar_token(), router)]);
    assert_eq!(call.to, permit2);
    assert_eq!(
        call.data[..],
        hex!(
            "cc53287f"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000001"
            "0000000000000000000000005fc5360d0400a0fd4f2af552add042d716f1d168"
            "0000000000000000000000008876789976decbfcbbbe364623c63652db8c0904"
        )
    );
    assert!(IPermit2::lockdownCall::abi_decode_validate(&call.data).is_ok());
}
