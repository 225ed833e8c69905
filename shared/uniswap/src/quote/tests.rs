use super::*;
use crate::pool::V3Pool;
use alloy_primitives::{Address, B256, address, b256, keccak256};
use alloy_sol_types::{Revert, SolValue};
use bursar_core::networks::by_id_name_or_title;

const NVDA: Address = address!("0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEC");
const E18: u64 = 1_000_000_000_000_000_000;

fn v3_path() -> V3Path {
    let wrapped = by_id_name_or_title("robinhood").unwrap().exchange.unwrap().wrapped_native;
    V3Path::new(wrapped, &[V3Pool::new(wrapped, NVDA, 500).unwrap()]).unwrap()
}

fn long_v3_path() -> V3Path {
    let pool = |a, b| V3Pool::new(Address::repeat_byte(a), Address::repeat_byte(b), 500).unwrap();
    V3Path::new(Address::repeat_byte(1), &[pool(1, 2), pool(2, 3)]).unwrap()
}

fn dollars() -> Currency {
    Currency::Token(by_id_name_or_title("robinhood").unwrap().stablecoin.address)
}

fn native_pool() -> PoolKey {
    PoolKey::new(Currency::Native, dollars(), 500, 10, Address::ZERO).unwrap()
}

fn long_v4_path() -> V4Path {
    let nvda = Currency::Token(NVDA);
    let hooks = Address::with_last_byte(0x80);
    let second = PoolKey::new(Currency::Native, nvda, 3_000, 60, hooks).unwrap();
    V4Path::new(dollars(), &[native_pool(), second]).unwrap()
}

/// Python's `eth_abi` encoded the call data of the expected hashes.
#[test]
fn the_call_data_is_the_one_that_eth_abi_encodes() {
    let v4_path = V4Path::new(Currency::Native, &[native_pool()]).unwrap();
    let rows = [
        (
            v3_exact_input_call(&v3_path(), U256::from(E18)),
            b256!("0x965f8ad2c1f6996cf3fb56475ba7c09b597d232d882941dd5a302d9318496a97"),
        ),
        (
            v3_exact_output_call(&v3_path(), U256::from(E18)),
            b256!("0x1d9daa0a395f4c6e5109ef8292c1aba71d5295c73ee8dc99094920d7723677e6"),
        ),
        (
            v4_exact_input_call(&v4_path, U256::from(E18)).unwrap(),
            b256!("0xa291d79f60f8fcc401626787d42a16cfd95482899b98422965f87d16def1449b"),
        ),
        (
            v4_exact_input_call(&long_v4_path(), U256::from(1_000_000_000)).unwrap(),
            b256!("0x3eb33c1b19b4f6dcad24786da2665845c701193da3ead8913b6c7da822a496aa"),
        ),
    ];
    for (data, expected) in rows {
        assert_eq!(keccak256(data), expected);
    }
}

#[test]
fn longer_v3_paths_are_quoted_forwards_and_backwards() {
    let path = long_v3_path();
    let data = v3_exact_input_call(&path, U256::from(7));
    let call = IQuoterV2::quoteExactInputCall::abi_decode_validate(&data).unwrap();
    assert_eq!((call.path, call.amountIn), (path.encode(), U256::from(7)));
    let data = v3_exact_output_call(&path, U256::from(7));
    let call = IQuoterV2::quoteExactOutputCall::abi_decode_validate(&data).unwrap();
    assert_eq!((call.path, call.amountOut), (path.encode_reversed(), U256::from(7)));
}

#[test]
fn an_exact_output_of_v4_asks_for_one_pool() {
    let path = V4Path::new(dollars(), &[native_pool()]).unwrap();
    let data = v4_exact_output_call(&path.hops()[0], U256::from(7)).unwrap();
    let call = IV4Quoter::quoteExactOutputSingleCall::abi_decode_validate(&data).unwrap();
    assert_eq!((call.params.exactAmount, call.params.zeroForOne), (7, false));
    assert_eq!(call.params.poolKey, native_pool().to_abi());
}

