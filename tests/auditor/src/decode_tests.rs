use super::{Decoded, PermitCall, Recipient, decode};
use crate::trading::{Hop, Pool};
use encode::{
    V4Swap, address, approve, exact_input, exact_input_single, execute, multicall, permit_input,
    unwrap_weth, word,
};

#[path = "../tests/rules/common/encode.rs"]
mod encode;

const IN: &str = "0x1000000000000000000000000000000000000001";
const OUT: &str = "0x2000000000000000000000000000000000000002";
const OWN: &str = "0x3000000000000000000000000000000000000003";
const NONE: &str = "0x0000000000000000000000000000000000000000";

fn swap(data: &str) -> super::SwapCall {
    match decode(data) {
        Some(Decoded::Swap(swap)) => *swap,
        other => panic!("{other:?}"),
    }
}

#[test]
fn approvals_are_decoded() {
    let expected = Decoded::Approve { spender: OUT.to_owned(), amount: 7 };
    assert_eq!(decode(&format!("0x{}", approve(OUT, 7))), Some(expected));
    let most = format!("095ea7b3{}{}", address(OUT), "f".repeat(64));
    let expected = Decoded::Approve { spender: OUT.to_owned(), amount: u128::MAX };
    assert_eq!(decode(&most), Some(expected));
    assert_eq!(decode("0x"), Some(Decoded::Nothing));
    assert_eq!(decode("0xd0e30db0"), Some(Decoded::Wrap));
    assert_eq!(decode("0xdeadbeef"), Some(Decoded::Other));
    assert_eq!(decode("0x095ea7b300"), None);
}

#[test]
fn v3_swap_is_decoded_with_its_deadline() {
    let single = exact_input_single((IN, OUT), 500, OWN, 100, 90);
    assert_eq!(swap(&single).deadline_s, None);
    let call = swap(&multicall(1_700, &[single]));
    assert_eq!(
        (call.deadline_s, call.swap_count, call.is_universal_router, call.is_v4),
        (Some(1_700), 1, false, false)
    );
    assert_eq!((call.amount_in, call.minimums, call.token_in), (100, vec![90], IN.to_owned()));
    assert_eq!(call.recipient, Some(Recipient::Address(OWN.to_owned())));
    let hop = Hop { pool: Pool::V3 { fee: 500 }, token_out: OUT.to_owned() };
    assert_eq!(call.hops, [hop]);
}

#[test]
fn v3_path_is_decoded_hop_by_hop() {
    let plain = |a: &str| a.trim_start_matches("0x").to_owned();
    let path = format!("{}0001f4{}000bb8{}", plain(IN), plain(OWN), plain(OUT));
    let call = swap(&multicall(9, &[exact_input(&path, OWN, 5, 4)]));
    let hops = [
        Hop { pool: Pool::V3 { fee: 500 }, token_out: OWN.to_owned() },
        Hop { pool: Pool::V3 { fee: 3000 }, token_out: OUT.to_owned() },
    ];
    assert_eq!((call.token_in.as_str(), call.hops), (IN, hops.to_vec()));
    assert_eq!((call.amount_in, call.minimums), (5, vec![4]));
}

#[test]
fn unwrapping_names_minimum_and_recipient() {
    let router = "0x0000000000000000000000000000000000000002";
    let calls = [exact_input_single((IN, OUT), 500, router, 100, 90), unwrap_weth(91, OWN)];
    let call = swap(&multicall(9, &calls));
    assert_eq!(call.recipient, Some(Recipient::Router));
    assert_eq!(call.unwraps, [(Recipient::Address(OWN.to_owned()), 91)]);
}

#[test]
fn v4_swap_and_its_permit_are_decoded() {
    let v4 = V4Swap {
        currencies: (IN, OUT),
        fee: 500,
        tick_spacing: 10,
        hooks: NONE,
        zero_for_one: false,
        amount: 100,
        least: 90,
        hop_price: Some(word(77)),
    };
    // The router's source gives this length for empty hook data.
    assert_eq!(v4.single().len() / 2, 0x180);
    let permit = permit_input(OUT, 100, 50, OWN, 60);
    let call = swap(&execute("8a10", &[permit, v4.input()], 60));
    assert_eq!((call.token_in.as_str(), call.swap_count, call.is_v4), (OUT, 1, true));
    let pool = Pool::V4 { fee: 500, tick_spacing: 10, hooks: NONE.to_owned() };
    assert_eq!(call.hops, [Hop { pool, token_out: IN.to_owned() }]);
    assert_eq!(
        (call.max_inputs, call.taken_tokens),
        (vec![(OUT.to_owned(), 100)], vec![IN.to_owned()])
    );
    assert_eq!((call.minimums, call.hop_prices.len()), (vec![90, 90], 1));
    let expected = PermitCall {
        token: OUT.to_owned(),
        amount: 100,
        expiration_s: 50,
        nonce: 0,
        spender: OWN.to_owned(),
        deadline_s: 60,
        may_revert: true,
    };
    assert_eq!(call.permits, [expected]);
    // Older routers encode another word at the place of the least price.
    let old = V4Swap { hop_price: None, ..v4 };
    match decode(&execute("10", &[old.input()], 60)) {
        Some(Decoded::Swap(swap)) => assert_ne!(swap.hop_prices, call.hop_prices),
        other => assert_eq!(other, None),
    }
}

#[test]
fn unknown_or_fallible_commands_are_rejected() {
    let v4 = V4Swap {
        currencies: (IN, OUT),
        fee: 500,
        tick_spacing: 10,
        hooks: NONE,
        zero_for_one: true,
        amount: 1,
        least: 1,
        hop_price: Some(word(0)),
    };
    assert_eq!(decode(&execute("90", &[v4.input()], 60)), None);
    assert_eq!(decode(&execute("21", &[v4.input()], 60)), None);
    assert_eq!(decode(&execute("1010", &[v4.input()], 60)), None);
}
