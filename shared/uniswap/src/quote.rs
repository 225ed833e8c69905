//! Quotes of QuoterV2 and V4Quoter: call data, answers and reverts.
//!
//! Quoter functions are not view functions: use `eth_call`, from the wallet's own address, because a hook may see the
//! caller. A quote ignores allowances, balances and fees that a token takes on transfer: simulate the swap, too.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Bytes, U256, uint};
use alloy_sol_types::{SolCall, SolError};

use crate::abi::errors::pool::PoolErrors;
use crate::abi::v3::IQuoterV2;
use crate::abi::v4::IV4Quoter;
use crate::currency::Currency;
use crate::errors;
use crate::pool::PoolKey;
use crate::route::{Hop, V3Path, V4Path};

/// Square root price at which a v3 pool has run out of liquidity in a sale of token 0: one above the lowest price.
const SQRT_PRICE_EXHAUSTED_DOWN: U256 = uint!(4295128740_U256);

/// Square root price at which a v3 pool has run out of liquidity in a sale of token 1: one below the highest price.
const SQRT_PRICE_EXHAUSTED_UP: U256 = uint!(1461446703485210103287273052203988822378723970341_U256);

/// The output of a path for an exact input, or its cost for an exact output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// Smallest units of the output for an exact input, or of the input for an exact output.
    pub amount: U256,
    /// Gas that the pools use, as the quoter estimates it.
    pub gas: U256,
}

/// Why there is no quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuoteFault {
    #[error("the pool does not have enough liquidity for this amount")]
    InsufficientLiquidity,
    #[error("the quote failed: {0}")]
    Reverted(String),
    #[error("the quoter returned an invalid answer")]
    MalformedAnswer,
    #[error("the amount exceeds what a v4 pool can trade")]
    TooLarge,
}

/// Encodes QuoterV2's `quoteExactInputSingle` for a path of one pool, or `quoteExactInput` for a longer path.
pub fn v3_exact_input_call(path: &V3Path, amount_in: U256) -> Bytes {
    if let [hop] = path.hops() {
        let params = IQuoterV2::QuoteExactInputSingleParams {
            tokenIn: path.input(),
            tokenOut: path.output(),
            amountIn: amount_in,
            fee: hop.pool.abi_fee(),
            sqrtPriceLimitX96: U160::ZERO,
        };
        return IQuoterV2::quoteExactInputSingleCall { params }.abi_encode().into();
    }
    IQuoterV2::quoteExactInputCall { path: path.encode(), amountIn: amount_in }.abi_encode().into()
}

/// Decodes the answer to [`v3_exact_input_call`].
///
/// # Errors
/// The answer is invalid, or a pool ran out of liquidity: QuoterV2 then silently quotes only a part of the input.
pub fn decode_v3_exact_input(path: &V3Path, answer: &[u8]) -> Result<Quote, QuoteFault> {
    let odd = |_odd| QuoteFault::MalformedAnswer;
    if let [_] = path.hops() {
        let quote = IQuoterV2::quoteExactInputSingleCall::abi_decode_returns_validate(answer)
            .map_err(odd)?;
        return v3_quote(path, quote.amountOut, quote.gasEstimate, &[quote.sqrtPriceX96After]);
    }
    let quote = IQuoterV2::quoteExactInputCall::abi_decode_returns_validate(answer).map_err(odd)?;
    v3_quote(path, quote.amountOut, quote.gasEstimate, &quote.sqrtPriceX96AfterList)
}

/// Encodes QuoterV2's `quoteExactOutputSingle` for a path of one pool, or `quoteExactOutput` for a longer path.
pub fn v3_exact_output_call(path: &V3Path, amount_out: U256) -> Bytes {
    if let [hop] = path.hops() {
        let params = IQuoterV2::QuoteExactOutputSingleParams {
            tokenIn: path.input(),
            tokenOut: path.output(),
            amount: amount_out,
            fee: hop.pool.abi_fee(),
            sqrtPriceLimitX96: U160::ZERO,
        };
        return IQuoterV2::quoteExactOutputSingleCall { params }.abi_encode().into();
    }
    IQuoterV2::quoteExactOutputCall { path: path.encode_reversed(), amountOut: amount_out }
        .abi_encode()
        .into()
}

