//! Turns a revert of a quoter, router, pool, hook or Permit2 into one short sentence.

use alloy_primitives::hex;
use alloy_sol_types::{Panic, Revert, SolError, SolInterface};
use bursar_core::text::quoted;

use crate::abi::errors::permit2::Permit2Errors::Permit2ErrorsErrors as Permit2Error;
use crate::abi::errors::pool::PoolErrors::PoolErrorsErrors as PoolError;
use crate::abi::errors::router::RouterErrors::RouterErrorsErrors as RouterError;

/// Maximum number of characters that are shown of a contract's text.
const TEXT_CHARS_MAX: usize = 120;

/// Maximum number of nested errors that are unwrapped. The data is untrusted.
const NESTING_MAX: u8 = 4;

/// Returns the reason of a revert as a sentence without a full stop.
///
/// A contract's own text is shown in quotes, with control characters made visible, and cut. An unknown error is shown
/// as its selector.
pub fn reason(data: &[u8]) -> String {
    nested_reason(data, NESTING_MAX)
}

fn nested_reason(data: &[u8], depth: u8) -> String {
    let Some(depth) = depth.checked_sub(1) else {
        return "errors within errors, too deep to read".to_owned();
    };
    if data.is_empty() {
        return "the contract gave no reason".to_owned();
    }
    if let Ok(error) = RouterError::abi_decode_validate(data) {
        return router_reason(&error, depth);
    }
    if let Ok(error) = PoolError::abi_decode_validate(data) {
        return pool_reason(&error, depth);
    }
    if let Ok(error) = Permit2Error::abi_decode_validate(data) {
        return permit2_reason(&error);
    }
    if let Ok(revert) = Revert::abi_decode_validate(data) {
        return sentence_of_text(&revert.reason);
    }
    if let Ok(panic) = Panic::abi_decode_validate(data) {
        return format!("the contract failed with panic 0x{:x}", panic.code);
    }
    match data.first_chunk::<4>() {
        Some(selector) => format!("unknown error {}", hex::encode_prefixed(selector)),
        None => "the contract gave an unreadable reason".to_owned(),
    }
}

fn router_reason(error: &RouterError, depth: u8) -> String {
    match error {
        RouterError::V4TooLittleReceived(e) => format!(
            "the swap would pay {}, less than the minimum of {}",
            e.amountReceived, e.minAmountOutReceived
        ),
        RouterError::V4TooMuchRequested(e) => format!(
            "the swap would cost {}, more than the maximum of {}",
            e.amountRequested, e.maxAmountInRequested
        ),
        RouterError::V4TooLittleReceivedPerHopSingle(_)
        | RouterError::V4TooLittleReceivedPerHop(_)
        | RouterError::V3TooLittleReceivedPerHop(_) => {
            "a pool's price is below the minimum price".to_owned()
        }
        RouterError::V3TooLittleReceived(_) => {
            "the swap would pay less than the minimum".to_owned()
        }
        RouterError::InvalidHopPriceLength(_) => {
            "the swap has a wrong number of minimum prices".to_owned()
        }
        RouterError::TransactionDeadlinePassed(_) => "the swap's deadline has passed".to_owned(),
        RouterError::ExecutionFailed(e) => {
            format!(
                "router command {} failed: {}",
                e.commandIndex,
                nested_reason(&e.message, depth)
            )
        }
        RouterError::SliceOutOfBounds(_)
        | RouterError::LengthMismatch(_)
        | RouterError::InputLengthMismatch(_)
        | RouterError::InvalidCommandType(_)
        | RouterError::UnsupportedAction(_) => {
            "the router does not understand the swap's call data".to_owned()
        }
        RouterError::InsufficientETH(_) => "the router holds too little native coin".to_owned(),
        RouterError::InsufficientToken(_) => "the router holds too little of a token".to_owned(),
        RouterError::InvalidEthSender(_) => "the router refused native coin".to_owned(),
    }
}

fn pool_reason(error: &PoolError, depth: u8) -> String {
    match error {
        PoolError::NotEnoughLiquidity(_) => "the pool has too little liquidity".to_owned(),
        PoolError::UnexpectedRevertBytes(e) => nested_reason(&e.revertData, depth),
        PoolError::QuoteSwap(_) => "the quoter returned its result as an error".to_owned(),
        PoolError::PoolNotInitialized(_) => "the pool does not exist".to_owned(),
        PoolError::CurrencyNotSettled(_) => "the swap left a debt with the pools".to_owned(),
        PoolError::SwapAmountCannotBeZero(_) => "the swap's amount is zero".to_owned(),
        PoolError::PriceLimitAlreadyExceeded(_) => {
            "the pool's price is already beyond the limit".to_owned()
        }
        PoolError::HookCallFailed(_) => "the pool's hook failed".to_owned(),
        PoolError::InvalidHookResponse(_) => {
            "the pool's hook returned an invalid answer".to_owned()
        }
        PoolError::HookDeltaExceedsSwapAmount(_) => {
            "the pool's hook takes more than the swap's amount".to_owned()
        }
        PoolError::ERC20TransferFailed(_) => "a token refused a transfer".to_owned(),
        PoolError::NativeTransferFailed(_) => "a transfer of native coin failed".to_owned(),
        PoolError::SafeCastOverflow(_) => "an amount exceeds what the pool can count".to_owned(),
        PoolError::WrappedError(e) => {
            format!("a call of {} failed: {}", e.target, nested_reason(&e.reason, depth))
        }
    }
}

fn permit2_reason(error: &Permit2Error) -> String {
    let text = match error {
        Permit2Error::AllowanceExpired(_) => "the Permit2 allowance has expired",
        Permit2Error::InsufficientAllowance(_) => "the Permit2 allowance is too small",
        Permit2Error::InvalidNonce(_) => "the permit's nonce is already used",
        Permit2Error::SignatureExpired(_) => "the permit's signature has expired",
        Permit2Error::InvalidSigner(_)
        | Permit2Error::InvalidSignature(_)
        | Permit2Error::InvalidSignatureLength(_)
        | Permit2Error::InvalidContractSignature(_) => "the permit's signature is invalid",
    };
    text.to_owned()
}

/// Explains the texts of SwapRouter02 and the v3 pools.
fn sentence_of_text(text: &str) -> String {
    let known = match text {
        "Too little received" => "the swap would pay less than the minimum",
        "Too much requested" => "the swap would cost more than the maximum",
        "Transaction too old" => "the swap's deadline has passed",
        "STF" | "TRANSFER_FROM_FAILED" => {
            "the token could not be taken from the wallet: check balance and allowance"
        }
        "ST" => "a token refused a transfer",
        "STE" => "a transfer of native coin failed",
        "Insufficient WETH9" => "the router received less wrapped coin than the minimum",
        "AS" => "the swap's amount is zero",
        "SPL" => "the pool's price is already beyond the limit",
        "LOK" => "the pool is locked or has no price yet",
        "IIA" => "the pool did not receive its input",
        "OLD" => "the pool keeps no price that old",
        other => {
            return format!("the contract failed with the text {}", quoted(other, TEXT_CHARS_MAX));
        }
    };
    known.to_owned()
}

#[cfg(test)]
mod tests;