#[test]
fn a_v3_pool_that_ran_dry_is_found_by_its_price() {
    let low = U256::from(4_295_128_740_u64);
    let high: U256 = "1461446703485210103287273052203988822378723970341".parse().unwrap();
    let one = U256::from(1);
    let middle = one << 96;
    let quote = |price: U256| {
        let answer = (U256::from(5), price, U256::from(1), U256::from(9)).abi_encode();
        (decode_v3_exact_input(&v3_path(), &answer), decode_v3_exact_output(&v3_path(), &answer))
    };
    let good = Ok(Quote { amount: U256::from(5), gas: U256::from(9) });
    for price in [middle, low + one, high - one] {
        assert_eq!(quote(price), (good.clone(), good.clone()));
    }
    let dry = Err(QuoteFault::InsufficientLiquidity);
    for price in [U256::ZERO, low - one, low, high, high + one] {
        assert_eq!(quote(price), (dry.clone(), dry.clone()));
    }
    // A word of more than 160 bits cannot be a price.
    assert_eq!(
        quote(one << 160),
        (Err(QuoteFault::MalformedAnswer), Err(QuoteFault::MalformedAnswer))
    );

    let several = |prices: Vec<U256>| {
        let ticks = vec![one; prices.len()];
        let answer = (U256::from(5), prices, ticks, U256::from(9)).abi_encode_params();
        (
            decode_v3_exact_input(&long_v3_path(), &answer),
            decode_v3_exact_output(&long_v3_path(), &answer),
        )
    };
    assert_eq!(several(vec![middle, middle]), (good.clone(), good));
    assert_eq!(several(vec![middle, low]), (dry.clone(), dry.clone()));
    assert_eq!(several(vec![high, middle]), (dry.clone(), dry));
    assert_eq!(several(vec![middle]).0, Err(QuoteFault::MalformedAnswer));
    assert_eq!(several(vec![]).1, Err(QuoteFault::MalformedAnswer));
}

#[test]
fn a_v4_quote_that_wrapped_is_refused() {
    let decode = |amount: U256| decode_v4(&(amount, U256::from(9)).abi_encode());
    let most = U256::from(i128::MAX);
    assert_eq!(decode(most), Ok(Quote { amount: most, gas: U256::from(9) }));
    for wrapped in [most + U256::from(1), U256::from(u128::MAX), U256::MAX] {
        assert_eq!(decode(wrapped), Err(QuoteFault::MalformedAnswer));
    }
    assert_eq!(decode_v4(&[]), Err(QuoteFault::MalformedAnswer));
}

#[test]
fn amounts_beyond_v4_are_refused() {
    let path = V4Path::new(Currency::Native, &[native_pool()]).unwrap();
    let most = U256::from(i128::MAX);
    for large in [most + U256::from(1), U256::MAX] {
        assert_eq!(v4_exact_input_call(&path, large), Err(QuoteFault::TooLarge));
        assert_eq!(v4_exact_output_call(&path.hops()[0], large), Err(QuoteFault::TooLarge));
    }
    assert!(v4_exact_input_call(&path, most).is_ok());
}

#[test]
fn the_reason_of_a_failed_quote_is_decoded() {
    let dry = PoolErrors::NotEnoughLiquidity { poolId: B256::repeat_byte(1) }.abi_encode();
    let wrap = |inner: Vec<u8>| {
        PoolErrors::UnexpectedRevertBytes { revertData: inner.into() }.abi_encode()
    };
    assert_eq!(decode_revert(&dry), QuoteFault::InsufficientLiquidity);
    assert_eq!(decode_revert(&wrap(dry)), QuoteFault::InsufficientLiquidity);
    let reverted = |text: &str| QuoteFault::Reverted(text.to_owned());
    let missing = PoolErrors::PoolNotInitialized {}.abi_encode();
    assert_eq!(decode_revert(&wrap(missing)), reverted("the pool does not exist"));
    let zero = Revert::from("AS").abi_encode();
    assert_eq!(decode_revert(&zero), reverted("the swap's amount is zero"));
    assert_eq!(decode_revert(&[]), reverted("the contract gave no reason"));
}
