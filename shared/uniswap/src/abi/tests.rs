use super::errors::permit2::Permit2Errors;
use super::errors::pool::PoolErrors;
use super::errors::router::RouterErrors;
use super::feed::{IFeed, IStockToken};
use super::permit2::IPermit2;
use super::pool_manager::IPoolManager;
use super::router::IUniversalRouter;
use super::token::{IErc20, IWrappedNative};
use super::v3::{IQuoterV2, ISwapRouter02, IV3Factory, IV3Pool, IV3PoolEvents};
use super::v4::{IStateView, IV4Quoter};
use alloy_primitives::{b256, hex};
use alloy_sol_types::{SolCall, SolError, SolEvent};

fn assert_selectors(rows: &[([u8; 4], &str)]) {
    for (selector, expected) in rows {
        assert_eq!(hex::encode(selector), *expected);
    }
}

#[test]
fn the_selectors_of_v3_are_those_of_the_contracts() {
    assert_selectors(&[
        (IV3Factory::getPoolCall::SELECTOR, "1698ee82"),
        (IV3Pool::slot0Call::SELECTOR, "3850c7bd"),
        (IV3Pool::liquidityCall::SELECTOR, "1a686502"),
        (IV3Pool::observeCall::SELECTOR, "883bdbfd"),
        (IQuoterV2::quoteExactInputSingleCall::SELECTOR, "c6a5026a"),
        (IQuoterV2::quoteExactInputCall::SELECTOR, "cdca1753"),
        (IQuoterV2::quoteExactOutputSingleCall::SELECTOR, "bd21704a"),
        (IQuoterV2::quoteExactOutputCall::SELECTOR, "2f80bb1d"),
        (ISwapRouter02::exactInputSingleCall::SELECTOR, "04e45aaf"),
        (ISwapRouter02::exactInputCall::SELECTOR, "b858183f"),
        (ISwapRouter02::multicallCall::SELECTOR, "5ae401dc"),
        (ISwapRouter02::unwrapWETH9Call::SELECTOR, "49404b7c"),
        (ISwapRouter02::refundETHCall::SELECTOR, "12210e8a"),
        (ISwapRouter02::factoryCall::SELECTOR, "c45a0155"),
        (ISwapRouter02::WETH9Call::SELECTOR, "4aa4a4fc"),
    ]);
}

#[test]
fn the_selectors_of_v4_and_its_router_are_those_of_the_contracts() {
    assert_selectors(&[
        (IV4Quoter::quoteExactInputSingleCall::SELECTOR, "aa9d21cb"),
        (IV4Quoter::quoteExactInputCall::SELECTOR, "ca253dc9"),
        (IV4Quoter::quoteExactOutputSingleCall::SELECTOR, "58733073"),
        (IStateView::getSlot0Call::SELECTOR, "c815641c"),
        (IStateView::getLiquidityCall::SELECTOR, "fa6793d5"),
        (IStateView::poolManagerCall::SELECTOR, "dc4c90d3"),
        (IUniversalRouter::executeCall::SELECTOR, "3593564c"),
    ]);
}

#[test]
fn the_selectors_of_tokens_permit2_and_feeds_are_those_of_the_contracts() {
    assert_selectors(&[
        (IErc20::approveCall::SELECTOR, "095ea7b3"),
        (IWrappedNative::depositCall::SELECTOR, "d0e30db0"),
        (IWrappedNative::withdrawCall::SELECTOR, "2e1a7d4d"),
        (IPermit2::DOMAIN_SEPARATORCall::SELECTOR, "3644e515"),
        (IPermit2::allowanceCall::SELECTOR, "927da105"),
        (IPermit2::approveCall::SELECTOR, "87517c45"),
        (IPermit2::permitCall::SELECTOR, "2b67b570"),
        (IPermit2::lockdownCall::SELECTOR, "cc53287f"),
        (IFeed::latestRoundDataCall::SELECTOR, "feaf968c"),
        (IFeed::decimalsCall::SELECTOR, "313ce567"),
        (IStockToken::oraclePausedCall::SELECTOR, "7706ba52"),
    ]);
}

#[test]
fn the_selectors_of_errors_are_those_of_the_contracts() {
    assert_selectors(&[
        (RouterErrors::V4TooLittleReceived::SELECTOR, "8b063d73"),
        (RouterErrors::V4TooMuchRequested::SELECTOR, "12bacdd3"),
        (RouterErrors::V4TooLittleReceivedPerHopSingle::SELECTOR, "4713c18b"),
        (RouterErrors::V4TooLittleReceivedPerHop::SELECTOR, "a9b7edf7"),
        (RouterErrors::V3TooLittleReceived::SELECTOR, "39d35496"),
        (RouterErrors::V3TooLittleReceivedPerHop::SELECTOR, "b429f374"),
        (RouterErrors::TransactionDeadlinePassed::SELECTOR, "5bf6f916"),
        (RouterErrors::ExecutionFailed::SELECTOR, "2c4029e9"),
        (RouterErrors::SliceOutOfBounds::SELECTOR, "3b99b53d"),
        (RouterErrors::InsufficientETH::SELECTOR, "6a12f104"),
        (PoolErrors::CurrencyNotSettled::SELECTOR, "5212cba1"),
        (PoolErrors::PoolNotInitialized::SELECTOR, "486aa307"),
        (PoolErrors::WrappedError::SELECTOR, "90bfb865"),
        (PoolErrors::NotEnoughLiquidity::SELECTOR, "7a5ed734"),
        (PoolErrors::UnexpectedRevertBytes::SELECTOR, "6190b2b0"),
        (PoolErrors::QuoteSwap::SELECTOR, "ecbd9804"),
        (Permit2Errors::AllowanceExpired::SELECTOR, "d81b2f2e"),
        (Permit2Errors::InsufficientAllowance::SELECTOR, "f96fb071"),
        (Permit2Errors::InvalidNonce::SELECTOR, "756688fe"),
        (Permit2Errors::SignatureExpired::SELECTOR, "cd21db4f"),
    ]);
}

#[test]
fn the_topics_are_those_of_the_contracts() {
    let rows = [
        (
            IErc20::Transfer::SIGNATURE_HASH,
            b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
        ),
        (
            IWrappedNative::Deposit::SIGNATURE_HASH,
            b256!("e1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c"),
        ),
        (
            IWrappedNative::Withdrawal::SIGNATURE_HASH,
            b256!("7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65"),
        ),
        (
            IPoolManager::Swap::SIGNATURE_HASH,
            b256!("40e9cecb9f5f1f1c5b9c97dec2917b7ee92e57ba5563708daca94dd84ad7112f"),
        ),
        (
            IV3PoolEvents::Swap::SIGNATURE_HASH,
            b256!("c42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67"),
        ),
    ];
    for (topic, expected) in rows {
        assert_eq!(topic, expected);
    }
}
