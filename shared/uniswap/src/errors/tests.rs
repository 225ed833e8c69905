use super::*;
use crate::abi::errors::permit2::Permit2Errors;
use crate::abi::errors::pool::PoolErrors;
use crate::abi::errors::router::RouterErrors;
use alloy_primitives::{Address, Bytes, FixedBytes, U256};

fn text(reason: &str) -> Vec<u8> {
    Revert::from(reason).abi_encode()
}

#[test]
fn each_known_error_is_a_sentence() {
    let one = U256::from(1);
    let rows: [(Vec<u8>, &str); 19] = [
        (
            RouterErrors::V4TooLittleReceived {
                minAmountOutReceived: one,
                amountReceived: U256::ZERO,
            }
            .abi_encode(),
            "the swap would pay 0, less than the minimum of 1",
        ),
        (
            RouterErrors::V4TooLittleReceivedPerHopSingle { minPrice: one, price: U256::ZERO }
                .abi_encode(),
            "a pool's price is below the minimum price",
        ),
        (
            RouterErrors::V3TooLittleReceived {}.abi_encode(),
            "the swap would pay less than the minimum",
        ),
        (RouterErrors::TransactionDeadlinePassed {}.abi_encode(), "the swap's deadline has passed"),
        (
            RouterErrors::SliceOutOfBounds {}.abi_encode(),
            "the router does not understand the swap's call data",
        ),
        (RouterErrors::InsufficientETH {}.abi_encode(), "the router holds too little native coin"),
        (
            PoolErrors::NotEnoughLiquidity { poolId: FixedBytes::ZERO }.abi_encode(),
            "the pool has too little liquidity",
        ),
        (PoolErrors::PoolNotInitialized {}.abi_encode(), "the pool does not exist"),
        (PoolErrors::CurrencyNotSettled {}.abi_encode(), "the swap left a debt with the pools"),
        (
            Permit2Errors::AllowanceExpired { deadline: one }.abi_encode(),
            "the Permit2 allowance has expired",
        ),
        (
            Permit2Errors::InsufficientAllowance { amount: one }.abi_encode(),
            "the Permit2 allowance is too small",
        ),
        (Permit2Errors::InvalidNonce {}.abi_encode(), "the permit's nonce is already used"),
        (
            Permit2Errors::SignatureExpired { signatureDeadline: one }.abi_encode(),
            "the permit's signature has expired",
        ),
        (text("Too little received"), "the swap would pay less than the minimum"),
        (text("Transaction too old"), "the swap's deadline has passed"),
        (text("STF"), "the token could not be taken from the wallet: check balance and allowance"),
        (Panic { code: U256::from(0x11) }.abi_encode(), "the contract failed with panic 0x11"),
        (vec![], "the contract gave no reason"),
        (vec![0xde, 0xad, 0xbe, 0xef, 1], "unknown error 0xdeadbeef"),
    ];
    for (data, sentence) in rows {
        assert_eq!(reason(&data), sentence);
    }
    assert_eq!(reason(&[1, 2, 3]), "the contract gave an unreadable reason");
}

#[test]
fn errors_within_errors_are_unwrapped_to_a_bound() {
    let inner = Permit2Errors::InvalidNonce {}.abi_encode();
    let failed = |message: Vec<u8>| {
        RouterErrors::ExecutionFailed { commandIndex: U256::from(2), message: message.into() }
            .abi_encode()
    };
    assert_eq!(
        reason(&failed(inner.clone())),
        "router command 2 failed: the permit's nonce is already used"
    );
    let hook = PoolErrors::WrappedError {
        target: Address::repeat_byte(0xab),
        selector: FixedBytes::ZERO,
        reason: inner.clone().into(),
        details: Bytes::new(),
    };
    let quoter = PoolErrors::UnexpectedRevertBytes { revertData: hook.abi_encode().into() };
    assert_eq!(
        reason(&quoter.abi_encode()),
        "a call of 0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB failed: the permit's nonce is already used"
    );
    let deep = (0..50).fold(inner, |data, _level| failed(data));
    assert!(reason(&deep).ends_with("errors within errors, too deep to read"));
    assert!(reason(&deep).len() < 200);
}

#[test]
fn the_text_of_a_contract_is_quoted_made_visible_and_cut() {
    assert_eq!(
        reason(&text("no\u{202e}\n")),
        r#"the contract failed with the text "no\u{202e}\u{a}""#
    );
    assert!(reason(&text(&"x".repeat(10_000))).len() < 200);
}