/// Decodes the answer to [`v3_exact_output_call`].
///
/// # Errors
/// The answer is invalid, or a pool ran out of liquidity.
pub fn decode_v3_exact_output(path: &V3Path, answer: &[u8]) -> Result<Quote, QuoteFault> {
    let odd = |_odd| QuoteFault::MalformedAnswer;
    if let [_] = path.hops() {
        let quote = IQuoterV2::quoteExactOutputSingleCall::abi_decode_returns_validate(answer)
            .map_err(odd)?;
        return v3_quote(path, quote.amountIn, quote.gasEstimate, &[quote.sqrtPriceX96After]);
    }
    let quote =
        IQuoterV2::quoteExactOutputCall::abi_decode_returns_validate(answer).map_err(odd)?;
    v3_quote(path, quote.amountIn, quote.gasEstimate, &quote.sqrtPriceX96AfterList)
}

/// Encodes V4Quoter's `quoteExactInputSingle` for a path of one pool, or `quoteExactInput` for a longer path.
///
/// # Errors
/// The amount exceeds 127 bits, which no v4 pool trades.
pub fn v4_exact_input_call(path: &V4Path, amount_in: U256) -> Result<Bytes, QuoteFault> {
    let amount = v4_amount(amount_in)?;
    if let [hop] = path.hops() {
        let params = v4_single(hop.pool, hop.zero_for_one, amount);
        return Ok(IV4Quoter::quoteExactInputSingleCall { params }.abi_encode().into());
    }
    let params = IV4Quoter::QuoteExactParams {
        exactCurrency: path.input().address(),
        path: path.to_abi(),
        exactAmount: amount,
    };
    Ok(IV4Quoter::quoteExactInputCall { params }.abi_encode().into())
}

/// Encodes V4Quoter's `quoteExactOutputSingle`.
///
/// Some hooks reject exact outputs.
///
/// # Errors
/// The amount exceeds 127 bits, which no v4 pool trades.
pub fn v4_exact_output_call(
    hop: &Hop<PoolKey, Currency>,
    amount_out: U256,
) -> Result<Bytes, QuoteFault> {
    let params = v4_single(hop.pool, hop.zero_for_one, v4_amount(amount_out)?);
    Ok(IV4Quoter::quoteExactOutputSingleCall { params }.abi_encode().into())
}

/// Decodes the answer to [`v4_exact_input_call`] or [`v4_exact_output_call`].
///
/// # Errors
/// The answer is invalid, or its amount exceeds 127 bits: a hook made it negative, and V4Quoter cast it to unsigned.
pub fn decode_v4(answer: &[u8]) -> Result<Quote, QuoteFault> {
    // All functions of V4Quoter return the same two words.
    let quote = IV4Quoter::quoteExactInputSingleCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| QuoteFault::MalformedAnswer)?;
    match i128::try_from(quote.amountOut) {
        Ok(_amount) => Ok(Quote { amount: quote.amountOut, gas: quote.gasEstimate }),
        Err(_wrapped) => Err(QuoteFault::MalformedAnswer),
    }
}

/// Returns why a quoter reverted.
///
/// An empty revert also comes from a missing pool: read the pool first.
pub fn decode_revert(data: &[u8]) -> QuoteFault {
    let wrapped = PoolErrors::UnexpectedRevertBytes::abi_decode_validate(data);
    let inner = wrapped.as_ref().map_or(data, |wrapper| &wrapper.revertData[..]);
    if PoolErrors::NotEnoughLiquidity::abi_decode_validate(inner).is_ok() {
        return QuoteFault::InsufficientLiquidity;
    }
    QuoteFault::Reverted(errors::reason(data))
}

fn v3_quote(
    path: &V3Path,
    amount: U256,
    gas: U256,
    prices_after: &[U160],
) -> Result<Quote, QuoteFault> {
    if prices_after.len() != path.hops().len() {
        return Err(QuoteFault::MalformedAnswer);
    }
    let mut ends = prices_after.iter().map(|price| U256::from(*price));
    if ends.any(|price| price <= SQRT_PRICE_EXHAUSTED_DOWN || price >= SQRT_PRICE_EXHAUSTED_UP) {
        return Err(QuoteFault::InsufficientLiquidity);
    }
    Ok(Quote { amount, gas })
}

fn v4_amount(amount: U256) -> Result<u128, QuoteFault> {
    let signed = i128::try_from(amount).map_err(|_large| QuoteFault::TooLarge)?;
    Ok(signed.unsigned_abs())
}

fn v4_single(pool: PoolKey, zero_for_one: bool, amount: u128) -> IV4Quoter::QuoteExactSingleParams {
    IV4Quoter::QuoteExactSingleParams {
        poolKey: pool.to_abi(),
        zeroForOne: zero_for_one,
        exactAmount: amount,
        hookData: Bytes::new(),
    }
}

#[cfg(test)]
mod tests;
